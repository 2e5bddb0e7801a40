"""The graph of one SPU region: its nodes, for the ring it runs in.

In the low ring SPU sees plain integers, so constants and operands are brought to one
frac; in the high ring it sees its own fixed point.
"""

import numpy as np

from ditto.compiler.builder import Builder
from ditto.compiler.passes.draft import HIGH_BITS, LOW_BITS, Draft
from ditto.fixedpoint import FxpType
from ditto.operations import Trait, has
from ditto.operations.spu import FXP_FRAC, HIGH, LOW_FIXED
from ditto.plan import Node, Params

TABLE = FxpType(bits=32, frac=FXP_FRAC[64])
"""What tables are looked up in when SPU goes on in its own fixed point."""
_BOUNDED = {"reduce_max": "bounded_max", "reduce_min": "bounded_min"}


class RegionWriter:
    """Writes the graph of one region; ``inputs`` are the plan's values it takes."""

    def __init__(self, draft: Draft, low: bool, integers: bool) -> None:
        self._draft = draft
        self._low = low
        self._integers = integers
        self.builder = Builder()
        self.place: dict[int, int] = {}
        self.inputs: list[int] = []
        self._entered: dict[int, int] = {}

    def add(self, i: int) -> None:
        """Node i, after all nodes of the region that it uses."""
        graph = self._draft.graph
        node = graph.nodes[i]
        if not self._integers:
            operands = [self._real_operand(u, i) for u in node.inputs]
            params = node.params
        else:
            frac = self._common_frac(i)
            operands = [self._integer_operand(u, frac) for u in node.inputs]
            params = _as_integers(node.params)
            if node.op == "convert_element_type":
                params = {**params, "new_dtype": {"dtype": "int32"}}
        op = node.op
        if op in _BOUNDED and self._low:
            largest = 2.0**30 if self._integers else LOW_FIXED.max_value
            bound = -largest if op == "reduce_max" else largest - 1
            op, params = _BOUNDED[op], {"axes": params["axes"], "bound": bound}
        self.place[i] = self.builder.emit_encoded(op, operands, params, "")

    def leave(self, i: int) -> int:
        """Node i as shares that add up: SPU leaves some results shared bitwise."""
        node = self._draft.graph.nodes[i]
        if node.dtype == "bool" or not _is_bitwise(self.builder, self.place[i]):
            return self.place[i]
        held = self.builder.nodes[self.place[i]]
        zero = self._draft.zero(LOW_BITS if self._low else HIGH_BITS, held.dtype)
        entered = self._entered.get(zero)
        if entered is None:
            self.inputs.append(zero)
            entered = self.builder.input(len(self.inputs) - 1, (), held.dtype)
            self._entered[zero] = entered
        return self.builder.emit("add", self.place[i], entered)

    def _common_frac(self, i: int) -> int:
        """The frac at which the operands meet."""
        draft = self._draft
        graph, types = draft.graph, draft.types
        assert types is not None  # noqa: S101
        if graph.nodes[i].dtype == "float32" and graph.nodes[i].op != "sign":
            return types.frac[i]
        numbers = [
            types.frac[u]
            for u in graph.nodes[i].inputs
            if draft.placements[u] != "public" and graph.nodes[u].dtype == "float32"
        ]
        return max(numbers, default=0)

    def _integer_operand(self, u: int, frac: int) -> int:
        draft = self._draft
        node = draft.graph.nodes[u]
        if node.dtype == "bool":
            return self._bits(u)
        kind = FxpType(LOW_BITS, frac if node.dtype == "float32" else 0)
        if u in self.place:
            return self._lifted(u, kind)
        values = draft.graph.constant(u)
        if values is not None:
            draft.check_constant(u, kind)
            scaled = np.rint(np.ldexp(values.astype(np.float64), kind.frac))
            return self.builder.constant(scaled.astype(np.int32))
        return self._enter(draft.shared(u, kind), "int32", node)

    def _lifted(self, u: int, kind: FxpType) -> int:
        types = self._draft.types
        assert types is not None  # noqa: S101
        up = kind.frac - types.frac[u]
        if up <= 0 or self._draft.graph.nodes[u].dtype != "float32":
            return self.place[u]
        factor = self.builder.constant(np.int32(1 << up))
        return self.builder.emit("mul", self.place[u], factor)

    def _real_operand(self, u: int, user: int) -> int:
        draft = self._draft
        if u in self.place:
            return self.place[u]
        node = draft.graph.nodes[u]
        values = draft.graph.constant(u)
        if values is not None:
            return self.builder.constant(values)
        if node.dtype == "bool":
            return self._bits(u)
        high = draft.placements[user] == "high"
        whole = node.dtype != "float32"
        if high:
            kind = FxpType(HIGH_BITS, 0) if whole else HIGH
        else:
            kind = FxpType(LOW_BITS, 0) if whole else LOW_FIXED
        if draft.placements[u] == "public":
            return self._enter(draft.plain(u), node.dtype, node)
        return self._enter(draft.shared(u, kind), node.dtype, node)

    def _bits(self, u: int) -> int:
        if u in self.place:
            return self.place[u]
        draft = self._draft
        node = draft.graph.nodes[u]
        values = draft.graph.constant(u)
        if values is not None:
            return self.builder.constant(values)
        public = draft.placements[u] == "public"
        value = draft.plain(u) if public else draft.bits(u)
        return self._enter(value, "bool", node)

    def _enter(self, value: int, dtype: str, node: Node) -> int:
        if value not in self._entered:
            index = len(self.inputs)
            self.inputs.append(value)
            self._entered[value] = self.builder.input(index, node.shape, dtype)
        return self._entered[value]


def _is_bitwise(builder: Builder, i: int) -> bool:
    """Whether SPU will leave a number shared bitwise."""
    node = builder.nodes[i]
    while has(node.op, Trait.LINEAR) and node.op != "reduce_sum":
        node = builder.nodes[node.inputs[0]]
    if node.op == "convert_element_type":
        source = builder.nodes[node.inputs[0]].dtype
        to_integer = source == "float32" and node.dtype != "float32"
        return source == "bool" or to_integer or _is_bitwise(builder, node.inputs[0])
    return has(node.op, Trait.BITWISE)


def _as_integers(params: Params) -> Params:
    """Parameters of an operation on real numbers, for integers."""
    return {
        name: {"dtype": "int32"} if value == {"dtype": "float32"} else value
        for name, value in params.items()
    }
