"""coarsen: a softmax subtracts a number near its maximum, not the maximum.

What follows from exp(x - m) does not depend on m if every use of it is a quotient of
two sums of it: then any m near the maximum serves, and a coarse one is far cheaper.
Such uses are found by degree: exp has degree 1, what is scaled by something else and
what is summed up over the row keeps it, and a quotient of two such has degree 0.
"""

import math

from ditto.compiler.builder import Builder, rewrite
from ditto.compiler.calibrate import Range
from ditto.compiler.passes.recognise import less_its_maximum
from ditto.operations import Trait, has
from ditto.plan import Graph
from ditto.protocols.coarse_max import MOST_LEVELS

_STEPS = ((0.5, 32), (1.0, 32), (2.0, MOST_LEVELS))
"""Steps of the grid, and how many levels each is worth."""


def coarsen(
    graph: Graph, known: list[Range], secret: list[bool], margins: list[float]
) -> Graph:
    """Replace the maximum of every softmax whose range has few enough levels."""
    found: dict[int, dict[str, float]] = {}
    lowest: dict[int, float] = {}
    users = graph.users()
    for i, node in enumerate(graph.nodes):
        last = len(graph.nodes[node.inputs[0]].shape) - 1 if node.inputs else -1
        if node.op != "reduce_max" or not secret[i] or node.dtype != "float32":
            continue
        if tuple(node.params["axes"]) == (last,) and _only_in_softmax(graph, i):
            seen, margin = known[node.inputs[0]], margins[node.inputs[0]]
            grid = _grid(seen, margin)
            if grid is not None:
                found[i] = grid
                lowest[i] = max(grid["low"], math.ceil(-seen.largest * margin))

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        if i not in found:
            return None
        node = old.nodes[i]
        axes = tuple(node.params["axes"])
        params = {"axes": axes, **found[i]}
        scores = inputs[0]
        if _is_hidden_after(old, users, node.inputs[0]):
            scores = _hidden_below(builder, scores, lowest[i])
        if scores != inputs[0]:
            params["hidden"] = lowest[i]
        return builder.emit_encoded("coarse_max", (scores,), params, node.scope)

    return rewrite(graph, rule)


def _is_hidden_after(graph: Graph, users: list[list[int]], scores: int) -> bool:
    """Whether positions that a selection fills are hidden: exp does not see them.

    Else what fills them are scores as all others, and may be the largest.
    """
    node = graph.nodes[scores]
    below = [u for u in users[scores] if less_its_maximum(graph, u)]
    after = [graph.nodes[u] for k in below for u in users[k]]
    return node.op == "select_n" and all(
        each.op == "select_n" and each.inputs[0] == node.inputs[0] for each in after
    )


def _hidden_below(builder: Builder, scores: int, low: float) -> int:
    """Scores whose hidden positions are not above any score that has its margin.

    Else the maximum of a row could be a hidden one, and nothing be left of the others.
    """
    node = builder.nodes[scores]
    if node.op != "select_n" or len(node.inputs) != 3:
        return scores
    which, *cases = node.inputs
    fills = [builder.nodes[u].op == "constant" for u in cases]
    if fills.count(True) != 1:
        return scores
    fill = builder.full(scores, low)
    hidden = [fill if constant else u for u, constant in zip(cases, fills, strict=True)]
    return builder.emit("select_n", which, *hidden, scope=node.scope)


def _grid(seen: Range, margin: float) -> dict[str, float] | None:
    """The range with its margin, and the first step that is worth its levels.

    Levels are a power of two: what is to spare lies below and above alike, and a part
    of it beyond the ends, for the parties to see what leaves the grid. The ends lie on
    whole steps, so they tell no more of the samples than the number of levels does.
    """
    middle, reach = (seen.high + seen.low) / 2, (seen.high - seen.low) / 2
    reach = max(reach * margin, 1.0)
    for step, most in _STEPS:
        levels = _levels(math.ceil(2 * reach / step))
        if levels <= most:
            steps = levels - 2 * _guard(levels) - 1
            low = step * round(middle / step - steps / 2)
            return {"low": low, "high": low + steps * step, "step": step}
    return None


def _guard(levels: int) -> int:
    """Levels below the range, and as many above."""
    return max(1, levels // 16)


def _levels(steps: int) -> int:
    """The levels of a grid with room for so many steps."""
    sizes = (1 << b for b in range(3, 64))
    return next(v for v in sizes if v - 2 * _guard(v) - 1 > steps)


def _only_in_softmax(graph: Graph, top: int) -> bool:
    """Whether a maximum is only subtracted, and the exp of that has degree 0."""
    users = graph.users()
    pending, differences = [top], set()
    while pending:
        i = pending.pop()
        if i in graph.outputs:
            return False
        for u in users[i]:
            if has(graph.nodes[u].op, Trait.RESHAPES):
                pending.append(u)
            elif less_its_maximum(graph, u):
                differences.add(u)
            else:
                return False
    return bool(differences) and all(
        _exp_is_quotient(graph, users, d) for d in differences
    )


def _exp_is_quotient(graph: Graph, users: list[list[int]], start: int) -> bool:
    """Whether x - m is used by exp alone, and exp only in quotients of degree 0."""
    pending, raised = [start], []
    while pending:
        i = pending.pop()
        if i in graph.outputs:
            return False
        for u in users[i]:
            if graph.nodes[u].op == "select_n" and graph.nodes[u].inputs[0] != i:
                pending.append(u)
            elif graph.nodes[u].op in ("exp", "exp_negative"):
                raised.append(u)
            else:
                return False
    rows = graph.nodes[start].shape
    degree = dict.fromkeys(raised, 1)
    for i in range(min(raised, default=len(graph.nodes)), len(graph.nodes)):
        node = graph.nodes[i]
        mine = [u for u in node.inputs if degree.get(u)]
        if i in degree or not mine:
            continue
        if _is_quotient(graph, i, degree):
            degree[i] = 0
        elif _keeps_degree(graph, i, mine, rows):
            degree[i] = 1
        else:
            return False
    return bool(raised) and not any(degree.get(i) for i in graph.outputs)


def _is_quotient(graph: Graph, i: int, degree: dict[int, int]) -> bool:
    node = graph.nodes[i]
    return node.op == "div" and all(degree.get(u) == 1 for u in node.inputs)


def _keeps_degree(graph: Graph, i: int, mine: list[int], rows: tuple[int, ...]) -> bool:
    """Whether a node scales its row by what does not depend on m, or sums it up."""
    node = graph.nodes[i]
    source = graph.nodes[mine[0]]
    match node.op:
        case "mul":
            return len(mine) == 1 and source.shape == node.shape
        case "select_n":
            others = [u for u in node.inputs[1:] if u not in mine]
            return all(graph.uniform(u) == 0.0 for u in others)
        case "reduce_sum":
            last = len(source.shape) - 1
            return source.shape == rows and tuple(node.params["axes"]) == (last,)
        case "broadcast_in_dim":
            axes = tuple(node.params["broadcast_dimensions"])
            return axes == tuple(range(len(source.shape)))
        case "reshape" | "expand_dims":
            return node.shape == (*source.shape, 1)
    return False
