"""``ditto status``: how the parties of a deployment are, now or as it changes."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ditto.cli.exit_codes import ExitCode
from ditto.cli.remote import CredentialsFolder, DeploymentFile
from ditto.cli.report import JsonFile, Report, console
from ditto.cli.show import table
from ditto.errors import DittoError, SetupError

if TYPE_CHECKING:
    from ditto.client.remote import Trios
    from ditto.files import Json
    from ditto.wire.agreement import Agreement
    from ditto.wire.catalogue import ServiceStatus

    Statuses = Mapping[tuple[int, int], ServiceStatus | DittoError]
    """By trio and rank: what a party says, or why it does not answer."""

_TIMEOUT = 3.0
_AT_ONCE = 24


def status(
    deployment: DeploymentFile,
    credentials: CredentialsFolder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show what changes; Ctrl-C ends.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="With --watch: seconds between two looks.", min=0.5)
    ] = 2.0,
    json_file: JsonFile = None,
) -> None:
    """Show every party of every trio: its state, queue, models and version.

    Ends with code 5 if not all of them are ready. `ditto doctor --deployment` says why
    one cannot be reached.
    """
    from ditto.client.remote import Trios
    from ditto.trust import load_credentials
    from ditto.wire.agreement import read_agreement

    report = Report(json_file)
    if watch and json_file is not None:
        raise SetupError("--watch is for people: leave out --json, or --watch.")
    agreement = read_agreement(deployment)
    trios = Trios(agreement, load_credentials(credentials, agreement.trusted_domains))
    try:
        if watch:
            _follow(trios, every)
        statuses = _ask_all(trios)
    finally:
        trios.close()
    report.print(_shown(agreement, statuses))
    report.write(_as_json(agreement, statuses))
    if not all(_is_ready(each) for each in statuses.values()):
        raise typer.Exit(ExitCode.PARTIES)


def _follow(trios: "Trios", every: float) -> None:
    screen = console()
    with Live(console=screen, auto_refresh=False) as live:
        while True:
            shown = _shown(trios.agreement, _ask_all(trios))
            if screen.is_terminal:
                live.update(shown, refresh=True)
            else:  # one after another, as in a log
                screen.print(shown)
            time.sleep(every)


def _ask_all(trios: "Trios") -> "Statuses":
    places = [
        (trio, rank) for trio in range(trios.agreement.trios) for rank in range(3)
    ]

    def ask(place: tuple[int, int]) -> "ServiceStatus | DittoError":
        try:
            return trios.parties(place[0])[place[1]].status(_TIMEOUT)
        except DittoError as error:
            return error

    with ThreadPoolExecutor(min(len(places), _AT_ONCE)) as pool:
        return dict(zip(places, pool.map(ask, places), strict=True))


def _is_ready(found: "ServiceStatus | DittoError") -> bool:
    return not isinstance(found, DittoError) and found.state == "ready"


def _shown(agreement: "Agreement", statuses: "Statuses") -> RenderableType:
    made = table(
        f"{agreement.name}: {sum(map(_is_ready, statuses.values()))} of "
        f"{len(statuses)} parties ready",
        ["trio", "party", "state"],
        ["running", "waiting", "models", "version"],
        [],
    )
    problems = []
    for (trio, rank), found in statuses.items():
        name = agreement.parties[rank].trust_domain
        if isinstance(found, DittoError):
            made.add_row(str(trio), name, Text("no answer", "red"), *["-"] * 4)
            problems.append(f"trio {trio}, {name}: {found}")
            continue
        agreed = sum(model.agreed for model in found.models)
        state = Text(found.state, "green" if _is_ready(found) else "yellow")
        counts = (found.running, found.waiting, f"{agreed}/{len(found.models)}")
        made.add_row(str(trio), name, state, *map(str, counts), found.version)
        if found.problem is not None and not _is_ready(found):
            problems.append(f"trio {trio}, {name}: {found.problem}")
    return Group(made, *(Text(problem) for problem in problems))


def _as_json(agreement: "Agreement", statuses: "Statuses") -> "Json":
    return {
        "agreement": agreement.digest,
        "ready": all(_is_ready(each) for each in statuses.values()),
        "parties": [
            {
                "trio": trio,
                "rank": rank,
                "trust_domain": agreement.parties[rank].trust_domain,
                "error": str(found) if isinstance(found, DittoError) else None,
                "status": None
                if isinstance(found, DittoError)
                else found.model_dump(mode="json"),
            }
            for (trio, rank), found in statuses.items()
        ],
    }
