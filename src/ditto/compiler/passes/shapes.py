"""Functions of one variable that are fitted, and where they end."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """A function that is a straight line beyond either edge, to 1/80,000: flat on the
    left, and on the right too unless it ``rises`` there as x does."""

    function: Callable[[Reals], Reals]
    edge: float
    rises: bool


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
    "gelu": Shape(lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), 6.0, rises=True),
    "gelu_tanh": Shape(_gelu_tanh, 6.0, rises=True),
    "silu": Shape(lambda x: x * _sigmoid(x), 14.0, rises=True),
    "logistic": Shape(_sigmoid, 12.0, rises=False),
    "tanh": Shape(np.tanh, 6.0, rises=False),
}
