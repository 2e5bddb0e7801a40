"""``ditto explain`` and ``ditto estimate``: read a plan before it runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

PlanFile = Annotated[
    Path,
    typer.Argument(help="A plan, as Plan.save or 'ditto bench layer --save' write."),
]


def explain(
    plan_file: PlanFile,
    free: Annotated[
        bool, typer.Option("--all", help="Also steps that send nothing.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Also draw the plan into this SVG file.")
    ] = None,
) -> None:
    """Show the steps of a plan: scope, types, bytes and rounds.

    Bytes and rounds are of all parties together. They are exact for our protocols, and
    from a measured table of SPU's operations for what SPU computes.
    """
    from ditto.compiler import Plan

    plan = Plan.load(plan_file)
    typer.echo(plan.explain(free=free), nl=False)
    if svg:
        svg.write_text(plan.draw())
        typer.echo(f"drawn into {svg}")


def estimate(
    plan_file: PlanFile,
    rtt: Annotated[str, typer.Option(help="Round trip, such as 40ms.")] = "0.4ms",
    bandwidth: Annotated[
        str, typer.Option(help="Of each party, such as 400mbit.")
    ] = "5gbit",
) -> None:
    """Estimate how long a plan takes on a network, before anything runs.

    Waiting and sending follow from exact bytes and rounds; computing is a rough figure
    for two cores a party.
    """
    from ditto.compiler import Network, Plan

    found = Plan.load(plan_file).estimate(Network.parse(rtt, bandwidth))
    table = Table(title=f"{rtt} round trip, {bandwidth}", title_justify="left")
    for heading in ("", "seconds", "from"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    table.add_row("waiting", f"{found.waiting:.3f}", f"{found.rounds:g} rounds")
    table.add_row("sending", f"{found.sending:.3f}", f"{found.bytes / 1e6:.1f} MB")
    table.add_row("computing", f"{found.computing:.3f}", "two cores a party")
    table.add_section()
    table.add_row("together", f"{found.seconds:.3f}", "")
    Console().print(table)
