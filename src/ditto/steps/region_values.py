"""What SPU computes in a region, on plain numbers."""

from collections.abc import Sequence

import jax.numpy as jnp

from ditto.operations import TRAITS, evaluate, walk
from ditto.operations.spu import spu_frac
from ditto.plan import Graph, Node, Params, Region, Value
from ditto.steps.base import Arithmetic, Numbers, real_dtype

_OF_INTEGERS = frozenset(
    {
        "and", "argmax", "argmin", "div", "not", "or", "rem", "shift_left",
        "shift_right_arithmetic", "shift_right_logical", "xor",
    }
)  # fmt: skip
"""What means something else on real numbers, or has no gradient on them."""


def region_values(
    region: Region,
    operands: Sequence[Numbers],
    held: Sequence[Value],
    arithmetic: Arithmetic,
) -> dict[int, Numbers]:
    """Every node on numbers: integers exactly, real ones rounded after each."""
    graph, frac = region.graph, spu_frac(region.bits)
    scaled = []
    for x, value, i in zip(operands, held, graph.inputs, strict=True):
        real = value.type is not None and graph.nodes[i].dtype == "float32"
        scaled.append(x * 2.0**-frac if real else x)

    def settle(node: Node, value: Numbers) -> Numbers:
        if node.dtype != "float32":
            return value
        return arithmetic.nearest(value * 2.0**frac) * 2.0**-frac

    if arithmetic.differentiable and _computes_on_integers(region, held):
        smooth = _Smooth(graph, scaled, held)
        for i, node in enumerate(graph.nodes):
            smooth.values[i] = settle(node, smooth.value(node))
        return smooth.values
    return dict(walk(graph, scaled, real=real_dtype(), settle=settle))


def _computes_on_integers(region: Region, held: Sequence[Value]) -> bool:
    nodes = (region.graph.nodes[i] for i in region.graph.inputs)
    pairs = zip(nodes, held, strict=True)
    return any(value.is_shared and _is_whole(node) for node, value in pairs)


class _Smooth:
    """The integers that come of shares as real numbers, so that gradients pass."""

    def __init__(
        self, graph: Graph, arguments: Sequence[Numbers], held: Sequence[Value]
    ) -> None:
        self._graph, self._arguments, self._held = graph, arguments, held
        self.values: dict[int, Numbers] = {}

    def value(self, node: Node) -> Numbers:
        """Of a node, from the values before it."""
        real = real_dtype()
        dtype = real if node.dtype == "float32" else node.dtype
        if node.op == "input":
            index = node.params["index"]
            smooth = self._held[index].is_shared and _is_whole(node)
            return jnp.asarray(self._arguments[index], real if smooth else dtype)
        if node.op == "constant":
            return jnp.asarray(self._graph.constants[node.params["index"]], dtype)
        operands = [self.values[u] for u in node.inputs]
        is_smooth = any(
            _is_whole(self._graph.nodes[u]) and x.dtype == real
            for u, x in zip(node.inputs, operands, strict=True)
        )
        if not is_smooth:
            return evaluate(node.op, node.params, operands, real)
        if node.op in _OF_INTEGERS:
            whole = [self._as_declared(u) for u in node.inputs]
            return evaluate(node.op, node.params, whole, real)
        first_index = TRAITS[node.op].first_index or len(node.inputs)
        smooth_operands = [
            self._as_declared(u)
            if k >= first_index or (node.op == "select_n" and k == 0)
            else self._as_real(u)
            for k, u in enumerate(node.inputs)
        ]
        return evaluate(node.op, _with_reals(node.params), smooth_operands, real)

    def _as_real(self, u: int) -> Numbers:
        whole = _is_whole(self._graph.nodes[u])
        return jnp.asarray(self.values[u], real_dtype()) if whole else self.values[u]

    def _as_declared(self, u: int) -> Numbers:
        node = self._graph.nodes[u]
        return self.values[u].astype(node.dtype) if _is_whole(node) else self.values[u]


def _is_whole(node: Node) -> bool:
    return node.dtype not in ("float32", "bool")


def _with_reals(params: Params) -> Params:
    """Parameters that name integers, for real numbers."""
    integers = ({"dtype": name} for name in ("int32", "int64", "uint32", "uint64"))
    known = [*integers]
    return {
        name: {"dtype": "float32"} if value in known else value
        for name, value in params.items()
    }
