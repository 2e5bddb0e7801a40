"""Bounds of contractions: rows and weights, rows and rows, shares and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ditto.compiler.bounds.bound import UNKNOWN, Bound, of_rows, rows_along
from ditto.compiler.bounds.rows import Rows, largest_product
from ditto.plan import Node

WHOLE = 1 + 1 / 32
"""What shares of a sum add up to at most: 1, the error of the reciprocal's table, and
the rounding of every share."""


@dataclass(frozen=True)
class Contraction:
    """A dot_general, with its axes by their meaning."""

    node: Node
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    contracted: tuple[tuple[int, ...], tuple[int, ...]]
    batch: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, node: Node, shapes: Sequence[tuple[int, ...]]) -> "Contraction":
        """Of a node whose operands have these shapes."""
        contracted, batch = (
            (tuple(int(a) for a in left), tuple(int(a) for a in right))
            for left, right in node.params["dimension_numbers"]
        )
        return cls(node, (shapes[0], shapes[1]), contracted, batch)

    @property
    def terms(self) -> int:
        """How many products a result adds up."""
        return prod(self.shapes[0][a] for a in self.contracted[0])

    def place(self, side: int, axis: int) -> int:
        """Where a free or batch axis of an operand is in the result."""
        if axis in self.batch[side]:
            return self.batch[side].index(axis)
        taken = ({*self.contracted[k], *self.batch[k]} for k in (0, 1))
        free = [
            [a for a in range(len(shape)) if a not in used]
            for shape, used in zip(self.shapes, taken, strict=True)
        ]
        before = len(self.batch[0]) + (len(free[0]) if side else 0)
        return before + free[side].index(axis)


def contraction_bound(
    node: Node, shapes: Sequence[tuple[int, ...]], a: Bound, b: Bound
) -> Bound:
    """The tightest of the rules that apply."""
    dot = Contraction.of(node, shapes)
    if not (a.known and b.known):
        return UNKNOWN
    for left, right, side in ((a, b, 0), (b, a, 1)):
        if left.shares:
            found = _mean_of_rows(dot, right, side)
            if found is not None:
                return found
        if right.value is not None and left.value is None:
            found = _times_weights(dot, left, right, side)
            if found is not None:
                return found
    reach = dot.terms * a.largest * b.largest
    if a.rows is not None and b.rows is not None:
        reach = min(reach, _rows_by_rows(dot, a.rows, b.rows))
    return Bound(-reach, reach)


def _times_weights(
    dot: Contraction, left: Bound, right: Bound, side: int
) -> Bound | None:
    """|x . w| over all rows x, for every column w of a known matrix."""
    other = 1 - side
    weights = right.value
    contracted = dot.contracted[side]
    if weights is None or weights.ndim != 2 or dot.batch[0] or len(contracted) != 1:
        return None
    rows = rows_along(left, dot.shapes[side], contracted)
    if rows is None:
        return None
    (down,) = dot.contracted[other]
    matrix = np.asarray(weights, np.float32)
    matrix = matrix if down == 0 else matrix.T
    product = rows.times(matrix, dot.place(other, 1 - down))
    sums = np.abs(matrix).sum(0)
    limit = float(sums.max(initial=0.0)) * left.largest
    if rows.limit < np.inf:  # as long as the rows are, or as many steps as they take
        limit = min(limit, float(np.linalg.norm(matrix, axis=0).max()) * rows.norm)
    found = of_rows(product)
    return Bound(max(found.low, -limit), min(found.high, limit), rows=product)


def _mean_of_rows(dot: Contraction, right: Bound, side: int) -> Bound | None:
    """Rows times shares that add up to one at most stay between them and zero.

    Features that are apart on a batch axis, as heads are, have shares of their own.
    """
    other = 1 - side
    last = len(dot.shapes[side]) - 1
    if dot.contracted[side] != (last,):
        return None
    low, high = min(right.low, 0.0) * WHOLE, max(right.high, 0.0) * WHOLE
    rows = right.rows
    if rows is None or dot.contracted[other][0] in rows.axes:
        return Bound(low, high)
    apart = [a for a in dot.batch[other] if a in rows.axes]
    mixed = rows.apart(apart) if apart else rows
    mixed = mixed.between_zero_and(WHOLE)
    axes = tuple(dot.place(other, a) for a in rows.axes)
    return Bound(low, high, rows=mixed.along(axes, rows.sizes))


def _rows_by_rows(dot: Contraction, a: Rows, b: Rows) -> float:
    """|x . y|, for the features that a contraction is over."""
    parts = []
    for side, rows in enumerate((a, b)):
        inner = [x for x in dot.contracted[side] if x in rows.axes]
        if inner != list(dot.contracted[side]):
            return np.inf
        outer = [x for x in rows.axes if x not in inner]
        if any(x not in dot.batch[side] for x in outer) or len(inner) != 1:
            return np.inf
        ordered = [x for x in dot.batch[side] if x in outer]
        parts.append([rows.part(group) for group in rows.groups(ordered)])
    if len(parts[0]) != len(parts[1]):
        return np.inf
    return max(largest_product(x, y) for x, y in zip(*parts, strict=True))
