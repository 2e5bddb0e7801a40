"""simplify: drop what does nothing, decide what fixed point decides.

Fixed point has no NaN and no infinity, so whether a number is one is known.
"""

import numpy as np

from ditto.compiler.builder import Builder, rewrite
from ditto.plan import Graph

_ENDLESS = 1e30


def simplify(graph: Graph) -> Graph:
    """Remove identities and selections that are already decided."""
    return rewrite(graph, _rule)


def _rule(
    builder: Builder, graph: Graph, i: int, inputs: tuple[int, ...]
) -> int | None:
    node = graph.nodes[i]

    def same(k: int) -> bool:
        kept = builder.nodes[inputs[k]]
        return (kept.shape, kept.dtype) == (node.shape, node.dtype)

    def uniform(k: int) -> float | None:
        return graph.uniform(node.inputs[k])

    match node.op:
        case "max" | "min":
            endless = -_ENDLESS if node.op == "max" else _ENDLESS
            for k in (0, 1):
                bound = uniform(k)
                beyond = bound is not None and (
                    bound <= endless if node.op == "max" else bound >= endless
                )
                if beyond and same(1 - k):
                    return inputs[1 - k]
        case "select_n":
            predicate = graph.constant(node.inputs[0])
            if predicate is not None and (predicate == predicate.flat[0]).all():
                return inputs[1 + int(predicate.flat[0])]
        case "is_finite":
            return builder.constant(np.ones(node.shape, np.bool_))
        case "ne" | "eq" | "lt" | "gt" | "le" | "ge" if inputs[0] == inputs[1]:
            holds = node.op in ("eq", "le", "ge")
            return builder.constant(np.full(node.shape, holds))
        case "mul" | "add":
            neutral = 1.0 if node.op == "mul" else 0.0
            for k in (0, 1):
                if uniform(k) == neutral and same(1 - k):
                    return inputs[1 - k]
        case "sub" | "div":
            neutral = 1.0 if node.op == "div" else 0.0
            if uniform(1) == neutral and same(0):
                return inputs[0]
        case "convert_element_type" | "reshape" | "squeeze" | "expand_dims":
            if same(0):
                return inputs[0]
        case "broadcast_in_dim":
            if same(0) and len(inputs) == 1:
                return inputs[0]
        case "transpose":
            order = list(node.params["permutation"])
            if order == sorted(order):
                return inputs[0]
    return None
