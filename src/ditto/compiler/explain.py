"""A plan as a table that people read."""

import io
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ditto.compiler.cost import Predicted, predict
from ditto.compiler.plan import Plan, Step
from ditto.protocols import product_type


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
    return [
        Line(i, step.scope, describe(plan, step), signature(plan, step), cost)
        for i, (step, cost) in enumerate(zip(plan.steps, predict(plan), strict=True))
        if free or cost.bytes
    ]


def describe(plan: Plan, step: Step) -> str:
    """What a step does, in a word or two."""
    if step.op == "region":
        region = plan.regions[step.params["region"]]
        names = [n.op for n in region.graph.nodes if n.op not in ("input", "constant")]
        distinct = list(dict.fromkeys(names))
        shown = ", ".join(distinct[:4]) + (", …" if len(distinct) > 4 else "")
        return f"SPU: {shown}"
    if step.op == "local":
        return str(step.params["op"])
    if step.op == "curve":
        return str(step.params["function"])
    if step.op in ("multiply", "einsum", "lookup") and fused(plan, step):
        return f"{step.op} + recast"
    return step.op


def fused(plan: Plan, step: Step) -> bool:
    """Whether a product has a recast in it."""
    a, b = (t for v in step.inputs if (t := plan.values[v].type))
    source = b if step.op == "lookup" else product_type(a, b)
    return plan.values[step.outputs[0]].type != source


def signature(plan: Plan, step: Step) -> str:
    """Types of operands and results."""
    given = [plan.values[v] for v in step.inputs if plan.values[v].kind != "public"]
    made = [plan.values[v] for v in step.outputs]
    return f"{', '.join(map(str, given))} → {', '.join(map(str, made))}"


def explain(plan: Plan, *, free: bool = False) -> str:
    """The table as text: the steps of every scope, and what they come to."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.title = (
        f"profile {plan.profile.name}, {len(plan.steps)} steps, "
        f"{len(plan.regions)} distinct SPU regions, digest {plan.digest[:16]}"
    )
    for heading in ("step", "scope", "what", "types"):
        table.add_column(heading, overflow="fold")
    for heading in ("MB", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    every = lines(plan, free=True)
    everything = [line.predicted for line in every]
    for line in every:
        if not (free or line.predicted.bytes):
            continue
        table.add_row(
            str(line.index),
            line.scope,
            line.what,
            line.types,
            f"{line.predicted.bytes / 1e6:.3f}",
            f"{line.predicted.rounds:g}",
        )
    table.add_section()
    table.add_row(
        "",
        "",
        "all",
        "",
        f"{sum(c.bytes for c in everything) / 1e6:.3f}",
        f"{sum(c.rounds for c in everything):g}",
    )
    buffer = io.StringIO()
    Console(file=buffer, width=150).print(table)
    unknown = sorted({u for c in everything for u in c.unknown})
    if unknown:
        buffer.write(f"Not counted, no row in the cost table: {', '.join(unknown)}\n")
    return buffer.getvalue()


def by_scope(plan: Plan) -> dict[str, tuple[float, float]]:
    """Bytes and rounds of every scope."""
    found: dict[str, tuple[float, float]] = {}
    for step, cost in zip(plan.steps, predict(plan), strict=True):
        held = found.get(step.scope, (0.0, 0.0))
        found[step.scope] = (held[0] + cost.bytes, held[1] + cost.rounds)
    return found
