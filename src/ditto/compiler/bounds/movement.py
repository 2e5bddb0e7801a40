"""Bounds of what is only moved about: elements stay, rows are followed."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ditto.compiler.bounds.bound import Bound
from ditto.compiler.bounds.rows import Rows
from ditto.plan import Node


def moved(
    node: Node, shapes: Sequence[tuple[int, ...]], operands: Sequence[Bound]
) -> Bound:
    """Of a reshape, transpose, slice and the like; indices are no operands."""
    values = operands[:2] if node.op in _OF_TWO else operands[:1]
    if node.op == "concatenate":
        values = operands
    low, high = min(b.low for b in values), max(b.high for b in values)
    if node.op == "convert_element_type" and node.dtype != "float32":
        return Bound(float(np.floor(low)), float(np.ceil(high)))
    rows = operands[0].rows if len(values) == 1 else None
    follow = _FOLLOW.get(node.op)
    kept = None if rows is None or follow is None else follow(node, shapes[0], rows)
    return Bound(low, high, rows=kept, shares=False)


_OF_TWO = ("pad", "dynamic_update_slice")


def _reshaped(node: Node, shape: tuple[int, ...], rows: Rows) -> Rows | None:
    """Features stay in their order, cut in other axes."""
    new = node.shape
    axes: list[int] = []
    runs = _same_runs(shape, new)
    for old_run, new_run in runs:
        inside = [a for a in old_run if a in rows.axes]
        if not inside:
            continue
        free = [a for a in old_run if a not in rows.axes and shape[a] > 1]
        if free:
            return None
        axes += [a for a in new_run if new[a] > 1] or list(new_run[:1])
    if list(rows.axes) != sorted(rows.axes):
        return None
    sizes = tuple(new[a] for a in axes)
    if prod(sizes) != len(rows.centre):
        return None
    return rows.along(tuple(axes), sizes)


def _same_runs(
    old: tuple[int, ...], new: tuple[int, ...]
) -> list[tuple[list[int], list[int]]]:
    """Axes before and after, in the smallest groups that hold the same elements."""
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [], []
        a = b = 1
        while True:
            if i < len(old) and (a <= b or j >= len(new)):
                a, i = a * old[i], i + 1
                left.append(i - 1)
            elif j < len(new):
                b, j = b * new[j], j + 1
                right.append(j - 1)
            else:
                break
            if a == b and left and right:
                break
        runs.append((left, right))
    return runs


def _transposed(node: Node, _shape: tuple[int, ...], rows: Rows) -> Rows:
    order = [int(a) for a in node.params["permutation"]]
    return replace(rows, axes=tuple(order.index(a) for a in rows.axes))


def _broadcast(node: Node, _shape: tuple[int, ...], rows: Rows) -> Rows | None:
    places = [int(a) for a in node.params["broadcast_dimensions"]]
    axes = tuple(places[a] for a in rows.axes)
    if any(node.shape[a] != n for a, n in zip(axes, rows.sizes, strict=True)):
        return None
    return replace(rows, axes=axes)


def _squeezed(node: Node, _shape: tuple[int, ...], rows: Rows) -> Rows | None:
    gone = {int(a) for a in node.params["dimensions"]}
    if gone & set(rows.axes):
        return None
    axes = tuple(a - sum(g < a for g in gone) for a in rows.axes)
    return replace(rows, axes=axes)


def _sliced(node: Node, shape: tuple[int, ...], rows: Rows) -> Rows | None:
    start, stop = (node.params[n] for n in ("start_indices", "limit_indices"))
    if node.params.get("strides"):
        return None
    if all(node.shape[a] == shape[a] for a in rows.axes):
        return rows
    if len(rows.axes) > 1:
        return None
    (axis,) = rows.axes
    group = np.arange(int(start[axis]), int(stop[axis]))
    return rows.part(group).along((axis,), (len(group),))


def _same(_node: Node, _shape: tuple[int, ...], rows: Rows) -> Rows:
    return rows


_FOLLOW = {
    "reshape": _reshaped,
    "transpose": _transposed,
    "broadcast_in_dim": _broadcast,
    "squeeze": _squeezed,
    "slice": _sliced,
    "convert_element_type": _same,
}
