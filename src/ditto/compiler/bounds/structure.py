"""Shapes of a graph that a bound rests on: normalisation, softmax, centring."""

from dataclasses import dataclass
from itertools import permutations

from ditto.compiler.bounds.products import Contraction
from ditto.compiler.passes.tabulate import argument, unmoved
from ditto.plan import Graph


@dataclass(frozen=True)
class Normalised:
    """x / sqrt(factor * |x|^2 + b), b >= 0, times a weight if there is one."""

    source: int
    """x."""
    centred: bool
    factor: float
    weight: int | None = None


def normalised(graph: Graph, i: int) -> Normalised | None:
    """What node i is, if it is that; a weight may come before the root."""
    for weighted, other in permutations(graph.nodes[i].inputs, 2):
        inverse = graph.nodes[unmoved(graph, other)]
        if inverse.op == "table_function" and inverse.params["function"] == "rsqrt":
            source = inverse.inputs[0]
            factor, summand = (
                float(inverse.params[name]) for name in ("factor", "summand")
            )
        elif inverse.op == "rsqrt":
            source, factor, summand = argument(graph, inverse.inputs[0])
        else:
            continue
        if not (factor > 0 and summand >= 0):
            continue
        length, product = unmoved(graph, source), graph.nodes[weighted]
        pairs: list[tuple[int, int | None]] = [(weighted, None)]
        pairs += permutations(product.inputs, 2) if product.op == "mul" else ()
        for x, weight in pairs:
            if _is_length(graph, length, x):
                return Normalised(x, is_centred(graph, x), factor, weight)
    return None


def _is_length(graph: Graph, i: int, x: int) -> bool:
    """Whether node i is the sum of squares of every row of x."""
    node, last = graph.nodes[i], len(graph.nodes[x].shape) - 1
    if node.op == "dot_general" and node.inputs == (x, x):
        contracted, batch = node.params["dimension_numbers"]
        rest = list(range(last))
        return all(list(c) == [last] for c in contracted) and all(
            list(b) == rest for b in batch
        )
    if node.op != "reduce_sum" or [int(a) for a in node.params["axes"]] != [last]:
        return False
    square = graph.nodes[node.inputs[0]]
    return square.op == "mul" and square.inputs == (x, x)


def is_centred(graph: Graph, i: int) -> bool:
    """Whether node i is x minus the mean of its rows, or a number of times that."""
    node = graph.nodes[i]
    if node.op != "sub":
        return False
    x, times, moved = argument(graph, node.inputs[0])
    shape = graph.nodes[x].shape
    source, factor, summand = argument(graph, unmoved(graph, node.inputs[1]))
    total = graph.nodes[unmoved(graph, source)]
    if total.op != "reduce_sum" or total.inputs[0] != x or moved or summand:
        return False
    whole = [int(a) for a in total.params["axes"]] == [len(shape) - 1]
    return whole and abs(factor * shape[-1] / times - 1) < 1e-5


def share_of(graph: Graph, i: int) -> int | None:
    """x, if node i is x divided by the sums of its rows."""
    for x, other in permutations(graph.nodes[i].inputs, 2):
        if _inverted_rows(graph, unmoved(graph, other)) == x:
            return x
    return None


@dataclass(frozen=True)
class WeightedMean:
    """(x v) / sum(x): the rows of v, weighted by the shares of x in its sums."""

    product: int
    """x v."""
    side: int
    """Which operand of it x is."""


def weighted_mean(graph: Graph, i: int) -> WeightedMean | None:
    """What node i is, if it is that."""
    for product, other in permutations(graph.nodes[i].inputs, 2):
        dot, spread = graph.nodes[product], graph.nodes[other]
        if dot.op != "dot_general" or spread.op != "broadcast_in_dim":
            continue
        shapes = [graph.nodes[u].shape for u in dot.inputs]
        axes = Contraction.of(dot, shapes)
        x = _inverted_rows(graph, spread.inputs[0])
        for side in (0, 1):
            last = len(shapes[side]) - 1
            if dot.inputs[side] != x or axes.contracted[side] != (last,):
                continue
            kept = [axes.place(side, axis) for axis in range(last)]
            if [int(a) for a in spread.params["broadcast_dimensions"]] == kept:
                return WeightedMean(product, side)
    return None


def _inverted_rows(graph: Graph, i: int) -> int | None:
    """x, if node i is the reciprocal of the sums of its rows."""
    inverse = graph.nodes[i]
    table = inverse.op == "table_function"
    if not (inverse.op == "reciprocal" or table):
        return None
    if table and (
        inverse.params["function"] != "reciprocal"
        or (inverse.params["factor"], inverse.params["summand"]) != (1.0, 0.0)
    ):
        return None
    total = graph.nodes[unmoved(graph, inverse.inputs[0])]
    if total.op != "reduce_sum":
        return None
    last = len(graph.nodes[total.inputs[0]].shape) - 1
    whole = [int(a) for a in total.params["axes"]] == [last]
    return total.inputs[0] if whole else None


def below_maximum(graph: Graph, i: int) -> float | None:
    """How far above zero node i gets, if it is x - max(x), or that where a mask shows
    it and 0 where it does not."""
    node = graph.nodes[i]
    if node.op == "sub":
        return _above(graph, i) if _same_scores(graph, i, None, None) else None
    if node.op != "select_n" or len(node.inputs) != 3:
        return None
    for k in (1, 2):
        if graph.uniform(node.inputs[k]) == 0.0:
            difference = node.inputs[3 - k]
            if graph.nodes[difference].op != "sub":
                continue
            if _same_scores(graph, difference, node.inputs[0], 3 - k):
                return _above(graph, difference)
    return None


def _above(graph: Graph, difference: int) -> float | None:
    top = graph.nodes[unmoved(graph, graph.nodes[difference].inputs[1])]
    if top.op == "coarse_max":
        return float(top.params["step"])
    return 0.0 if top.op in ("reduce_max", "bounded_max") else None


def _same_scores(
    graph: Graph, difference: int, mask: int | None, case: int | None
) -> bool:
    """Whether x of x - m is what m is the maximum of, where the mask shows it."""
    x, m = graph.nodes[difference].inputs
    top = graph.nodes[unmoved(graph, m)]
    if not top.inputs or top.op not in ("coarse_max", "reduce_max", "bounded_max"):
        return False
    y = top.inputs[0]
    shape = graph.nodes[x].shape
    if [int(a) for a in top.params["axes"]] != [len(shape) - 1]:
        return False
    if x == y:
        return True
    pair = graph.nodes[x], graph.nodes[y]
    if mask is None or case is None or any(n.op != "select_n" for n in pair):
        return False
    shown = [n.inputs[case] for n in pair]
    return all(n.inputs[0] == mask for n in pair) and shown[0] == shown[1]
