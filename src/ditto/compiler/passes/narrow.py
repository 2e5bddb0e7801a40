"""narrow: scores are shared in no more bits than the exponential looks at.

The exponential of a softmax takes its operand without the bits that its cells do not
tell apart: the shares are shifted where they are, into a smaller ring. What leads from
a product to it is only moved about, and compared with a coarse maximum, which looks at
fewer bits still. So the shares of the product itself are shifted, before they are sent.
"""

import math

from ditto.compiler.passes.rings import Placement, power_of_two, secret_numbers
from ditto.compiler.passes.tabulate import sees_scores
from ditto.compiler.passes.types import Types
from ditto.plan import Graph
from ditto.steps.exponential import CELL_BITS
from ditto.steps.rules import LOW_RINGS


def narrow_scores(graph: Graph, placements: list[Placement], types: Types) -> None:
    """Take bits and fracs from products that only exponentials of a softmax want."""
    users = graph.users()
    for i, placement in enumerate(placements):
        if placement != "product" or types.natural.get(i) != types.frac[i]:
            continue
        found = _between(graph, i, placements, types, users)
        if found is None:
            continue
        chain, exponentials = found
        unseen = min((_unseen(graph, e, types) for e in exponentials), default=0)
        least = min(types.bits[u] for u in chain) - LOW_RINGS.start
        for u in chain:
            types.bits[u] -= max(0, min(unseen, least))
            types.frac[u] -= max(0, min(unseen, least))


def _between(
    graph: Graph,
    product: int,
    placements: list[Placement],
    types: Types,
    users: list[list[int]],
) -> tuple[set[int], list[int]] | None:
    """What moves a product's elements about, and the exponentials that take them; None
    if anything else does, or if anything else is added."""
    chain, exponentials, waiting = {product}, [], [product]
    while waiting:
        i = waiting.pop()
        if i in graph.outputs:
            return None
        for u in users[i]:
            if placements[u] == "exponential":
                exponentials.append(u)
            elif u not in chain:
                if not _is_moved(graph, u, placements, types):
                    return None
                chain.add(u)
                waiting.append(u)
    taken = {v for u in chain - {product} for v in secret_numbers(graph, u, placements)}
    return (chain, exponentials) if taken <= chain else None


def _is_moved(graph: Graph, i: int, placements: list[Placement], types: Types) -> bool:
    node = graph.nodes[i]
    if node.dtype != "float32" or node.op == "convert_element_type":
        return False
    if placements[i] == "scale":
        return power_of_two(graph, i) is not None
    plain = i not in types.natural and node.op != "reduce_sum"
    return placements[i] == "maximum" or (placements[i] == "linear" and plain)


def _unseen(graph: Graph, i: int, types: Types) -> int:
    """Bits of its operand that an exponential does not look at."""
    (u,) = graph.nodes[i].inputs
    if not sees_scores(graph, i, types.frac[u]):
        return 0
    width = round(math.log2(graph.nodes[i].params["width"]))
    return types.frac[u] + width - CELL_BITS
