"""recognise: find GeLU, SiLU, sigmoid, tanh, the exp of softmax, and table lookups.

A function of one tensor, element by element, is told by what it does, not by how it is
written: every such piece of the graph is evaluated on a grid and compared with the
functions we know. The exp of softmax is told by its operand, x less a maximum of x. A
lookup ``table[ids]`` or ``one_hot(ids) @ table`` by secret ids that are an input
becomes a product with a one-hot matrix, which the client shares instead of the ids.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ditto.compiler.graph import Builder, Graph, rewrite
from ditto.compiler.operations import ELEMENTWISE, MOVES, Params, evaluate

_FAR = (-100.0, -30.0, -15.0, -9.0, 9.0, 15.0, 30.0, 100.0)
_GRID = np.concatenate([np.linspace(-7.0, 7.0, 225), _FAR]).astype(np.float32)
_TOLERANCE = 2e-5
_BREAKS = frozenset(
    [
        "max",
        "min",
        "clamp",
        "select_n",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "floor",
        "ceil",
        "round",
        "sign",
        "abs",
        "rem",
    ]
)
"""What may change a function far from where it is compared."""
_TELLTALE = frozenset(("erf", "erfc", "tanh", "logistic", "exp"))
_LARGEST_PIECE = 24

FUNCTIONS: dict[str, Params] = {
    "gelu": {},
    "gelu_tanh": {},
    "silu": {},
    "logistic": {"accuracy": None},
    "tanh": {"accuracy": None},
}
"""Operations that are recognised, with their parameters."""


def recognise(graph: Graph, secret: list[bool], *, lookups: bool) -> Graph:
    """Name the functions that a profile replaces."""
    grid = jnp.asarray(_GRID)
    known = {n: np.asarray(evaluate(n, p, [grid])) for n, p in FUNCTIONS.items()}
    found: dict[int, tuple[str, int]] = {}
    covered: set[int] = set()
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i not in covered and graph.nodes[i].op in ELEMENTWISE:
            match = _match(graph, i, known)
            if match:
                found[i] = match[:2]
                covered |= match[2]

    place: dict[int, int] = {}

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node = old.nodes[i]
        place.update(zip(node.inputs, inputs, strict=True))
        if i in found:
            name, source = found[i]
            operand = (place[source],)
            place[i] = builder.emit_encoded(name, operand, FUNCTIONS[name], node.scope)
        elif lookups and (table := _lookup(old, i, secret)):
            ids, depth = table
            place[i] = _look_up(builder, node, place[ids], inputs, depth)
        elif node.op == "exp" and less_its_maximum(old, node.inputs[0]):
            place[i] = builder.emit("exp_negative", *inputs, scope=node.scope)
        else:
            place[i] = builder.emit_encoded(node.op, inputs, node.params, node.scope)
        return place[i]

    return rewrite(graph, rule)


def _match(
    graph: Graph, end: int, known: dict[str, Any]
) -> tuple[str, int, set[int]] | None:
    """The function that ``end`` is of some earlier node, if we know it."""
    if graph.nodes[end].op in _BREAKS or graph.nodes[end].dtype != "float32":
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
        if latest < 0 or graph.nodes[latest].op not in ELEMENTWISE - _BREAKS:
            return None
        if graph.nodes[latest].shape != graph.nodes[end].shape:
            return None
        piece.add(latest)
        sources = (sources - {latest}) | set(_operands(graph, latest))
    return None


def _tells(graph: Graph, piece: set[int]) -> bool:
    return any(graph.nodes[i].op in _TELLTALE for i in piece)


def _operands(graph: Graph, i: int) -> list[int]:
    return [u for u in graph.nodes[i].inputs if graph.nodes[u].op != "constant"]


def _evaluate(graph: Graph, piece: Sequence[int], source: int) -> Any:
    if graph.nodes[source].dtype != "float32":
        return None
    values: dict[int, Any] = {source: jnp.asarray(_GRID)}
    for i in piece:
        node = graph.nodes[i]
        for u in node.inputs:
            if u not in values:
                number = graph.uniform(u)
                if number is None:
                    return None
                values[u] = jnp.asarray(number, graph.nodes[u].dtype)
        operands = [values[u] for u in node.inputs]
        if node.dtype != "float32":
            return None
        values[i] = evaluate(node.op, node.params, operands)
    result = np.asarray(values[piece[-1]])
    return result if result.shape == _GRID.shape else None


def less_its_maximum(graph: Graph, i: int) -> bool:
    """Whether node i is x - max(x)."""
    node = graph.nodes[i]
    if node.op != "sub":
        return False
    minuend, subtrahend = node.inputs
    while graph.nodes[subtrahend].op in MOVES:
        subtrahend = graph.nodes[subtrahend].inputs[0]
    top = graph.nodes[subtrahend]
    return top.op == "reduce_max" and top.inputs[0] == minuend


def _lookup(graph: Graph, i: int, secret: list[bool]) -> tuple[int, int] | None:
    """For a lookup by an input that is secret: the input and the table's length."""
    node = graph.nodes[i]
    if node.op == "gather":
        table, start = node.inputs
        numbers = node.params["dimension_numbers"]["fields"]
        shape = graph.nodes[table].shape
        whole_rows = list(node.params["slice_sizes"]) == [1, *shape[1:]]
        first_axis = (
            numbers["start_index_map"] == numbers["collapsed_slice_dims"] == [0]
        )
        ids = _index_input(graph, start)
        if whole_rows and first_axis and ids is not None and secret[ids]:
            held = graph.nodes[ids].shape
            in_order = graph.nodes[start].shape == (*held, 1)
            last = [*range(len(held), len(node.shape))]
            rows_last = list(numbers["offset_dims"]) == last
            if in_order and rows_last and node.shape == (*held, *shape[1:]):
                return ids, shape[0]
    if node.op == "convert_element_type" and node.dtype == "float32":
        equal = graph.nodes[node.inputs[0]]
        if equal.op == "eq":
            for k in (0, 1):
                ids = _index_input(graph, equal.inputs[k])
                places = graph.constant(equal.inputs[1 - k])
                if ids is None or places is None or not secret[ids]:
                    continue
                depth = places.shape[-1] if places.ndim else 0
                counts = np.array_equal(places.reshape(-1), np.arange(depth))
                if counts and node.shape == (*graph.nodes[ids].shape, depth):
                    return ids, depth
    return None


def _index_input(graph: Graph, i: int) -> int | None:
    """The input that indices come from, through reshapes and wrap-around."""
    while True:
        node = graph.nodes[i]
        if node.op == "input":
            return i if node.dtype == "int32" else None
        if node.op in MOVES:
            i = node.inputs[0]
        elif node.op == "select_n" and _wraps_around(graph, i):
            i = node.inputs[1]
        else:
            return None


def _wraps_around(graph: Graph, i: int) -> bool:
    """Whether a node is where(j < 0, j + n, j), as indexing in JAX writes it."""
    negative, plain, moved = graph.nodes[i].inputs
    below, sum_ = graph.nodes[negative], graph.nodes[moved]
    return (
        (below.op, sum_.op) == ("lt", "add")
        and below.inputs[0] == sum_.inputs[0] == plain
        and graph.uniform(below.inputs[1]) == 0
        and graph.uniform(sum_.inputs[1]) is not None
    )


def _look_up(
    builder: Builder, node: Any, ids: int, inputs: tuple[int, ...], depth: int
) -> int:
    rows = builder.emit("one_hot", ids, scope=node.scope, depth=depth)
    if node.op != "gather":
        return rows
    last = len(builder.nodes[rows].shape) - 1
    return builder.emit(
        "dot_general",
        rows,
        inputs[0],
        scope=node.scope,
        dimension_numbers=(((last,), (0,)), ((), ())),
        precision=None,
        preferred_element_type=None,
        out_sharding=None,
    )
