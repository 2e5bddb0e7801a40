"""Polynomials for functions of one variable, fitted to a range.

GeLU, SiLU, sigmoid and tanh are each a straight line plus an even function, or an even
function times x. So a polynomial in x^2 is enough, of half the degree. It is written in
Chebyshev polynomials of u = 2 x^2/R^2 - 1, which stay in [-1, 1] and so lose no bits
in fixed point, and evaluated with few products (Paterson and Stockmeyer).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

Reals = npt.NDArray[np.float64]

MAX_DEGREE = 31
_POINTS = 601
_CERTAINLY = 1 + 1e-6
"""How far above an error a bound from below has to be to count."""
_PRODUCT, _RECAST = 132, 80
"""Bits an element of a product with its recast, and of a recast alone."""


@dataclass(frozen=True)
class Shape:
    """f(x) = level + slope * x + even(x), or level + slope * x + x * even(x).

    Beyond some point f is a straight line: ``above`` is its slope on the right; on the
    left it is flat.
    """

    function: Callable[[Reals], Reals]
    level: float
    slope: float
    odd: bool
    above: float


def _erf(x: Reals) -> Reals:
    result: Reals = np.vectorize(math.erf, otypes=[np.float64])(x)
    return result


def _sigmoid(x: Reals) -> Reals:
    result: Reals = 0.5 * (1 + np.tanh(x / 2))
    return result


def _gelu_tanh(x: Reals) -> Reals:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    result: Reals = 0.5 * x * (1 + np.tanh(inner))
    return result


SHAPES = {
    "gelu": Shape(lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), 0, 0.5, False, 1),
    "gelu_tanh": Shape(_gelu_tanh, 0, 0.5, False, 1),
    "silu": Shape(lambda x: x * _sigmoid(x), 0, 0.5, False, 1),
    "logistic": Shape(_sigmoid, 0.5, 0, True, 0),
    "tanh": Shape(np.tanh, 0, 0, True, 0),
}


@dataclass(frozen=True)
class Fit:
    """Chebyshev coefficients in u on |x| <= radius, and the largest error there."""

    coefficients: tuple[float, ...]
    radius: float
    error: float

    @property
    def bits(self) -> int:
        """Bits an element that its evaluation sends, about."""
        scaling = 0 if self.scales_freely else _RECAST
        return _PRODUCT + scaling + _evaluation_bits(len(self.coefficients) - 1)

    @property
    def scale(self) -> float:
        """2/R^2, exactly a power of two if it is nearly one."""
        exponent = math.log2(2 / self.radius**2)
        whole = round(exponent)
        return 2.0**whole if abs(exponent - whole) < 1e-9 else 2 / self.radius**2

    @property
    def scales_freely(self) -> bool:
        """Whether u costs no recast, since its scale is a power of two."""
        return math.frexp(self.scale)[0] == 0.5


@lru_cache(maxsize=1024)
def fit(
    name: str,
    radius: float,
    degree: int,
    *,
    clamped: bool = False,
    error: float = math.inf,
) -> Fit | None:
    """The best polynomial of a degree in u, nearly minimax; none if certainly no
    polynomial of this degree has a smaller ``error``.

    If the argument is ``clamped`` to the radius, the straight line beyond is part of
    the function: at the edge the polynomial has to be near both.
    """
    shape = SHAPES[name]
    x = radius * np.sqrt((1 - np.cos(np.linspace(0, np.pi, _POINTS))) / 2)
    values = shape.function(x)
    if clamped:
        line = shape.above * radius if shape.above else 1.0
        x, values = np.append(x, radius), np.append(values, line)
    u = 2 * (x / radius) ** 2 - 1
    rest = values - shape.level - shape.slope * x
    scale = x if shape.odd else np.ones_like(x)
    basis = chebyshev.chebvander(u, degree) * scale[:, None]
    weights = np.ones_like(x)
    best: tuple[float, Reals] | None = None
    for _ in range(40):  # Lawson's iteration: weight where the error is large
        weighted = basis.T * weights
        solution = np.linalg.solve(weighted @ basis, weighted @ rest)
        gaps = np.abs(basis @ solution - rest)
        if np.average(gaps**2, weights=weights) > (_CERTAINLY * error) ** 2:
            return None  # the least mean square: every largest error is above it
        if best is None or gaps.max() < best[0]:
            best = (float(gaps.max()), np.asarray(solution, np.float64))
        weights *= gaps + 1e-12
        weights /= weights.mean()
        weights = np.maximum(weights, 1e-9)  # keeps the equations solvable
    assert best is not None  # noqa: S101  (the loop ran)
    return Fit(tuple(float(c) for c in best[1]), radius, best[0])


def cheapest_fit(
    name: str,
    radius: float,
    error: float,
    *,
    clamped: bool = False,
    most_bits: float = math.inf,
) -> Fit | None:
    """The smallest polynomial within the error, if one of moderate degree is and it
    takes no more bits."""
    for degree in range(_first_degree(name, radius, error), MAX_DEGREE):
        if _least_bits(degree) > most_bits:
            return None
        found = fit(name, radius, degree, clamped=clamped, error=error)
        if found is not None and found.error <= error:
            return found if found.bits <= most_bits else None
    return None


@lru_cache(maxsize=MAX_DEGREE)
def _least_bits(degree: int) -> int:
    """Of a polynomial of this degree or above, on a range that scales freely."""
    return _PRODUCT + min(_evaluation_bits(d) for d in range(degree, MAX_DEGREE))


@lru_cache(maxsize=1024)
def _series(name: str, radius: float) -> Reals:
    """Chebyshev coefficients in u of the even function, without end."""
    shape = SHAPES[name]

    def even(u: Reals) -> Reals:
        x = radius * np.sqrt((u + 1) / 2)
        rest = shape.function(x) - shape.level - shape.slope * x
        result: Reals = rest / x if shape.odd else rest
        return result

    interpolate: Callable[..., Reals] = chebyshev.chebinterpolate
    series: Reals = np.asarray(interpolate(even, 2 * MAX_DEGREE), np.float64)
    return series * (radius if shape.odd else 1.0)


def _first_degree(name: str, radius: float, error: float) -> int:
    """Where the search begins: no smaller degree can do, or nearly so."""
    series = np.abs(_series(name, radius))
    slack = 6 if SHAPES[name].odd else 2  # x * even is small where even is rough
    above = [k for k in range(2, MAX_DEGREE) if series[k + 1] > slack * error]
    return max([1, *above]) + 1


def _evaluation_bits(degree: int) -> int:
    powers: set[int] = set()

    def block(degree: int) -> int:
        """Products of blocks; notes the Chebyshev polynomials they use."""
        if degree < 4:
            powers.update(range(2, degree + 1))
            return 0
        top = split(degree)
        powers.update(2**k for k in range(1, top.bit_length()))
        inner = block(degree - top) + _PRODUCT + _RECAST if degree > top else 0
        return inner + block(top - 1)

    blocks = block(degree)
    return blocks + _PRODUCT * len(powers) + _RECAST


def radii(start: float) -> list[float]:
    """Ranges to try, from the smallest: quarters, and those that scale freely."""
    free = [math.sqrt(2.0**k) for k in range(-8, 16)]
    close = [start + k / 4 for k in range(9)]
    return sorted(r for r in (*free, *close) if start <= r <= 2 * start + 2)


def split(degree: int) -> int:
    """The largest of T4, T8, T16 that a polynomial of a degree >= 4 is split by."""
    return int(2 ** (degree.bit_length() - 1))
