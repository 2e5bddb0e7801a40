"""What is known of the public numbers that a node multiplies by."""

import math

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.rings import Placement
from ditto.plan import Graph

PUBLIC_FRAC = 14
"""The frac at which public summands that are no integers are added at least."""


def _factor_values(
    graph: Graph, i: int, placements: list[Placement]
) -> list[np.ndarray]:
    node = graph.nodes[i]
    values = [graph.constant(u) for u in node.inputs if placements[u] == "public"]
    return [np.asarray(v, np.float64) for v in values if v is not None]


def magnitude(
    graph: Graph, i: int, placements: list[Placement], known: list[Range]
) -> int:
    """log2 of the largest public factor."""
    node = graph.nodes[i]
    largest = max(
        (known[u].largest for u in node.inputs if placements[u] == "public"),
        default=1.0,
    )
    return math.frexp(max(largest, 2.0**-40))[1]


def exact_frac(graph: Graph, i: int, placements: list[Placement]) -> int | None:
    """The smallest frac at which a known public factor is exact, if it is small."""
    values = _factor_values(graph, i, placements)
    if not values:
        return None
    for frac in range(PUBLIC_FRAC):
        if all(np.all(np.ldexp(v, frac) == np.rint(np.ldexp(v, frac))) for v in values):
            return frac
    return None
