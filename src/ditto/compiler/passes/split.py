"""How the frac of a product is split between its operands."""

import math
from collections.abc import Mapping, Set

from ditto.compiler.calibrate import Range
from ditto.plan import Graph


def split_frac(
    graph: Graph,
    i: int,
    known: list[Range],
    finest: list[int],
    total: int,
    *,
    pinned: Mapping[int, int],
    weights: Set[int],
) -> tuple[int, ...]:
    """The fracs of the operands of product i, which are ``total`` together.

    Each keeps as many bits below its usual values, unless it is pinned, or integers.
    """
    a, b = graph.nodes[i].inputs
    if a == b:
        return (total // 2, total // 2)
    if a in pinned:
        return (pinned[a], min(pinned.get(b, finest[b]), total - pinned[a]))
    if b in pinned:
        return (min(finest[a], total - pinned[b]), pinned[b])
    whole = [_is_whole(graph, u) for u in (a, b)]
    if any(whole):
        first = 0 if whole[0] else min(total, finest[a])
        return (first, 0 if whole[1] else min(total - first, finest[b]))
    if weights & {a, b}:
        sizes = [known[u].usual for u in (a, b)]
    else:
        sizes = [known[u].rms for u in (a, b)]
    lean = math.log2(sizes[1]) - math.log2(sizes[0])
    first = round((total + lean) / 2)
    first = max(min(first, finest[a]), total - finest[b])
    return (first, total - first)


def _is_whole(graph: Graph, i: int) -> bool:
    """Whether a value consists of integers: converted ones, moved about."""
    node = graph.nodes[i]
    while node.op in ("reshape", "transpose", "broadcast_in_dim", "slice", "squeeze"):
        node = graph.nodes[node.inputs[0]]
    if node.dtype != "float32":
        return True
    return (
        node.op == "convert_element_type"
        and graph.nodes[node.inputs[0]].dtype != "float32"
    )
