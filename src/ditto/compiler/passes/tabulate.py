"""tabulate: reciprocals and inverse roots of few values are read off a table.

A public factor and a public summand before the function go into the table. SPU keeps
those of many values, and those whose range is so wide that the table would be long.

A wider table costs little, and what it does not hold is wrong without a word. So its
ends come from what can be proved, or lie far from what the samples showed: the sum of a
softmax is at least its largest term, which is near 1, and at most the number of its
terms; a sum of squares is not negative; and others start far below the samples.
"""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.operations import Trait, evaluate_plain, has
from ditto.plan import Graph, Node
from ditto.protocols.blocks import FAR_REACH
from ditto.protocols.parabolas import BITS, CELLS_TO_POLE, MOST_CELLS

_FUNCTIONS = ("reciprocal", "rsqrt")
_MOST_FOR_ONE, _MOST_WORK, _MOST_WORK_IF_PROVEN = 1 << 20, 1 << 23, 1 << 25
"""Cells of all values together, of one width, at all, and where what they hold is all
that can be."""
_CELLS = 2 * CELLS_TO_POLE
"""Cells between the function's pole and its range, at most: they double."""
_LOST_CELLS = 4
"""Cells that rounding takes at the ends of a table."""
_ROOM, _ENOUGH = 64.0, 16.0
"""How far below what the samples showed a table starts if it can, and what is enough:
cells of one width, which take a round less, are not taken for less than that."""
_WHOLE = 1.01
"""What a share of a sum may come to, with its rounding."""
_SLACK = 2 / 3
"""What is to spare at the ends of a sum: rounding and the error of exp do far less."""


def tabulated(
    graph: Graph, i: int, known: list[Range], margin: float
) -> tuple[int, dict[str, object]] | None:
    """The node that a table takes in place of node i's operand, and its parameters."""
    node = graph.nodes[i]
    if node.op not in _FUNCTIONS or node.dtype != "float32":
        return None
    source, factor, summand = argument(graph, node.inputs[0])
    proven = proven_sum(graph, node.inputs[0], known)
    found = None
    if proven is not None:
        low, high = proven
        found = _cells(low, low, high, node.size, _MOST_WORK_IF_PROVEN)
    seen = known[node.inputs[0]]
    if found is None and seen.low > 0:
        square = is_square(graph, source)
        margin = margin**2 if square else margin
        floor = summand * (1 - 1e-6) if square else 0.0
        high = factor * _power_above(seen.high * margin / factor)
        low, enough, least = (
            max(factor * _power_below(seen.low / room / factor), floor)
            for room in (_ROOM, _ENOUGH, margin)
        )
        found = _cells(low, enough, high, node.size) or _cells(
            low, least, high, node.size
        )
    if found is None:
        return None
    *ends, widths = found
    low, high = ((y - summand) / factor for y in ends)
    return source, {
        "function": node.op,
        "factor": factor,
        "summand": summand,
        "low": low,
        "high": high,
        "widths": widths,
    }


def widened(graph: Graph, known: list[Range], margins: list[float]) -> list[Range]:
    """The ranges, where operands and results of tables are as wide as the tables, exp
    as large as it gets, and shares of a sum reach one.

    With its margin: a range times its margin is what the type has to hold.
    """
    found = list(known)
    for i, node in enumerate(graph.nodes):
        if node.op == "table_function":
            (u,) = node.inputs
            ends = np.array([node.params["low"], node.params["high"]])
            results = evaluate_plain("table_function", node.params, [ends])
            found[u] = _reaching(found[u], float(ends[1]) / margins[u])
            found[i] = _reaching(found[i], float(results[0]) / margins[i])
        elif node.op == "exponential":
            largest = math.exp(float(node.params["high"]))
            found[i] = _reaching(found[i], largest / margins[i])
        elif node.op == "mul" and _is_share(graph, i, known):
            found[i] = _reaching(found[i], _WHOLE / margins[i])
    return found


def _is_share(graph: Graph, i: int, known: list[Range]) -> bool:
    """Whether a node is x / sum(x) for x that is not negative: it is at most one."""
    for x, other in permutations(graph.nodes[i].inputs):
        inverse = graph.nodes[unmoved(graph, other)]
        if (
            inverse.op == "table_function"
            and inverse.params["function"] == "reciprocal"
        ):
            total = graph.nodes[unmoved(graph, inverse.inputs[0])]
            if total.op == "reduce_sum" and total.inputs[0] == x:
                return known[x].low >= 0
    return False


def unmoved(graph: Graph, i: int) -> int:
    """The node whose elements node i has in another shape."""
    while has(graph.nodes[i].op, Trait.RESHAPES):
        i = graph.nodes[i].inputs[0]
    return i


def _reaching(seen: Range, high: float) -> Range:
    return replace(seen, high=max(seen.high, high))


def _cells(
    low: float, enough: float, high: float, size: int, most_work: int = _MOST_WORK
) -> tuple[float, float, int] | None:
    """The ends of the table and the widths of its cells, if cells are few.

    It starts at ``low`` if it can, and at ``enough`` in any case.
    """
    for widths, most in ((1, _MOST_FOR_ONE), (2, most_work)):
        cells = min(MOST_CELLS, most // (widths * size))
        if cells < _CELLS:
            continue
        used = 2 ** math.floor(math.log2(cells)) - _LOST_CELLS
        spread = (used / _CELLS) ** widths
        start = max(low, high / spread)
        if start <= enough:
            return start, high, widths
    return None


def _power_above(x: float) -> float:
    """The next power of two, or hardly less: a type that ends there has room for it.

    Ends that are powers of two tell no more of the samples than types do.
    """
    return float(2.0 ** math.ceil(math.log2(x))) * (1 - 1e-6)


def _power_below(x: float) -> float:
    return float(2.0 ** math.floor(math.log2(x)))


def is_square(graph: Graph, i: int) -> bool:
    """Whether a node is x times x, or a sum of such: then it is not negative."""
    node = graph.nodes[i]
    while has(node.op, Trait.RESHAPES) or node.op == "reduce_sum":
        node = graph.nodes[node.inputs[0]]
    if node.op in ("mul", "dot_general") and node.inputs[0] == node.inputs[1]:
        return node.op == "mul" or _pairs_alike(node)
    return node.op == "square"


def _pairs_alike(node: Node) -> bool:
    contracted, batch = node.params["dimension_numbers"]
    return list(contracted[0]) == list(contracted[1]) and list(batch[0]) == list(
        batch[1]
    )


def proven_sum(graph: Graph, i: int, known: list[Range]) -> tuple[float, float] | None:
    """Between what a softmax's sum lies: of exp(x - m) with m near the maximum of x."""
    node = graph.nodes[unmoved(graph, i)]
    if node.op != "reduce_sum":
        return None
    terms = graph.nodes[node.inputs[0]].size / node.size
    step = _step_of_softmax(graph, node.inputs[0], tuple(node.params["axes"]), known)
    if step is None:
        return None
    low, high = _SLACK * math.exp(-step), terms * math.exp(step) / _SLACK
    # samples know better, if the maximum is hidden itself or what hides is no mask
    holds = low <= known[i].low and known[i].high <= high
    return (low, high) if holds else None


def _step_of_softmax(
    graph: Graph, i: int, axes: tuple[int, ...], known: list[Range]
) -> float | None:
    """How far m may be from the maximum, if node i is exp(x - m), hidden or not.

    What hides terms by a product hides them by zeros and leaves the others as they are.
    """
    node = graph.nodes[i]
    match node.op:
        case "select_n" if len(node.inputs) == 3:
            for k in (1, 2):
                if graph.uniform(node.inputs[k]) == 0.0:
                    return _step_of_softmax(graph, node.inputs[3 - k], axes, known)
        case "mul":
            for k in (0, 1):
                mask = known[node.inputs[k]]
                if (mask.low, mask.high) == (0.0, 1.0):
                    return _step_of_softmax(graph, node.inputs[1 - k], axes, known)
        case "exp_negative":
            return _step_below_maximum(graph, node.inputs[0], axes)
    return None


def _step_below_maximum(graph: Graph, i: int, axes: tuple[int, ...]) -> float | None:
    node = graph.nodes[i]
    if node.op == "select_n":  # hidden positions are 0, and hidden again after exp
        cases = [u for u in node.inputs[1:] if graph.uniform(u) != 0.0]
        return _step_below_maximum(graph, cases[0], axes) if len(cases) == 1 else None
    if node.op != "sub":
        return None
    top = graph.nodes[unmoved(graph, node.inputs[1])]
    if tuple(top.params.get("axes", ())) != axes:
        return None
    if top.op == "coarse_max":
        return float(top.params["step"])
    return 0.0 if top.op == "reduce_max" else None


def ends_below_grid(graph: Graph, i: int) -> tuple[float, float] | None:
    """Between what node i lies if it is x less its coarse maximum, hidden or not."""
    node = graph.nodes[i]
    if node.op == "select_n":  # hidden positions are 0
        cases = [u for u in node.inputs[1:] if graph.uniform(u) != 0.0]
        return ends_below_grid(graph, cases[0]) if len(cases) == 1 else None
    if node.op != "sub":
        return None
    top = graph.nodes[unmoved(graph, node.inputs[1])]
    if top.op != "coarse_max":
        return None
    low, high, step = (float(top.params[n]) for n in ("low", "high", "step"))
    return low - high - step, step


def sees_scores(graph: Graph, i: int, frac: int) -> bool:
    """Whether the maximum below which exp is taken sees all that its operand may be in
    the ring, with this frac: then no recast before has to look at it."""
    ends = ends_below_grid(graph, graph.nodes[i].inputs[0])
    if ends is None:
        return False
    widths = math.ldexp(1.0, BITS - 1 - frac) / -ends[0]
    return widths <= FAR_REACH[-1]


def argument(graph: Graph, i: int) -> tuple[int, float, float]:
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
