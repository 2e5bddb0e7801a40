"""Graphs under construction.

Passes do not change a graph; they build the next one with a ``Builder``, which folds
constants and shares equal nodes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ditto.errors import PlanError
from ditto.fixedpoint import Array
from ditto.operations import encode_param, evaluate_plain, infer
from ditto.plan import Graph, Node, Params
from ditto.plan.values import dense

MAX_FOLDED = 1 << 24
"""Elements of the largest constant that folding may make."""


@dataclass
class Builder:
    """A graph under construction."""

    nodes: list[Node] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    """Of a graph that is rewritten: where its nodes stand in this one, so far."""
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def finish(self, outputs: Iterable[int]) -> Graph:
        """The graph, without nodes that nothing needs (inputs stay)."""
        return self.finish_tracked(outputs)[0]

    def finish_tracked(self, outputs: Iterable[int]) -> tuple[Graph, dict[int, int]]:
        """As ``finish``; tells the new number of every node that is left."""
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
        ends = tuple(place[i] for i in wanted)
        return Graph(tuple(nodes), tuple(constants), ends), place

    def input(self, index: int, shape: tuple[int, ...], dtype: str) -> int:
        """An argument of the function."""
        return self._append(Node("input", (), {"index": index}, shape, dtype, ""))

    def constant(self, values: npt.ArrayLike, dtype: str | None = None) -> int:
        """A public array known now."""
        array = dense(np.asarray(values, dtype))
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
        self, op: str, *inputs: int, scope: str = "", ring: str = "", **params: object
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
            values = [self.constants[n.params["index"]] for n in operands]
            self._known[key] = self.constant(evaluate_plain(op, params, values))
        else:
            node = Node(op, tuple(inputs), params, shape, dtype, scope, ring)
            self._known[key] = self._append(node)
        return self._known[key]

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


Rule = Callable[[Builder, Graph, int, tuple[int, ...]], int | None]
"""Given a node of the old graph and its operands in the new one, its replacement in the
new one, or None to keep it as it is. ``Builder.place`` knows what came before."""


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with some of its nodes replaced."""
    return rewrite_tracked(graph, rule)[0]


def rewrite_tracked(graph: Graph, rule: Rule) -> tuple[Graph, dict[int, int]]:
    """As ``rewrite``; tells of each node of the new graph which it stands for."""
    builder = Builder()
    place = builder.place
    for i, node in enumerate(graph.nodes):
        inputs = tuple(place[u] for u in node.inputs)
        if node.op == "input":
            place[i] = builder.input(node.params["index"], node.shape, node.dtype)
        elif node.op == "constant":
            place[i] = builder.constant(graph.constants[node.params["index"]])
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
    finished, numbers = builder.finish_tracked(place[i] for i in graph.outputs)
    origins = {numbers[new]: i for i, new in place.items() if new in numbers}
    return finished, origins
