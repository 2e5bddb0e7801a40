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
_POINTS = 2001
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
    return np.vectorize(math.erf, otypes=[np.float64])(x)


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
        return _PRODUCT + _RECAST + _evaluation_bits(len(self.coefficients) - 1)


@lru_cache(maxsize=256)
def fit(name: str, radius: float, degree: int) -> Fit:
    """The best polynomial of a degree in u, nearly minimax."""
    shape = SHAPES[name]
    x = radius * np.sqrt((1 - np.cos(np.linspace(0, np.pi, _POINTS))) / 2)
    u = 2 * (x / radius) ** 2 - 1
    rest = shape.function(x) - shape.level - shape.slope * x
    scale = x if shape.odd else np.ones_like(x)
    basis = chebyshev.chebvander(u, degree) * scale[:, None]
    weights = np.ones_like(x)
    best: tuple[float, Reals] | None = None
    for _ in range(60):  # Lawson's iteration: weight where the error is large
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(basis * root[:, None], rest * root, rcond=None)[0]
        error = np.abs(basis @ solution - rest)
        if best is None or error.max() < best[0]:
            best = (float(error.max()), solution)
        weights *= error + 1e-12
        weights /= weights.sum()
    assert best is not None  # noqa: S101  (the loop ran)
    return Fit(tuple(float(c) for c in best[1]), radius, best[0])


def cheapest_fit(name: str, radius: float, error: float) -> Fit | None:
    """The smallest polynomial within the error, if one of moderate degree is."""
    for degree in range(2, MAX_DEGREE):
        found = fit(name, radius, degree)
        if found.error <= error:
            return found
    return None


def tail_error(name: str, radius: float) -> float:
    """How far f is from its straight lines at +-radius."""
    shape = SHAPES[name]
    ends = shape.function(np.array([-radius, radius]))
    left = -1.0 if name == "tanh" else 0.0
    right = shape.above * radius + (0.0 if shape.above else 1.0)
    return float(max(abs(ends[0] - left), abs(ends[1] - right)))


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


def split(degree: int) -> int:
    """The largest of T4, T8, T16 that a polynomial of a degree >= 4 is split by."""
    return int(2 ** (degree.bit_length() - 1))
