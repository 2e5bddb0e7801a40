"""How far SPU's results of a region may be from the simulator's."""

from collections.abc import Sequence

import jax.numpy as jnp

from ditto.operations import TRAITS, Trait, evaluate, has
from ditto.plan import Graph, Node
from ditto.steps.base import Numbers, real_dtype

_LAST_PLACES = 64
"""Of SPU's approximations, beside their relative error."""


def region_errors(
    graph: Graph, values: Sequence[Numbers], errors: Sequence[Numbers], unit: float
) -> list[Numbers]:
    """Errors through a region: ambiguous bits are those whose operands nearly meet."""
    held: dict[int, Numbers] = {}
    error: dict[int, Numbers] = {}
    for i, node in enumerate(graph.nodes):
        dtype = real_dtype() if node.dtype == "float32" else node.dtype
        if node.op == "input":
            held[i] = jnp.asarray(values[node.params["index"]], dtype)
            error[i] = jnp.asarray(errors[node.params["index"]], real_dtype())
        elif node.op == "constant":
            held[i] = jnp.asarray(graph.constants[node.params["index"]], dtype)
            error[i] = jnp.zeros(node.shape)
        else:
            xs = [held[u] for u in node.inputs]
            es = [error[u] for u in node.inputs]
            held[i] = evaluate(node.op, node.params, xs, real_dtype())
            error[i] = jnp.broadcast_to(
                _node_error(node, xs, es, held[i], unit), node.shape
            )
    return [error[i] for i in graph.outputs]


def _node_error(
    node: Node, xs: Sequence[Numbers], es: Sequence[Numbers], y: Numbers, unit: float
) -> Numbers:
    match node.op:
        case op if has(op, Trait.COMPARES):
            gap = jnp.abs(jnp.asarray(xs[0], float) - jnp.asarray(xs[1], float))
            return (gap <= es[0] + es[1]) * ((es[0] + es[1]) > 0) * 1.0
        case "and" | "or" | "xor" | "not":
            return jnp.clip(sum(es), 0, 1)
        case "max" | "min":
            return jnp.maximum(es[0], es[1])
        case "reduce_max" | "reduce_min" | "bounded_max" | "bounded_min":
            return jnp.max(es[0], axis=tuple(node.params["axes"]))
        case "abs" | "neg" | "convert_element_type":
            return es[0]
        case "sign":
            return 2.0 * ((jnp.abs(jnp.asarray(xs[0], float)) <= es[0]) & (es[0] > 0))
        case "select_n":
            gap = jnp.abs(jnp.asarray(xs[1], float) - jnp.asarray(xs[2], float))
            return jnp.maximum(es[1], es[2]) + es[0] * gap
        case "add" | "sub":
            return es[0] + es[1]
        case "mul":
            a, b = (jnp.abs(jnp.asarray(x, float)) for x in xs)
            return a * es[1] + b * es[0] + es[0] * es[1] + 2 * unit
        case "dot_general":
            sizes = [jnp.abs(jnp.asarray(x, float)) for x in xs]
            most = [size + e for size, e in zip(sizes, es, strict=True)]
            exact = evaluate(node.op, node.params, sizes, real_dtype())
            return evaluate(node.op, node.params, most, real_dtype()) - exact + 2 * unit
        case op if has(op, Trait.LINEAR):
            return evaluate(op, node.params, es, real_dtype())
        case op if has(op, Trait.ELEMENTWISE) and len(xs) == 1:
            return _monotone(node, xs[0], es[0], y, unit)
    raise NotImplementedError(f"no error bound for {node.op}")


def _monotone(node: Node, x: Numbers, e: Numbers, y: Numbers, unit: float) -> Numbers:
    """A monotone function of one operand, plus SPU's own error."""

    def function(v: Numbers) -> Numbers:
        return evaluate(node.op, node.params, [v], real_dtype())

    moved = jnp.maximum(jnp.abs(function(x + e) - y), jnp.abs(function(x - e) - y))
    own = TRAITS[node.op].spu_error * jnp.abs(y) + _LAST_PLACES * unit
    return jnp.where(e > 0, moved, 0.0) + own
