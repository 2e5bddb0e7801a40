"""precision: refuse types of which too little would be left in 32 bits."""

import math

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.rings import Placement, secret_numbers
from ditto.errors import FixedPointRangeError
from ditto.plan import Graph

_MIN_SIGNIFICANT = 1
"""Bits of a typical element that must be left beside a large constant."""
_ENDLESS = 2.0**12
"""Such a constant is this large, and so much larger than the values."""
_MIN_NEAR_POLE = 4
"""Bits of the least number that a reciprocal or an inverse root is taken of."""


def check_precision(
    graph: Graph, placements: list[Placement], known: list[Range], fracs: list[int]
) -> None:
    """Refuse a graph whose values lose what they say; ``fracs`` are by node."""
    for i in range(len(graph.nodes)):
        _check_beside_constants(graph, i, placements, known, fracs)
        _check_near_pole(graph, i, placements, known, fracs)


def _check_beside_constants(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    fracs: list[int],
) -> None:
    """Refuse constants beside which nothing is left of the values."""
    node = graph.nodes[i]
    if placements[i] != "linear" or node.dtype != "float32":
        return
    public = max(
        (known[u].largest for u in node.inputs if placements[u] == "public"),
        default=0.0,
    )
    for u in secret_numbers(graph, i, placements):
        significant = fracs[i] + math.log2(known[u].rms)
        endless = public > max(_ENDLESS, _ENDLESS * known[u].largest)
        if endless and significant < _MIN_SIGNIFICANT:
            raise FixedPointRangeError(
                f"{node.op!r} in scope {node.scope or '(top)'!r} brings values of "
                f"about {known[u].rms:.3g} together with a constant of {public:.3g}: "
                f"in 32 bits nothing would be left of them. Bound the constant (a mask "
                f"needs no more than -30)."
            )


def _check_near_pole(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    fracs: list[int],
) -> None:
    """Refuse a reciprocal or an inverse root in SPU if little is left of the least
    number that it is taken of: beside a sum of squares with outliers, for one."""
    node = graph.nodes[i]
    if placements[i] != "high" or node.op not in ("reciprocal", "rsqrt"):
        return
    (u,) = node.inputs
    while placements[u] in ("linear", "scale", "product"):
        least = known[u].low
        if least > 0 and fracs[u] + math.log2(least) < _MIN_NEAR_POLE:
            raise FixedPointRangeError(
                f"{node.op!r} in scope {node.scope or '(top)'!r} is taken of values "
                f"from {least:.3g} to {known[u].high:.3g}: in 32 bits little would be "
                f"left of the least of them. Lower the profile's margin, or normalise "
                f"what is smaller apart."
            )
        operands = secret_numbers(graph, u, placements)
        if placements[u] == "product" or len(operands) != 1:
            return
        (u,) = operands
