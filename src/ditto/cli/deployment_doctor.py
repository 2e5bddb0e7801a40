"""``ditto doctor --deployment``: can the parties be reached, and do they agree?"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.remote import needed
from ditto.cli.report import Report
from ditto.cli.show import table
from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.client.reachability import PartyReport
    from ditto.files import Json
    from ditto.wire.agreement import Agreement

_MARKS = {True: Text("ok", "green"), False: Text("NO", "bold red"), None: Text("-")}


def examine_deployment(
    deployment: Path, credentials: Path | None, trio: int | None, report: Report
) -> None:
    """Show what is found of all parties; ends with code 4 if something is wrong."""
    from ditto.client.reachability import examine
    from ditto.trust import load_credentials
    from ditto.wire.agreement import read_agreement

    agreement = read_agreement(deployment)
    folder = needed(credentials)
    if trio is not None and not 0 <= trio < agreement.trios:
        raise SetupError(
            f"--trio is 0 to {agreement.trios - 1} in this agreement, got {trio}."
        )
    mine = load_credentials(folder, agreement.trusted_domains)
    trios = range(agreement.trios) if trio is None else [trio]
    found: dict[int, tuple[PartyReport, ...]] = {}
    with stages() as shown:
        for number in trios:
            shown.count("trio", number + 1, agreement.trios)
            found[number] = examine(agreement, mine, number)
    report.print(f"As {mine.identity}, until {mine.expires:%Y-%m-%d}.", markup=False)
    for number, reports in found.items():
        report.print(_from_here(number, reports), _linked(agreement, reports))
        for line in _causes(reports):
            report.print(line)
    well = all(party.ok for reports in found.values() for party in reports)
    report.write(
        {
            "identity": str(mine.identity),
            "agreement": agreement.digest,
            "ok": well,
            "parties": [_as_json(r) for reports in found.values() for r in reports],
        }
    )
    if not well:
        raise typer.Exit(ExitCode.SETUP)
    report.print("[green]All well[/]: every party is ready and all agree.")


def _from_here(trio: int, reports: "Sequence[PartyReport]") -> Table:
    from ditto.client.reachability import CHECKS

    headings = ["from here", *(party.trust_domain for party in reports)]
    made = table(f"Trio {trio}", headings, [], [])
    for name in CHECKS:
        marks = [{c.name: c.ok for c in r.checks}.get(name) for r in reports]
        made.add_row(name, *(_MARKS[mark] for mark in marks))
    return made


def _linked(agreement: "Agreement", reports: "Sequence[PartyReport]") -> Table:
    """What each party says of its links to the others, and how it is itself.

    They are up to both peers or to none: three are needed for a greeting.
    """
    domains = [party.trust_domain for party in reports]
    made = table("", ["linked with", *domains], [], [])
    for who in reports:
        cells = []
        for whom in reports:
            if who is whom:
                cells.append(Text(who.status.state if who.status else "-", "dim"))
                continue
            identity = str(agreement.party_identity(whom.rank))
            up = who.status.peers.get(identity) if who.status else None
            cells.append(_MARKS[up])
        made.add_row(who.trust_domain, *cells)
    return made


def _causes(reports: "Sequence[PartyReport]") -> list[Text]:
    return [
        Text.assemble(
            (f"{party.trust_domain}, {check.name}: ", "bold red"),
            f"{check.found} {check.advice}",
        )
        for party in reports
        for check in party.failures
        if check.name != "ready" or len(party.failures) == 1  # it follows from others
    ]


def _as_json(party: "PartyReport") -> "Json":
    return {
        "rank": party.rank,
        "trio": party.trio,
        "trust_domain": party.trust_domain,
        "ok": party.ok,
        "checks": [asdict(check) for check in party.checks],
        "status": party.status and party.status.model_dump(mode="json"),
    }
