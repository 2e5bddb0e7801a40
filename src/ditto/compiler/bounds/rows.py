"""Rows: a set that every row of a tensor lies in, whatever the input.

A normalisation makes rows of a known length, and what follows it up to the next
function is linear with known weights. So the rows of a tensor lie in

    centre + z_1 A_1 + ... + z_n A_n + e,    |z_j| <= 1,  |e_c| <= box_c

with matrices A_j that the owner knows: balls moved and stretched by weights, and a box
for what is known element by element only. The set is convex, so weighted means of rows
stay in it; a linear map of it is one of the same form; the largest value of a linear
function on it has a formula. Balls are taken as independent: what stems from the same z
twice is bounded as if it did not, which is safe and loses little.

Numbers are float32. Their rounding, and that of fixed point, is in the slack that
``prover`` adds to every bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float32]

_MOST_BALLS = 48
"""Beyond so many, their extents element by element are kept and not they."""
_FEW = 128
"""Features of a head at most: of so many, products of matrices are looked at."""
_ROOTS = 3
"""Squarings in ``spectral_norm``: at most 768^(1/32) times too large, so by a fifth. Of
few features, twice as many."""


@dataclass(frozen=True)
class Rows:
    """Features are the given axes of the tensor, flattened in their order; the set is
    the same at all places of the other axes."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    centre: Reals
    balls: tuple[Reals, ...] = ()
    """Each of some rows and as many columns as there are features."""
    stretch: Reals | None = None
    """One ball more, whose matrix is diagonal: what a normalisation leaves."""
    mean_free: bool = False
    """Whether that ball has the vectors alone that add up to nothing."""
    box: Reals | None = None
    limit: float = inf
    """A bound of the norm of a row that is known otherwise."""

    @classmethod
    def ball(cls, axis: int, size: int, radius: float, *, mean_free: bool) -> "Rows":
        """All vectors up to a length, or those of them that add up to nothing."""
        stretch = np.full(size, radius, np.float32)
        centre = np.zeros(size, np.float32)
        return cls((axis,), (size,), centre, (), stretch, mean_free, limit=radius)

    @classmethod
    def between(
        cls, axes: tuple[int, ...], sizes: tuple[int, ...], low: Reals, high: Reals
    ) -> "Rows":
        """A box."""
        half = np.float32(0.5)
        return cls(axes, sizes, (low + high) * half, box=(high - low) * half)

    @cached_property
    def extent(self) -> Reals:
        """How far each feature goes from the centre."""
        total = np.zeros_like(self.centre) if self.box is None else self.box
        for ball in self.balls:
            total = total + np.linalg.norm(ball, axis=0)
        return total if self.stretch is None else total + np.abs(self.stretch)

    @property
    def _matrices(self) -> tuple[Reals, ...]:
        """All balls by their matrices."""
        if self.stretch is None:
            return self.balls
        return (
            *self.balls,
            self._stretched(np.eye(len(self.centre), dtype=np.float32)),
        )

    def _stretched(self, matrix: Reals) -> Reals:
        """The matrix of the diagonal ball, times another."""
        assert self.stretch is not None  # noqa: S101
        product = self.stretch[:, None] * matrix
        return product - product.mean(0) if self.mean_free else product

    @property
    def low(self) -> float:
        """The smallest element."""
        return float((self.centre - self.extent).min())

    @property
    def high(self) -> float:
        """The largest element."""
        return float((self.centre + self.extent).max())

    @cached_property
    def _corner(self) -> float:
        """The length of a row if every element went as far as it can."""
        return float(np.linalg.norm(np.abs(self.centre) + self.extent))

    @cached_property
    def norm(self) -> float:
        """A bound of the length of a row."""
        found = [self.limit, self._corner]
        alone = self.box is None and self.stretch is None
        if len(self.balls) == 1 and alone and self.limit == inf:
            own = spectral_norm(self.balls[0])
            found.append(float(np.linalg.norm(self.centre)) + own)
        return min(found)

    def scaled(self, factors: Reals) -> "Rows":
        """Each feature times a number."""
        return replace(
            self,
            centre=self.centre * factors,
            balls=tuple(ball * factors for ball in self.balls),
            stretch=None if self.stretch is None else self.stretch * factors,
            box=None if self.box is None else self.box * np.abs(factors),
            limit=self.limit * float(np.abs(factors).max(initial=0.0)),
        )

    def moved(self, summands: Reals) -> "Rows":
        """Each feature plus a number."""
        longer = self.limit + float(np.linalg.norm(summands))
        return replace(self, centre=self.centre + summands, limit=longer)

    def between_zero_and(self, most: float) -> "Rows":
        """The rows times numbers between 0 and ``most``."""
        half = np.abs(self.centre) * np.float32(most / 2)
        return replace(
            self,
            centre=self.centre * np.float32(most / 2),
            balls=tuple(ball * np.float32(most) for ball in self.balls),
            stretch=None if self.stretch is None else self.stretch * np.float32(most),
            box=half if self.box is None else self.box * np.float32(most) + half,
            limit=self.limit * most,
        )

    def plus(self, other: "Rows") -> "Rows":
        """Sums of a row of each."""
        boxes = [rows.box for rows in (self, other) if rows.box is not None]
        total = Rows(
            self.axes,
            self.sizes,
            self.centre + other.centre,
            self._matrices + other._matrices,
            box=sum(boxes[1:], boxes[0]) if boxes else None,
            limit=self.norm + other.norm,
        )
        if len(total.balls) <= _MOST_BALLS:
            return total
        return replace(total, balls=(), box=total.extent)

    def times(self, matrix: Reals, axis: int) -> "Rows":
        """Rows of one axis times a known matrix (features, columns)."""
        balls = tuple(ball @ matrix for ball in self.balls)
        if self.stretch is not None:
            balls = (*balls, self._stretched(matrix))
        return Rows(
            (axis,),
            (matrix.shape[1],),
            self.centre @ matrix,
            balls,
            box=None if self.box is None else self.box @ np.abs(matrix),
        )

    def centred(self) -> "Rows":
        """Every row minus its mean: a projection, so it is not longer than before."""

        def project(x: Reals) -> Reals:
            result: Reals = x - x.mean(-1, keepdims=True)
            return result

        return replace(
            self,
            centre=project(self.centre),
            balls=tuple(project(ball) for ball in self._matrices),
            stretch=None,
            box=None if self.box is None else self.box + self.box.mean(),
        )

    def total(self) -> tuple[float, float]:
        """Between what the sum of a row lies."""
        middle = float(self.centre.sum())
        reach = sum(float(np.linalg.norm(ball.sum(1))) for ball in self._matrices)
        reach += 0.0 if self.box is None else float(self.box.sum())
        return middle - reach, middle + reach

    def groups(self, axes: Sequence[int]) -> list[npt.NDArray[np.intp]]:
        """The features by their place on some of the axes."""
        numbers = np.arange(prod(self.sizes)).reshape(self.sizes)
        first = [self.axes.index(a) for a in axes]
        rest = [k for k in range(len(self.axes)) if k not in first]
        count = prod(self.sizes[k] for k in first)
        return list(numbers.transpose(first + rest).reshape(count, -1))

    def apart(self, axes: Sequence[int]) -> "Rows":
        """As this, where features apart on some axes may belong to different rows."""
        groups = self.groups(axes)
        balls = []
        for ball in self._matrices:
            for group in groups:
                short = _short(ball[:, group])
                part = np.zeros((len(short), ball.shape[1]), np.float32)
                part[:, group] = short
                balls.append(part)
        squares = sum(self.part(group).norm ** 2 for group in groups)
        limit = float(np.sqrt(squares))
        return replace(self, balls=tuple(balls), stretch=None, limit=limit)

    def part(self, group: npt.NDArray[np.intp]) -> "Rows":
        """Some of the features."""
        return Rows(
            (self.axes[-1],),
            (len(group),),
            self.centre[group],
            tuple(ball[:, group] for ball in self._matrices),
            box=None if self.box is None else self.box[group],
            limit=self.limit,
        )

    def below(self, limit: float) -> "Rows":
        """The rows without those that have an element beyond a limit.

        As a box, if its corners are nearer than what is known of the rows otherwise.
        """
        corner = limit * len(self.centre) ** 0.5
        if corner >= min(self.limit, self._corner):
            return self
        low, high = self.centre - self.extent, self.centre + self.extent
        ends = np.maximum(low, -limit), np.minimum(high, limit)
        boxed = Rows.between(self.axes, self.sizes, *ends)
        return replace(boxed, limit=corner)

    def along(self, axes: tuple[int, ...], sizes: tuple[int, ...]) -> "Rows":
        """The same features on other axes."""
        return replace(self, axes=axes, sizes=sizes)


def largest_product(a: Rows, b: Rows) -> float:
    """A bound of |x . y| for rows x of one set and y of another.

    For the balls A and B that is the spectral norm of A B^T, which is smaller than the
    product of both norms wherever weights do not stretch the same directions.
    """
    if len(a.centre) > _FEW or len(a.balls) * len(b.balls) > 1:
        return a.norm * b.norm
    total = abs(float(a.centre @ b.centre))
    for ball in a.balls:
        total += float(np.linalg.norm(ball @ b.centre))
        total += sum(_product_norm(ball, other) for other in b.balls)
    total += sum(float(np.linalg.norm(ball @ a.centre)) for ball in b.balls)
    for one, other in ((a, b), (b, a)):
        if one.box is not None:
            total += float(one.box @ (np.abs(other.centre) + other.extent))
    return total


def _short(matrix: Reals) -> Reals:
    """A square matrix with the same image of the ball, of one with few columns."""
    if len(matrix) <= matrix.shape[1]:
        return matrix
    wide = matrix.astype(np.float64)
    gram = wide.T @ wide
    room = 1e-6 * np.trace(gram) / len(gram) + 1e-30  # a little larger than it is
    root = np.linalg.cholesky(gram + room * np.eye(len(gram)))
    return np.asarray(root.T, np.float32)


def _product_norm(a: Reals, b: Reals) -> float:
    """The spectral norm of a b^T, of two with few columns."""
    return spectral_norm(_short(a) @ _short(b).T)


def spectral_norm(matrix: Reals) -> float:
    """A bound of the largest singular value, at most a fifth too large.

    For a positive G the largest eigenvalue is at most trace(G^2k)^(1/2k), which comes
    near it as k grows; the trace of G^2k is the sum of squares of G^k.
    """
    tall = len(matrix) > matrix.shape[1]
    gram = (matrix.T @ matrix if tall else matrix @ matrix.T).astype(np.float64)
    logarithm, power = 0.0, 1.0
    for _ in range(_ROOTS if len(gram) > _FEW else 2 * _ROOTS):
        size = float(np.abs(gram).max(initial=0.0))
        if size == 0.0:
            return 0.0
        gram = gram / size
        logarithm += np.log(size) / power
        gram, power = gram @ gram, 2 * power
    top = float(np.linalg.norm(gram))
    return float(np.exp((logarithm + np.log(top) / power) / 2))
