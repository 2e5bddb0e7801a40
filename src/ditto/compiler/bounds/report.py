"""report: what holds every range of a plan: a proof, a check that cannot miss, samples.

proven    the value cannot leave the range, as long as nothing before it did.
caught    it can, but then the check of the range flags it for certain: it stays below
          twice the limit of a recast, inside the spare levels of a grid, or what
          follows exp by squarings overflows into what is checked.
sampled   beyond that the ring has forgotten how large it was: the range rests on
          samples and margin, and the check flags it with some chance.

By induction over the steps, if no value leaves a sampled range by so much, every value
that leaves a range is noticed: the first one to do so has operands that are in theirs.

A report tells more of the weights than a plan does. It stays with the owner.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from ditto.compiler.bounds.prover import Proof, prove
from ditto.compiler.calibrate import Range
from ditto.files import JsonValue
from ditto.fixedpoint import Array, FxpType
from ditto.plan import Graph, Plan, Step
from ditto.protocols import product_type
from ditto.protocols.blocks import FAR_REACH
from ditto.protocols.recast import Conversion
from ditto.steps import (
    CoarseMax,
    Einsum,
    Exponential,
    LinearMap,
    Lookup,
    Multiply,
    PiecewiseQuadratic,
    Recast,
    TableFunction,
)

Kind = Literal["recast", "grid", "table", "fit"]
Held = Literal["proven", "caught", "sampled"]
KINDS: tuple[Kind, ...] = ("recast", "grid", "table", "fit")
HELD: tuple[Held, ...] = ("proven", "caught", "sampled")

_NEARLY = 1.004
"""How far beyond their ends squarings are still as good as inside."""


@dataclass(frozen=True)
class CheckedRange:
    """One range that a step relies on."""

    step: int
    kind: Kind
    scope: str
    low: float
    high: float
    """What the step takes."""
    seen: tuple[float, float]
    """What the samples showed."""
    proven: tuple[float, float]
    """Between what the value lies if nothing before it left its range."""
    held: Held


@dataclass(frozen=True)
class RangeReport:
    """All ranges of a plan, in the order of its steps."""

    ranges: tuple[CheckedRange, ...]

    def as_json(self) -> list[dict[str, JsonValue]]:
        """Every range as JSON, without ends where there is no bound."""

        def finite(ends: tuple[float, float]) -> list[JsonValue]:
            return [end if math.isfinite(end) else None for end in ends]

        return [
            asdict(r) | {"seen": finite(r.seen), "proven": finite(r.proven)}
            for r in self.ranges
        ]

    def parts(self) -> dict[str, "RangeReport"]:
        """The ranges of every layer, and of what comes before and after them."""
        names = dict.fromkeys(r.scope.split("/")[0] for r in self.ranges)
        return {
            name: RangeReport(
                tuple(r for r in self.ranges if r.scope.split("/")[0] == name)
            )
            for name in names
        }

    def counts(self, kind: Kind | None = None) -> Mapping[Held, int]:
        """How many ranges hold by what, of one kind or of all."""
        found = Counter(r.held for r in self.ranges if kind in (None, r.kind))
        return {held: found[held] for held in HELD}

    def certain(self, kind: Kind | None = None) -> float:
        """The share of ranges that are proven or caught."""
        counts = self.counts(kind)
        total = sum(counts.values())
        return 1.0 if total == 0 else 1 - counts["sampled"] / total


@dataclass(frozen=True)
class _Place:
    step: int
    kind: Kind
    node: int
    low: float
    high: float
    room: float = 0.0
    """How far beyond both ends a check sees for certain."""
    room_below: float | None = None
    """The same below, if it is another."""


def report_ranges(
    plan: Plan,
    origins: Sequence[int],
    graph: Graph,
    known: Sequence[Range],
    secret: Sequence[bool],
    weights: Mapping[int, Array],
) -> RangeReport:
    """What holds the ranges of a plan that was emitted from a graph.

    ``origins`` tells of every value of the plan which node it is.
    """
    places = [
        place
        for k, step in enumerate(plan.steps)
        if (place := _place(plan, k, step, origins)) is not None
    ]
    limits: dict[int, float] = {}
    for place in places:
        if place.kind == "recast":
            known_limit = limits.get(place.node, math.inf)
            limits[place.node] = min(known_limit, place.high)
    proof = prove(graph, known, secret, weights, limits)
    return RangeReport(
        tuple(_judged(plan, place, known, proof, limits, graph) for place in places)
    )


def _place(plan: Plan, k: int, step: Step, origins: Sequence[int]) -> _Place | None:
    kind = step.kind
    if not step.inputs or not plan.values[step.outputs[0]].is_shared:
        return None
    if origins[step.outputs[0]] < 0:
        return None  # of a remainder: its type holds whatever rounding leaves
    held, made = plan.values[step.inputs[0]], plan.values[step.outputs[0]]
    if isinstance(kind, Recast) and kind.casts == "ours":
        return _recast(k, origins[step.inputs[0]], held.fxp, made.fxp)
    if isinstance(kind, Multiply | Einsum):
        source = product_type(held.fxp, plan.values[step.inputs[1]].fxp)
        return _recast(k, origins[step.outputs[0]], source, made.fxp)
    if isinstance(kind, Lookup):
        table = plan.values[step.inputs[1]].fxp
        return _recast(k, origins[step.outputs[0]], table, made.fxp)
    node = origins[step.inputs[0]]
    if isinstance(kind, CoarseMax):
        grid, ulp = kind.grid(held.fxp), held.fxp.ulp
        seen = FAR_REACH[grid.words_of_ring] * grid.levels * 2.0**kind.cut * ulp
        ring = 2 * held.fxp.max_value - max(abs(kind.low), abs(kind.high)) * ulp
        room = min(seen, ring)  # beyond its ring a value counts around
        return _Place(k, "grid", node, kind.low * ulp, kind.high * ulp, room)
    if isinstance(kind, PiecewiseQuadratic | Exponential):
        grid, ulp = kind.between(held.fxp, made.fxp).grid, held.fxp.ulp
        room = FAR_REACH[kind.far_words] * grid.levels * 2.0**kind.cut * ulp
        return _Place(k, "fit", node, kind.low * ulp, kind.high * ulp, room)
    if isinstance(kind, TableFunction):
        scales, ulp = kind.table(held.fxp, made.fxp).scales, held.fxp.ulp
        room = scales[-1].room * ulp
        below = room if len(scales) == 1 else 0.0  # wide cells see little below
        return _Place(k, "table", node, kind.low * ulp, kind.high * ulp, room, below)
    if isinstance(kind, LinearMap) and kind.operation == "within":
        ends = (float(kind.params[end]) for end in ("low", "high"))
        return _Place(k, "fit", origins[step.outputs[0]], *ends)
    return None


def _recast(k: int, node: int, source: FxpType, target: FxpType) -> _Place | None:
    """A recast whose carry matters; any other is right whatever it takes."""
    if source == target or not Conversion(source, target).carry_width:
        return None
    limit = source.max_value
    return _Place(k, "recast", node, -limit, limit, limit)


def _judged(
    plan: Plan,
    place: _Place,
    known: Sequence[Range],
    proof: Proof,
    limits: Mapping[int, float],
    graph: Graph,
) -> CheckedRange:
    node = place.node
    unchecked = place.kind == "fit" and graph.nodes[node].op == "within"
    if unchecked:
        (source,) = graph.nodes[node].inputs
        reach = _below(proof.reach[source], limits.get(source, math.inf))
    else:
        source, reach = node, proof.reach[node]
    if place.kind != "recast" and not unchecked:
        # what they take may have been checked before
        reach = _below(reach, limits.get(node, math.inf))
    held: Held = "sampled"
    below = place.room if place.room_below is None else place.room_below
    if place.low <= reach[0] and reach[1] < place.high:
        held = "proven"
    elif unchecked:
        held = "caught" if _overflows(place, proof, limits) else "sampled"
    elif place.low - below <= reach[0] and reach[1] < place.high + place.room:
        held = "caught"
    return CheckedRange(
        place.step,
        place.kind,
        plan.steps[place.step].scope,
        place.low,
        place.high,
        (known[source].low, known[source].high),
        reach,
        held,
    )


def _below(reach: tuple[float, float], limit: float) -> tuple[float, float]:
    return max(reach[0], -limit), min(reach[1], limit)


def _overflows(place: _Place, proof: Proof, limits: Mapping[int, float]) -> bool:
    """Whether a recast that follows squarings catches all that they are no good for.

    Followed along the range of their operand: at each point outside, the first
    recast that is left has to be left by less than twice its limit.
    """
    own = proof.curves.get(place.node)
    if own is None:
        return False
    x = own.samples[0]
    open_points = (x < place.low * _NEARLY) | (x > place.high * _NEARLY)
    for i in sorted(limits):
        curve = proof.curves.get(i)
        if curve is None or curve.source != place.node or len(curve.samples) > 1:
            continue
        size = np.abs(curve.samples[0]) / limits[i]
        if bool(np.any(open_points & ~(size < 2))):
            return False
        open_points &= size < 1
    return not bool(open_points.any())
