"""The metrics of GLUE and of language, and the likeness of embeddings.

Source: scikit-learn's definitions; a ratio without a denominator is 0, as there.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ditto.errors import SetupError
from ditto.fixedpoint import Array

Labels = Sequence[int] | Array


def matthews(labels: Labels, predictions: Labels) -> float:
    """Matthews' correlation, of two classes or more."""
    true, said = _pair(labels, predictions)
    classes, numbers = np.unique(np.concatenate([true, said]), return_inverse=True)
    kinds, total = len(classes), len(true)
    t = [int(n) for n in np.bincount(numbers[:total], minlength=kinds)]
    p = [int(n) for n in np.bincount(numbers[total:], minlength=kinds)]
    right = int((true == said).sum())
    covariance = right * total - sum(a * b for a, b in zip(t, p, strict=True))
    variances = (total**2 - sum(a * a for a in t)) * (total**2 - sum(b * b for b in p))
    return covariance / math.sqrt(variances) if variances else 0.0


def accuracy(labels: Labels, predictions: Labels) -> float:
    """The share of right answers."""
    true, said = _pair(labels, predictions)
    return float((true == said).mean())


def f1(labels: Labels, predictions: Labels) -> float:
    """The harmonic mean of precision and recall of class 1."""
    true, said = _pair(labels, predictions)
    found = int(((true == 1) & (said == 1)).sum())
    asked = int((true == 1).sum()) + int((said == 1).sum())
    return 2 * found / asked if asked else 0.0


def perplexity(loss: float) -> float:
    """Of a mean loss per token, in nats; beyond all numbers it is infinite."""
    return math.exp(loss) if loss < 700 else math.inf


METRICS: dict[str, tuple[Callable[[Labels, Labels], float], ...]] = {
    "matthews": (matthews,),
    "accuracy": (accuracy,),
    "accuracy_and_f1": (accuracy, f1),
}
"""What a task is scored by."""


def score(metric: str, labels: Labels, predictions: Labels) -> dict[str, float]:
    """The figures of a metric, by name."""
    if metric not in METRICS:
        raise SetupError(f"No metric {metric!r}; there are: {', '.join(METRICS)}.")
    return {f.__name__: f(labels, predictions) for f in METRICS[metric]}


Interval = tuple[float, float]
"""Between what a score lies, with a confidence of 95 %."""
_NORMAL_95 = 1.959963984540054
"""Of the standard normal distribution, 95 % lie within as many deviations."""
_RESAMPLES = 1000


def wilson(right: int, count: int) -> Interval:
    """The interval of a share of so many, by Wilson's score."""
    if not 0 <= right <= count or not count:
        raise SetupError(f"{right} of {count} is no share.")
    z2, share = _NORMAL_95**2, right / count
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = share * (1 - share) / count + z2 / (4 * count**2)
    half = _NORMAL_95 * math.sqrt(spread) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap(
    metric: Callable[[Labels, Labels], float], labels: Labels, predictions: Labels
) -> Interval:
    """The interval of a score, from examples drawn again and again: 2.5 % of the scores
    are below it, and 2.5 % above. The same in every call."""
    true, said = _pair(labels, predictions)
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(true), (_RESAMPLES, len(true)))
    scores = [metric(true[rows], said[rows]) for rows in drawn]
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)


def intervals(metric: str, labels: Labels, predictions: Labels) -> dict[str, Interval]:
    """The intervals of the figures of a metric, by name: Wilson's of an accuracy."""
    found: dict[str, Interval] = {}
    for name, value in score(metric, labels, predictions).items():
        function = next(f for f in METRICS[metric] if f.__name__ == name)
        if function is accuracy:
            found[name] = wilson(round(value * len(labels)), len(labels))
        else:
            found[name] = bootstrap(function, labels, predictions)
    return found


def cosine(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The cosine of the angle between rows; 0 where a row is 0."""
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if left.shape != right.shape or left.ndim == 0:
        raise SetupError(
            f"Rows of shapes {left.shape} and {right.shape} cannot be compared."
        )
    left, right = _scaled(left), _scaled(right)
    norms = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    dots = np.einsum("...d,...d->...", left, right)
    return np.asarray(
        np.divide(dots, norms, out=np.zeros(norms.shape), where=norms != 0)
    )


def _scaled(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows by their largest entry, so that no square overflows or vanishes."""
    largest = np.abs(rows).max(-1, keepdims=True, initial=0.0)
    return np.asarray(
        np.divide(rows, largest, out=np.zeros_like(rows), where=largest != 0)
    )


def _pair(labels: Labels, predictions: Labels) -> tuple[Array, Array]:
    true, said = np.asarray(labels), np.asarray(predictions)
    if true.ndim != 1 or true.shape != said.shape or not true.size:
        raise SetupError(
            f"Labels of shape {true.shape} and predictions of shape {said.shape}: "
            "there must be as many of both, and one at least."
        )
    return true, said
