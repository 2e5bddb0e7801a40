"""tabulate: reciprocals and inverse roots of few values are read off a table.

A public factor and a public summand before the function go into the table. SPU keeps
those of many values, and those whose range is so wide that the table would be long.
"""

import math

from ditto.compiler.calibrate import Range
from ditto.compiler.graph import Graph
from ditto.protocols.curve import CELLS_TO_POLE, MOST_CELLS

_FUNCTIONS = ("reciprocal", "rsqrt")
_MOST_FOR_ONE, _MOST_WORK = 1 << 20, 1 << 23
"""Cells of all values together, of one width and at all."""
_CELLS = 2 * CELLS_TO_POLE
"""Cells between the function's pole and its range, at most: they double."""


def tabulated(
    graph: Graph, i: int, seen: Range, margin: float
) -> tuple[int, dict[str, object]] | None:
    """The node that a curve takes in place of node i's operand, and its parameters."""
    node = graph.nodes[i]
    if node.op not in _FUNCTIONS or node.dtype != "float32":
        return None
    found = _cells(seen, margin, node.size)
    if found is None:
        return None
    *ends, widths = found
    source, factor, summand = _argument(graph, node.inputs[0])
    low, high = ((y - summand) / factor for y in ends)
    return source, {
        "function": node.op,
        "factor": factor,
        "summand": summand,
        "low": low,
        "high": high,
        "widths": widths,
    }


def _cells(seen: Range, margin: float, size: int) -> tuple[float, float, int] | None:
    """The range with its margin and the widths of its cells, if cells are few."""
    low, high = seen.low / margin, seen.high * margin
    if not low > 0:
        return None
    for widths, most in ((1, _MOST_FOR_ONE), (2, _MOST_WORK)):
        cells = 1 << math.ceil(math.log2(_CELLS * (high / low) ** (1 / widths)))
        if cells <= MOST_CELLS and widths * size * cells <= most:
            return low, high, widths
    return None


def _argument(graph: Graph, i: int) -> tuple[int, float, float]:
    """The node of which i is factor * node + summand, with a factor above zero."""
    factor, summand = 1.0, 0.0
    while True:
        node = graph.nodes[i]
        step = _affine(graph, i)
        if step is None or graph.nodes[step[0]].shape != node.shape:
            return i, factor, summand
        i, scale, shift = step
        factor, summand = factor * scale, summand + factor * shift


def _affine(graph: Graph, i: int) -> tuple[int, float, float] | None:
    """(u, a, b) if node i is a * u + b for public numbers, a > 0."""
    node = graph.nodes[i]
    if node.op not in ("mul", "add", "sub") or node.dtype != "float32":
        return None
    for k in (0, 1) if node.op != "sub" else (1,):
        number, other = graph.uniform(node.inputs[k]), node.inputs[1 - k]
        if number is None:
            continue
        if node.op == "mul":
            return (other, number, 0.0) if number > 0 else None
        return other, 1.0, number if node.op == "add" else -number
    return None
