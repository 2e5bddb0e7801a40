"""lookup: find the rows of a table that secret ids select.

``table[ids]`` and ``one_hot(ids) @ table``, by ids that are an input, become one
operation: the client shares the ids in a form that selects rows, and the parties find
them without a comparison.
"""

from collections.abc import Sequence

import numpy as np

from ditto.compiler.builder import Builder, rewrite
from ditto.operations import Trait, has
from ditto.plan import Graph


def look_up(graph: Graph, secret: list[bool]) -> Graph:
    """Name the lookups by secret ids."""

    def rule(builder: Builder, old: Graph, i: int, _: tuple[int, ...]) -> int | None:
        node = old.nodes[i]
        found = _gathered(old, i) or _multiplied(old, i)
        if found is None or not secret[found[1]]:
            return None
        table, ids = found
        operands = builder.place[table], builder.place[ids]
        return builder.emit("lookup", *operands, scope=node.scope)

    return rewrite(graph, rule)


def _gathered(graph: Graph, i: int) -> tuple[int, int] | None:
    """Table and ids, if a node is ``table[ids]``."""
    node = graph.nodes[i]
    if node.op != "gather" or node.dtype != "float32":
        return None
    table, start = node.inputs
    numbers = node.params["dimension_numbers"]["fields"]
    shape = graph.nodes[table].shape
    whole_rows = list(node.params["slice_sizes"]) == [1, *shape[1:]]
    first_axis = numbers["start_index_map"] == numbers["collapsed_slice_dims"] == [0]
    ids = _index_input(graph, start)
    if not whole_rows or not first_axis or ids is None:
        return None
    held = graph.nodes[ids].shape
    in_order = graph.nodes[start].shape == (*held, 1)
    rows_last = list(numbers["offset_dims"]) == [*range(len(held), len(node.shape))]
    fits = in_order and rows_last and node.shape == (*held, *shape[1:])
    return (table, ids) if fits else None


def _multiplied(graph: Graph, i: int) -> tuple[int, int] | None:
    """Table and ids, if a node is ``one_hot(ids) @ table``."""
    node = graph.nodes[i]
    if node.op != "dot_general" or node.dtype != "float32":
        return None
    rows, table = node.inputs
    last = len(graph.nodes[rows].shape) - 1
    if _pairs(node.params["dimension_numbers"]) != (((last,), (0,)), ((), ())):
        return None
    ids = _one_hot_of(graph, rows)
    return None if ids is None else (table, ids)


def _pairs(
    numbers: Sequence[Sequence[Sequence[int]]],
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(tuple(axes) for axes in side) for side in numbers)


def _one_hot_of(graph: Graph, i: int) -> int | None:
    """The ids, if a node holds for each of them the row that selects it."""
    node = graph.nodes[i]
    if node.op != "convert_element_type" or graph.nodes[node.inputs[0]].op != "eq":
        return None
    equal = graph.nodes[node.inputs[0]]
    for k in (0, 1):
        ids = _index_input(graph, equal.inputs[k])
        places = graph.constant(equal.inputs[1 - k])
        if ids is None or places is None:
            continue
        depth = places.shape[-1] if places.ndim else 0
        counts = np.array_equal(places.reshape(-1), np.arange(depth))
        if counts and node.shape == (*graph.nodes[ids].shape, depth):
            return ids
    return None


def _index_input(graph: Graph, i: int) -> int | None:
    """The input that indices come from, through reshapes and wrap-around."""
    while True:
        node = graph.nodes[i]
        if node.op == "input":
            return i if node.dtype == "int32" else None
        if has(node.op, Trait.RESHAPES):
            i = node.inputs[0]
        elif node.op == "select_n" and _wraps_around(graph, i):
            i = node.inputs[1]
        else:
            return None


def _wraps_around(graph: Graph, i: int) -> bool:
    """Whether a node is where(j < 0, j + n, j), as indexing in JAX writes it."""
    if len(graph.nodes[i].inputs) != 3:
        return False
    negative, plain, moved = graph.nodes[i].inputs
    below, sum_ = graph.nodes[negative], graph.nodes[moved]
    return (
        (below.op, sum_.op) == ("lt", "add")
        and below.inputs[0] == sum_.inputs[0] == plain
        and graph.uniform(below.inputs[1]) == 0
        and graph.uniform(sum_.inputs[1]) is not None
    )
