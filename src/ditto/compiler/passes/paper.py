"""paper: the rings as the Ditto paper has them, fracs fixed.

In the low ring linear layers, maxima and Quad; in the high ring exp, sum and quotient
of softmax, GeLU by PUMA's polynomials, and all of layer normalisation.
"""

from ditto.compiler.passes.rings import Placement
from ditto.operations import Trait, has
from ditto.plan import Graph

_ROOTS = frozenset(("rsqrt", "sqrt"))


def assign_paper_rings(graph: Graph, secret: list[bool]) -> list[Placement]:
    """The ring of every node."""
    high = {i for i in range(len(graph.nodes)) if _is_seed(graph, i, secret)}
    users = graph.users()
    for seed in sorted(high):
        if graph.nodes[seed].op in _ROOTS:
            high |= _normalisation(graph, seed, users, secret, high - {seed})
    changed = True
    while changed:  # what lies between two high nodes is high
        changed = False
        for i, node in enumerate(graph.nodes):
            if i in high or not secret[i] or not users[i]:
                continue
            if has(node.op, Trait.CONTRACTS) or not has(
                node.op, Trait.ELEMENTWISE | Trait.LINEAR
            ):
                continue
            after = all(u in high for u in users[i])
            before = [u for u in node.inputs if secret[u]]
            if after and all(u in high or _is_weight(graph, u) for u in before):
                high.add(i)
                changed = True
    return [
        ("high" if i in high else "low") if secret[i] else "public"
        for i in range(len(graph.nodes))
    ]


def _is_seed(graph: Graph, i: int, secret: list[bool]) -> bool:
    node = graph.nodes[i]
    if node.op == "div":
        return secret[node.inputs[1]]
    return secret[i] and (has(node.op, Trait.PAPER_HIGH) or node.ring == "high")


def _normalisation(
    graph: Graph,
    seed: int,
    users: list[list[int]],
    secret: list[bool],
    taken: set[int],
) -> set[int]:
    """Everything from the sums over a row to the scaled and shifted result."""
    nodes = graph.nodes
    before = _ancestors(graph, seed, taken)
    sums = [i for i in before if nodes[i].op == "reduce_sum"]
    if not sums:
        return {seed}
    source = nodes[min(sums)].inputs[0]
    found = {i for i in before if i > source and _depends(graph, i, source)} | {seed}
    frontier = [seed]
    while frontier:  # forward, as long as only weights join in
        for user in users[frontier.pop()]:
            node = nodes[user]
            if user in found or not has(node.op, Trait.ELEMENTWISE | Trait.LINEAR):
                continue
            others = [u for u in node.inputs if u not in found and secret[u]]
            centred = [u for u in others if _depends(graph, u, source)]
            if all(u in centred or _is_weight(graph, u) for u in others):
                found |= {user, *(c for c in centred if c > source)}
                frontier.append(user)
    return found


def _ancestors(graph: Graph, i: int, taken: set[int]) -> set[int]:
    found: set[int] = set()
    frontier = [i]
    while frontier:
        for u in graph.nodes[frontier.pop()].inputs:
            stops = has(graph.nodes[u].op, Trait.CONTRACTS) or u in taken
            if u not in found and not stops:
                found.add(u)
                frontier.append(u)
    return found


def _depends(graph: Graph, i: int, source: int) -> bool:
    """Whether i is computed from source by sums and elementwise steps alone."""
    frontier, seen = [i], set[int]()
    while frontier:
        j = frontier.pop()
        if j == source:
            return True
        if j < source or j in seen or has(graph.nodes[j].op, Trait.CONTRACTS):
            continue
        seen.add(j)
        frontier.extend(graph.nodes[j].inputs)
    return False


def _is_weight(graph: Graph, i: int) -> bool:
    while has(graph.nodes[i].op, Trait.LINEAR):
        i = graph.nodes[i].inputs[0]
    return graph.nodes[i].op == "input"
