"""sizes: which tensors of a graph are few numbers beside others."""

from ditto.plan import Graph

SMALL = 16
"""How many times smaller a tensor is whose recast is not worth a bit elsewhere."""


def shrinks(graph: Graph, i: int) -> bool:
    """Whether a sum is so much smaller than its operand that a recast of it is cheap.

    Then what follows the sum does not bound the frac of the operand.
    """
    node = graph.nodes[i]
    if node.op != "reduce_sum" or node.dtype != "float32":
        return False
    return is_small(graph, i, node.inputs[0])


def is_small(graph: Graph, i: int, beside: int) -> bool:
    """Whether a recast of node i is cheap beside one of another."""
    return SMALL * graph.nodes[i].size <= graph.nodes[beside].size


def is_few(graph: Graph, i: int, beside: int) -> bool:
    """Whether node i is small beside another, or repeats what is: a new row of keys,
    wherever in the cache it goes."""
    if graph.nodes[i].op == "broadcast_in_dim":
        i = graph.nodes[i].inputs[0]
    return is_small(graph, i, beside)
