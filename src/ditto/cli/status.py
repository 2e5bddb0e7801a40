"""``ditto status``: the parties of a deployment and how they are, at a glance."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.exit_codes import ExitCode
from ditto.cli.report import JsonFile, Report
from ditto.cli.show import table

if TYPE_CHECKING:
    from rich.table import Table

    from ditto.client.remote import Trios
    from ditto.errors import DittoError
    from ditto.files import Json
    from ditto.wire.catalogue import ServiceStatus


def status(
    deployment: Annotated[Path, typer.Option("--deployment", help="deployment.toml.")],
    credentials: Annotated[
        Path,
        typer.Option("--as", help="The folder with tls.crt and tls.key of who asks."),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every two seconds, until Ctrl-C.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Show every party of every trio: its state, what runs and waits, its models.

    Anybody whom the agreement admits may ask. Ends with code 5 if a party is not
    ready; `ditto doctor --deployment` says what stands in the way.
    """
    from ditto.client.remote import Trios
    from ditto.trust import load_credentials
    from ditto.wire.agreement import read_agreement

    report = Report(json_file)
    agreement = read_agreement(deployment)
    mine = load_credentials(credentials, agreement.trusted_domains)
    trios = Trios(agreement, mine)
    try:
        while True:
            rows = list(_ask_all(trios, agreement.trios))
            report.print(_table(rows))
            if not watch:
                break
            time.sleep(2.0)
    finally:
        trios.close()
    report.write([_as_json(*row) for row in rows])
    if any(found is None or found.state != "ready" for _, _, found, _ in rows):
        raise typer.Exit(ExitCode.PARTIES)


_Row = tuple[int, str, "ServiceStatus | None", "DittoError | None"]
"""The trio, the party's name, and how it is or why it could not be asked."""


def _ask_all(trios: "Trios", count: int) -> Iterator[_Row]:
    from concurrent.futures import ThreadPoolExecutor

    from ditto.errors import DittoError

    parties = [(trio, party) for trio in range(count) for party in trios.parties(trio)]
    with ThreadPoolExecutor(min(32, len(parties))) as pool:
        asked = [(t, p, pool.submit(p.status, 5.0)) for t, p in parties]
        for trio, party, future in asked:
            try:
                yield trio, party.name, future.result(), None
            except DittoError as error:
                yield trio, party.name, None, error


def _table(rows: "list[_Row]") -> "Table":
    shown = []
    for trio, name, found, error in rows:
        if found is None:
            shown.append(
                [str(trio), name, "not reachable", str(error)[:60], "", "", ""]
            )
            continue
        agreed = sum(model.agreed for model in found.models)
        models = f"{agreed} of {len(found.models)}"
        problem = (found.problem or "")[:60]
        counts = [models, str(found.running), str(found.waiting)]
        shown.append([str(trio), name, found.state, problem, *counts])
    texts = ["trio", "party", "state", "problem"]
    return table("Parties", texts, ["models agreed", "running", "waiting"], shown)


def _as_json(
    trio: int, name: str, found: "ServiceStatus | None", error: "DittoError | None"
) -> "Json":
    if found is None:
        return {"trio": trio, "party": name, "error": str(error)}
    return {"party": name, **found.model_dump(mode="json")}
