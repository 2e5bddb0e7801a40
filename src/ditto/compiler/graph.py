"""The compiler's intermediate form: a list of nodes, each one operation.

Node i may use nodes before it. Every node has one result. Passes do not change a graph;
they build the next one with a ``Builder``, which folds constants and shares equal
nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ditto.compiler.operations import Params, encode_param, evaluate
from ditto.errors import PlanError

Array = npt.NDArray[Any]
MAX_FOLDED = 1 << 24
"""Elements of the largest constant that folding may make."""


@dataclass(frozen=True)
class Node:
    """One operation. ``op`` may also be "input" or "constant", with an ``index``."""

    op: str
    inputs: tuple[int, ...]
    params: Params
    shape: tuple[int, ...]
    dtype: str
    scope: str
    ring: str = ""
    """A hint: "high" if a pass wants it in the high ring."""

    @property
    def size(self) -> int:
        """Elements of the result."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class Graph:
    """Nodes in the order they are computed, and which of them come out."""

    nodes: tuple[Node, ...]
    constants: tuple[Array, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> list[int]:
        """The nodes of the inputs, by index."""
        found = [i for i, n in enumerate(self.nodes) if n.op == "input"]
        return sorted(found, key=lambda i: int(self.nodes[i].params["index"]))

    def nodes_key(self) -> Any:
        """Equal for graphs that compute the same, whatever their scopes."""
        nodes = tuple(
            (n.op, n.inputs, repr(n.params), n.shape, n.dtype) for n in self.nodes
        )
        constants = tuple((c.dtype.str, c.shape, c.tobytes()) for c in self.constants)
        return nodes, constants, self.outputs

    def users(self) -> list[list[int]]:
        """For each node, the nodes that use it."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for u in dict.fromkeys(node.inputs):
                found[u].append(i)
        return found

    def constant(self, i: int) -> Array | None:
        """The value of a constant node, None for any other."""
        node = self.nodes[i]
        return self.constants[node.params["index"]] if node.op == "constant" else None

    def uniform(self, i: int) -> float | None:
        """The one number of a constant whose elements are all equal."""
        values = self.constant(i)
        if values is None or values.size == 0 or values.dtype == np.bool_:
            return None
        first = values.reshape(-1)[0]
        return float(first) if np.all(values == first) else None


Signature = tuple[tuple[int, ...], str]


def infer(op: str, params: Params, operands: tuple[Signature, ...]) -> Signature:
    """Shape and dtype of an operation's result."""
    return _infer(_Call(op, params), operands)


def abstract(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of which only shape and type are known."""
    make: Any = jax.ShapeDtypeStruct
    return make(shape, dtype)


class _Call:
    """An operation with its parameters, as a key."""

    def __init__(self, op: str, params: Params) -> None:
        self.op, self.params = op, params
        self._key = (op, repr(params))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=1 << 14)
def _infer(call: _Call, operands: tuple[Signature, ...]) -> Signature:
    shapes = [abstract(shape, dtype) for shape, dtype in operands]
    result = jax.eval_shape(lambda *a: evaluate(call.op, call.params, a), *shapes)
    return tuple(result.shape), result.dtype.name


@dataclass
class Builder:
    """A graph under construction."""

    nodes: list[Node] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    _known: dict[Any, int] = field(default_factory=dict)

    def finish(self, outputs: Iterable[int]) -> Graph:
        """The graph, without nodes that nothing needs (inputs stay)."""
        wanted = list(outputs)
        alive = set(wanted)
        for i in range(len(self.nodes) - 1, -1, -1):
            if i in alive or self.nodes[i].op == "input":
                alive |= {i, *self.nodes[i].inputs}
        place: dict[int, int] = {}
        nodes: list[Node] = []
        constants: list[Array] = []
        for i in sorted(alive):
            node = self.nodes[i]
            params = node.params
            if node.op == "constant":
                constants.append(self.constants[params["index"]])
                params = {"index": len(constants) - 1}
            inputs = tuple(place[u] for u in node.inputs)
            place[i] = len(nodes)
            nodes.append(replace(node, inputs=inputs, params=params))
        return Graph(tuple(nodes), tuple(constants), tuple(place[i] for i in wanted))

    def input(self, index: int, shape: tuple[int, ...], dtype: str) -> int:
        """An argument of the function."""
        return self._append(Node("input", (), {"index": index}, shape, dtype, ""))

    def constant(self, values: Any, dtype: Any = None) -> int:
        """A public array known now."""
        array = np.ascontiguousarray(np.asarray(values, dtype)).reshape(
            np.shape(values)
        )
        key = ("constant", array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self.constants.append(array)
            params = {"index": len(self.constants) - 1}
            node = Node("constant", (), params, array.shape, array.dtype.name, "")
            self._known[key] = self._append(node)
        return self._known[key]

    def full(self, like: int, value: float) -> int:
        """A constant of another node's shape and type."""
        node = self.nodes[like]
        return self.constant(np.full(node.shape, value, node.dtype))

    def emit(
        self, op: str, *inputs: int, scope: str = "", ring: str = "", **params: Any
    ) -> int:
        """One operation; its shape is inferred, constants are folded."""
        encoded = {name: encode_param(value) for name, value in params.items()}
        return self.emit_encoded(op, inputs, encoded, scope, ring)

    def emit_encoded(
        self,
        op: str,
        inputs: Sequence[int],
        params: Params,
        scope: str,
        ring: str = "",
    ) -> int:
        """As ``emit``, with parameters as JSON."""
        key = (op, tuple(inputs), repr(params), ring)
        if key in self._known:
            return self._known[key]
        operands = [self.nodes[i] for i in inputs]
        shape, dtype = infer(op, params, tuple((n.shape, n.dtype) for n in operands))
        folds = all(n.op == "constant" for n in operands)
        if folds and int(np.prod(shape)) <= MAX_FOLDED:
            values = [jnp.asarray(self.constants[n.params["index"]]) for n in operands]
            self._known[key] = self.constant(np.asarray(evaluate(op, params, values)))
        else:
            node = Node(op, tuple(inputs), params, shape, dtype, scope, ring)
            self._known[key] = self._append(node)
        return self._known[key]

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


Rule = Callable[[Builder, Graph, int, tuple[int, ...]], int | None]
"""Given a node of the old graph and its operands in the new one, its replacement in the
new one, or None to keep it as it is."""


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with some of its nodes replaced."""
    builder = Builder()
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        inputs = tuple(place[u] for u in node.inputs)
        if node.op == "input":
            place[i] = builder.input(node.params["index"], node.shape, node.dtype)
        elif node.op == "constant":
            place[i] = builder.constant(graph.constant(i))
        else:
            new = rule(builder, graph, i, inputs)
            if new is None:
                new = builder.emit_encoded(
                    node.op, inputs, node.params, node.scope, node.ring
                )
            made = builder.nodes[new]
            if (made.shape, made.dtype) != (node.shape, node.dtype):
                raise PlanError(
                    f"A pass replaced {node.op!r} by {made.op!r} of another shape."
                )
            place[i] = new
    return builder.finish(place[i] for i in graph.outputs)


Settle = Callable[[Node, Any], Any]


def run(graph: Graph, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate the graph on plain arrays; see ``walk``."""
    values: dict[int, Any] = dict(walk(graph, arguments, keep=graph.outputs))
    return [values[i] for i in graph.outputs]


def walk(
    graph: Graph,
    arguments: Sequence[Any],
    *,
    keep: Sequence[int] | None = None,
    real: Any = np.float32,
    settle: Settle | None = None,
) -> Iterator[tuple[int, Any]]:
    """Every node with its value on plain arrays, in order.

    With ``keep``, only those nodes are handed out. Values are let go after their last
    use, so a deep model needs no more memory than it does anyway. ``real`` is the type
    real numbers are computed in; ``settle`` may round each result.
    """
    last = {u: i for i, node in enumerate(graph.nodes) for u in node.inputs}
    values: dict[int, Any] = {}
    for i, node in enumerate(graph.nodes):
        dtype = real if node.dtype == "float32" else node.dtype
        if node.op == "input":
            values[i] = jnp.asarray(arguments[node.params["index"]], dtype)
        elif node.op == "constant":
            values[i] = jnp.asarray(graph.constants[node.params["index"]], dtype)
        else:
            operands = [values[u] for u in node.inputs]
            values[i] = evaluate(node.op, node.params, operands, real)
            if settle:
                values[i] = settle(node, values[i])
        if keep is None or i in keep:
            yield i, values[i]
        for u in {*node.inputs, i}:
            if last.get(u, i) <= i:
                values.pop(u, None)
