"""A plan as a table that people read."""

import io
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ditto.analysis.cost import Predicted, predict
from ditto.plan import Plan, part_of
from ditto.steps import Site, definition
from ditto.steps.coverage import coverage

_REST = "(rest)"
"""Steps that belong to no part."""


@dataclass(frozen=True)
class Line:
    """One step of the table."""

    index: int
    scope: str
    what: str
    types: str
    predicted: Predicted


def lines(plan: Plan, *, free: bool = False) -> list[Line]:
    """The steps; those that send nothing only if ``free``."""
    sites = [Site.of(plan, i) for i in range(len(plan.steps))]
    return [
        Line(site.index, site.step.scope, describe(site), signature(site), cost)
        for site, cost in zip(sites, predict(plan), strict=True)
        if free or cost.bytes
    ]


def describe(site: Site) -> str:
    """What a step does, in a word or two."""
    return definition(site.step).describe(site)


def signature(site: Site) -> str:
    """Types of operands and results."""
    taken = [str(value) for value in site.operands if not value.is_public]
    return f"{', '.join(taken)} → {', '.join(map(str, site.results))}"


def explain(plan: Plan, *, free: bool = False, width: int = 150) -> str:
    """The steps of every scope as a text, and what they come to.

    Steps that send nothing are in it only if ``free``.
    """
    table = _table(plan, ("step", "what", "types"))
    every = lines(plan, free=True)
    scope = None
    for line in every:
        if not (free or line.predicted.bytes):
            continue
        if line.scope != scope:
            scope = line.scope
            table.add_row("", Text(scope or _REST, "bold"), "", "", "")
        what = (str(line.index), line.what, line.types)
        table.add_row(*what, *_costs(line.predicted.bytes, line.predicted.rounds))
    return _finished(table, plan, width, columns=3)


def summary(plan: Plan, *, width: int = 80) -> str:
    """The parts of a plan as a text: steps, bytes and rounds of each."""
    table = _table(plan, ("part", "steps"))
    for part, (steps, sent, rounds) in by_part(plan).items():
        table.add_row(part or _REST, str(steps), *_costs(sent, rounds))
    return _finished(table, plan, width, columns=2)


def by_part(plan: Plan) -> dict[str, tuple[int, float, float]]:
    """Steps, bytes and rounds of every part of the model."""
    sums: dict[str, tuple[int, float, float]] = {}
    for step, cost in zip(plan.steps, predict(plan), strict=True):
        steps, sent, rounds = sums.get(part_of(step.scope), (0, 0.0, 0.0))
        sums[part_of(step.scope)] = steps + 1, sent + cost.bytes, rounds + cost.rounds
    return sums


def by_scope(plan: Plan) -> dict[str, tuple[float, float]]:
    """Bytes and rounds of every scope."""
    sums: dict[str, tuple[float, float]] = {}
    for step, cost in zip(plan.steps, predict(plan), strict=True):
        sent, rounds = sums.get(step.scope, (0.0, 0.0))
        sums[step.scope] = sent + cost.bytes, rounds + cost.rounds
    return sums


def _table(plan: Plan, headings: tuple[str, ...]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    regions = f"{len(plan.regions)} distinct SPU regions, " if plan.regions else ""
    table.title = (
        f"profile {plan.profile}, {len(plan.steps)} steps, {regions}"
        f"digest {plan.digest[:16]}"
    )
    table.min_width = len(table.title)
    for heading in headings:
        numbers = heading == "steps"
        table.add_column(
            heading, overflow="fold", justify="right" if numbers else "left"
        )
    for heading in ("MB", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _finished(table: Table, plan: Plan, width: int, *, columns: int) -> str:
    """The table with its sums, as text."""
    costs = predict(plan)
    table.add_section()
    together = sum(c.bytes for c in costs), sum(c.rounds for c in costs)
    table.add_row("all", *[""] * (columns - 1), *_costs(*together))
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(table)
    unknown = sorted({key for cost in costs for key in cost.unknown})
    if unknown:
        buffer.write(f"Not counted, no row in the cost table: {', '.join(unknown)}\n")
    if plan.provable:
        buffer.write(f"Recasts are provable; {coverage(plan)}.\n")
    return buffer.getvalue()


def _costs(sent: float, rounds: float) -> tuple[str, str]:
    return f"{sent / 1e6:.3f}", f"{rounds:g}"
