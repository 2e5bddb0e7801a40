"""recognise: find GeLU, SiLU, sigmoid, tanh, and the exp of softmax.

A function of one tensor, element by element, is told by what it does, not by how it is
written: every such piece of the graph is evaluated on a grid and compared with the
functions we know. The exp of softmax is told by its operand, x less a maximum of x.
"""

from collections.abc import Sequence

import numpy as np

from ditto.compiler.builder import Builder, rewrite
from ditto.fixedpoint import Array
from ditto.operations import Trait, evaluate_plain, has
from ditto.plan import Graph, Params

_FAR = (-100.0, -30.0, -15.0, -9.0, 9.0, 15.0, 30.0, 100.0)
_GRID = np.concatenate([np.linspace(-7.0, 7.0, 225), _FAR]).astype(np.float32)
_TOLERANCE = 2e-5
_LARGEST_PIECE = 24

FUNCTIONS: dict[str, Params] = {
    "gelu": {},
    "gelu_tanh": {},
    "silu": {},
    "logistic": {"accuracy": None},
    "tanh": {"accuracy": None},
}
"""Operations that are recognised, with their parameters."""


def recognise(graph: Graph) -> Graph:
    """Name the functions that a profile replaces."""
    known = {n: evaluate_plain(n, p, [_GRID]) for n, p in FUNCTIONS.items()}
    found: dict[int, tuple[str, int]] = {}
    covered: set[int] = set()
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i not in covered and has(graph.nodes[i].op, Trait.ELEMENTWISE):
            match = _match(graph, i, known)
            if match:
                found[i] = match[:2]
                covered |= match[2]

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node = old.nodes[i]
        if i in found:
            name, source = found[i]
            operand = (builder.place[source],)
            return builder.emit_encoded(name, operand, FUNCTIONS[name], node.scope)
        if node.op == "exp" and less_its_maximum(old, node.inputs[0]):
            return builder.emit("exp_negative", *inputs, scope=node.scope)
        return builder.emit_encoded(node.op, inputs, node.params, node.scope)

    return rewrite(graph, rule)


def _match(
    graph: Graph, end: int, known: dict[str, Array]
) -> tuple[str, int, set[int]] | None:
    """The function that ``end`` is of some earlier node, if we know it."""
    if has(graph.nodes[end].op, Trait.PIECEWISE) or graph.nodes[end].dtype != "float32":
        return None
    piece, sources = {end}, set(_operands(graph, end))
    while len(piece) <= _LARGEST_PIECE:
        if len(sources) == 1 and _tells(graph, piece):
            (source,) = sources
            values = _evaluate(graph, sorted(piece), source)
            for name, expected in known.items():
                if values is None:
                    continue
                error = np.abs(values - expected) / np.maximum(np.abs(expected), 1)
                if error.max() < _TOLERANCE:
                    return name, source, piece
        latest = max(sources, default=-1)
        if latest < 0 or not _joins(graph.nodes[latest].op):
            return None
        if graph.nodes[latest].shape != graph.nodes[end].shape:
            return None
        piece.add(latest)
        sources = (sources - {latest}) | set(_operands(graph, latest))
    return None


def _joins(op: str) -> bool:
    return has(op, Trait.ELEMENTWISE) and not has(op, Trait.PIECEWISE)


def _tells(graph: Graph, piece: set[int]) -> bool:
    return any(has(graph.nodes[i].op, Trait.TELLTALE) for i in piece)


def _operands(graph: Graph, i: int) -> list[int]:
    return [u for u in graph.nodes[i].inputs if graph.nodes[u].op != "constant"]


def _evaluate(graph: Graph, piece: Sequence[int], source: int) -> Array | None:
    if graph.nodes[source].dtype != "float32":
        return None
    values: dict[int, Array] = {source: _GRID}
    for i in piece:
        node = graph.nodes[i]
        for u in node.inputs:
            if u not in values:
                number = graph.uniform(u)
                if number is None:
                    return None
                values[u] = np.asarray(number, graph.nodes[u].dtype)
        operands = [values[u] for u in node.inputs]
        if node.dtype != "float32":
            return None
        values[i] = evaluate_plain(node.op, node.params, operands)
    result = values[piece[-1]]
    return result if result.shape == _GRID.shape else None


def less_its_maximum(graph: Graph, i: int) -> bool:
    """Whether node i is x - max(x)."""
    node = graph.nodes[i]
    if node.op != "sub":
        return False
    minuend, subtrahend = node.inputs
    while has(graph.nodes[subtrahend].op, Trait.RESHAPES):
        subtrahend = graph.nodes[subtrahend].inputs[0]
    top = graph.nodes[subtrahend]
    return top.op == "reduce_max" and top.inputs[0] == minuend
