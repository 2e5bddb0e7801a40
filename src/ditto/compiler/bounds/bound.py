"""What is known of a tensor: its elements, its rows, and what it is a function of."""

from dataclasses import dataclass, replace
from math import inf, isfinite, prod

import numpy as np
import numpy.typing as npt

from ditto.compiler.bounds.rows import Rows
from ditto.fixedpoint import Array

Reals64 = npt.NDArray[np.float64]

_ENDLESS = 2.0**48
"""A bound that says nothing: no ring holds it. Squares of less fit in float32."""
_POINTS = 1024
"""Where a function of one tensor is looked at. Between Chebyshev points a polynomial of
degree k is larger than on them by at most 1/cos(pi k / 2 N): for squarings up to degree
256 by a twelfth. ``prover`` adds slack for it."""
_OUTSIDE = 512
"""Points on either side of a range that a function is good on."""


@dataclass(frozen=True)
class Curve:
    """A function, element by element, of one node."""

    source: int
    samples: Reals64
    """Its values (parts, points): parts lie one after another on the first axis."""
    inside: npt.NDArray[np.bool_]
    """Which of the points lie where the function may be used."""
    degree: int = 1
    """Of a polynomial, as products of samples made it."""

    @classmethod
    def of(cls, source: int, low: float, high: float) -> "Curve":
        """The node itself, between two ends."""
        points = _chebyshev(low, high)
        return cls(source, points[None], np.ones(len(points), bool))

    @classmethod
    def reaching(
        cls, source: int, ends: tuple[float, float], reach: tuple[float, float]
    ) -> "Curve":
        """As ``of``, with points beyond both ends as far as the node may reach."""
        inside = _chebyshev(*ends)
        below = np.linspace(min(reach[0], ends[0]), ends[0], _OUTSIDE, endpoint=False)
        above = np.linspace(max(reach[1], ends[1]), ends[1], _OUTSIDE, endpoint=False)
        points = np.concatenate([inside, below, above])
        return cls(source, points[None], np.arange(len(points)) < len(inside))

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and largest value, with what lies between the points."""
        values = self.samples[:, self.inside]
        low, high = float(values.min()), float(values.max())
        between = 1 / np.cos(np.pi * min(self.degree, 512) / (2 * _POINTS)) - 1
        room = float(between) * max(abs(low), abs(high))
        return low - room, high + room


def _chebyshev(low: float, high: float) -> Reals64:
    middle, half = (low + high) / 2, (high - low) / 2
    points: Reals64 = middle + half * np.cos(np.linspace(0, np.pi, _POINTS + 1))
    return points


@dataclass(frozen=True)
class Bound:
    """All of it holds for every input, as long as no check before has failed."""

    low: float = -inf
    high: float = inf
    value: Array | None = None
    """What it is, if it is always the same."""
    rows: Rows | None = None
    curve: Curve | None = None
    shares: bool = False
    """Whether rows of the last axis are not negative and add up to one at most."""

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def known(self) -> bool:
        """Whether there is a bound at all."""
        return isfinite(self.low) and isfinite(self.high)


UNKNOWN = Bound()


def exactly(value: Array) -> Bound:
    """Of an array that is always the same."""
    if value.size == 0:
        return Bound(0.0, 0.0, value)
    return Bound(float(value.min()), float(value.max()), value)


def of_rows(rows: Rows) -> Bound:
    """Of a tensor whose rows are known, as long as these say anything."""
    bound = Bound(rows.low, rows.high, rows=rows)
    return bound if bound.largest < _ENDLESS else UNKNOWN


def rows_along(
    bound: Bound, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Rows | None:
    """The rows of a tensor along some axes, from whatever is known of it.

    A tensor that is broadcast, of one element along an axis, or a number alone, has the
    same rows all along.
    """
    if bound.rows is not None and bound.rows.axes == axes:
        return bound.rows
    sizes = tuple(shape[a] for a in axes)
    if bound.value is not None:
        return _known_rows(np.asarray(bound.value, np.float32), axes, sizes)
    if not bound.largest < _ENDLESS:
        return None
    low, high = (np.full(prod(sizes), end, np.float32) for end in _ends(bound))
    return Rows.between(axes, sizes, low, high)


def _ends(bound: Bound) -> tuple[float, float]:
    return bound.low, bound.high


def _known_rows(
    value: npt.NDArray[np.float32], axes: tuple[int, ...], sizes: tuple[int, ...]
) -> Rows | None:
    if value.ndim == 0:
        value = value.reshape((1,) * (max(axes) + 1))
    if value.ndim <= max(axes):
        return None
    others = tuple(a for a in range(value.ndim) if a not in axes)
    order = tuple(sorted(range(len(axes)), key=lambda k: axes[k]))
    inverse = tuple(int(k) for k in np.argsort(order))

    def spread(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        ordered = x.transpose(inverse) if len(axes) > 1 else x
        return np.broadcast_to(ordered, sizes).reshape(-1)

    low, high = spread(value.min(others)), spread(value.max(others))
    longest = float(np.sqrt(np.square(value).sum(axes)).max(initial=0.0))
    full = tuple(value.shape[a] for a in axes) == sizes
    found = Rows.between(axes, sizes, low, high)
    if not np.any(found.box):
        return Rows(axes, sizes, found.centre)
    return replace(found, limit=longest if full else inf)
