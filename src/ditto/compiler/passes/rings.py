"""rings: decide for every node who computes it and in which ring.

Linear algebra is native, in the low ring, and so are the coarse maximum, exponentials,
functions by parabolas and the tables of few values. Comparisons, maxima and
selections by secret bits run in SPU on plain integers of the low ring, whatever their
frac. Reciprocals, roots, logarithms and all we have no protocol for run in SPU's high
ring.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.fixedpoint import FxpType
from ditto.operations import Trait, has
from ditto.plan import Graph

Placement = Literal[
    "public",
    "input",
    "linear",
    "scale",
    "product",
    "lookup",
    "maximum",
    "pieces",
    "exponential",
    "table",
    "low",
    "high",
]

_MAX_SPREAD = 8.0
"""log2 of the largest over the smallest public factor that one frac can serve."""
_OWN_STEPS: dict[str, Placement] = {
    "input": "input",
    "lookup": "lookup",
    "coarse_max": "maximum",
    "exponential": "exponential",
    "piecewise_quadratic": "pieces",
    "table_function": "table",
}
_MIN_PRECISION = 5.0
"""Significant bits below which a product moves to the high ring."""


def secrets(graph: Graph, public_inputs: Sequence[bool]) -> list[bool]:
    """For every node, whether it depends on a secret."""
    found: list[bool] = []
    for node in graph.nodes:
        if node.op == "input":
            found.append(not public_inputs[node.params["index"]])
        else:
            found.append(any(found[u] for u in node.inputs))
    return found


def secret_numbers(graph: Graph, i: int, placements: list[Placement]) -> list[int]:
    """The secret operands of a node that carry numbers."""
    nodes = graph.nodes
    return [
        u
        for u in nodes[i].inputs
        if placements[u] != "public" and nodes[u].dtype != "bool"
    ]


def assign_rings(
    graph: Graph, known: list[Range], secret: list[bool]
) -> list[Placement]:
    """The placement of every node."""
    placements: list[Placement] = [
        _placement(graph, i, secret) for i in range(len(graph.nodes))
    ]
    for i, node in enumerate(graph.nodes):
        if placements[i] == "product" and node.dtype == "float32":
            finest = FxpType.finest(bits=32, bound=2 * known[i].largest).frac
            magnitude = sum(math.log2(known[u].rms) for u in node.inputs)
            if (finest + magnitude) / 2 < _MIN_PRECISION:
                placements[i] = "high"
    users = graph.users()
    for i in range(len(graph.nodes)):
        wide = placements[i] == "scale" and _spread(graph, i) > _MAX_SPREAD
        if wide and not _is_summand(graph, i, known, users[i]):
            placements[i] = "high"
    for i in range(len(graph.nodes) - 1, -1, -1):
        if placements[i] in ("linear", "scale", "product") and users[i]:
            above = all(placements[u] == "high" for u in users[i])
            operands = {u for u in graph.nodes[i].inputs if secret[u]}
            between = all(placements[u] == "high" for u in operands)
            before = has(graph.nodes[i].op, Trait.AFFINE) and len(operands) == 1
            if above and (between or (before and power_of_two(graph, i) is None)):
                placements[i] = "high"
    return placements


def power_of_two(graph: Graph, i: int) -> tuple[int, int] | None:
    """For a product with a public power of two: the operand and the exponent."""
    node = graph.nodes[i]
    if node.op != "mul" or node.dtype != "float32":
        return None
    for k in (0, 1):
        factor = graph.uniform(node.inputs[k])
        other = node.inputs[1 - k]
        if factor and factor > 0 and graph.nodes[other].shape == node.shape:
            mantissa, exponent = math.frexp(factor)
            if mantissa == 0.5:
                return other, exponent - 1
    return None


def _spread(graph: Graph, i: int) -> float:
    """log2 of the largest over the smallest public factor, if they are known."""
    node = graph.nodes[i]
    if node.dtype != "float32":
        return 0.0
    for u in node.inputs:
        values = graph.constant(u)
        if values is not None:
            sizes = np.abs(values[values != 0].astype(np.float64))
            return float(np.log2(sizes.max() / sizes.min())) if sizes.size else 0.0
    return 0.0


def _is_summand(graph: Graph, i: int, known: list[Range], users: Sequence[int]) -> bool:
    """Whether a value is only added to others, to no less than itself: then small
    elements need no more bits than the sum has, as with the sines of small angles."""
    return bool(users) and all(
        graph.nodes[u].op in ("add", "sub") and known[u].rms >= known[i].rms
        for u in users
    )


def _placement(graph: Graph, i: int, secret: list[bool]) -> Placement:
    node = graph.nodes[i]
    if not secret[i]:
        return "public"
    if node.op in _OWN_STEPS:
        return _OWN_STEPS[node.op]
    if node.dtype == "bool":
        return "low"
    hidden = [secret[u] for u in node.inputs]
    whole = graph.nodes[node.inputs[0]].dtype
    placement: Placement = "high"
    match node.op:
        case "add" | "sub" | "neg":
            placement = "linear"
        case "mul" | "dot_general":
            placement = "product" if all(hidden) else "scale"
        case "select_n":
            placement = "low" if hidden[0] else "linear"
        case "convert_element_type":
            if whole == "bool":
                placement = "low"
            elif node.dtype in ("float32", whole):
                placement = "linear"
        case "gather" | "dynamic_slice":
            placement = "high" if any(hidden[1:]) else "linear"
        case "dynamic_update_slice":
            placement = "high" if any(hidden[2:]) else "linear"
        case "pad":
            placement = "high" if hidden[1] else "linear"
        case op if has(op, Trait.LINEAR):
            placement = "linear"
        case op if has(op, Trait.ORDERS):
            placement = "low"
    return placement


def levels(graph: Graph, placements: list[Placement]) -> list[int]:
    """How often a value crossed between native steps and regions.

    Nodes of one placement and one level can be computed together: on any path between
    them that leaves the placement, the level has grown.
    """
    found: list[int] = []
    for i, node in enumerate(graph.nodes):
        level = 0
        for u in node.inputs:
            if placements[u] != "public":
                level = max(
                    level, found[u] + (_who(placements[u]) != _who(placements[i]))
                )
        found.append(level)
    return found


def _who(placement: Placement) -> str:
    return placement if placement in ("low", "high") else "native"


def regions(graph: Graph, placements: list[Placement]) -> dict[int, int]:
    """For every node in a region, the first node of that region."""
    level = levels(graph, placements)
    leader: dict[int, int] = {}

    def find(i: int) -> int:
        while leader[i] != i:
            i = leader[i]
        return i

    for i, node in enumerate(graph.nodes):
        if placements[i] not in ("low", "high"):
            continue
        leader[i] = i
        for u in node.inputs:
            if u in leader and placements[u] == placements[i] and level[u] == level[i]:
                a, b = sorted((find(u), find(i)))
                leader[b] = a
    return {i: find(i) for i in leader}
