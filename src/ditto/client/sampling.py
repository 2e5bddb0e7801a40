"""The choice of the next token, by the client, from opened logits."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ditto.errors import SetupError
from ditto.fixedpoint import Array


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen.

    ``temperature`` 0 takes the likeliest token. Otherwise one is drawn: from the
    ``top_k`` likeliest (0: from all), then from the likeliest that together hold
    ``top_p`` of the probability (1: all of it). ``seed`` repeats a draw; without it
    the operating system gives one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _check(
            0 <= self.temperature < math.inf,
            f"temperature is {self.temperature}; it must be 0 (the likeliest token) "
            "or a positive number.",
        )
        _check(
            self.top_k >= 0,
            f"top_k is {self.top_k}; it must be 0 (off) or a number of tokens.",
        )
        _check(
            0 < self.top_p <= 1,
            f"top_p is {self.top_p}; it must lie above 0 and not above 1 (off).",
        )
        _check(
            self.seed is None or self.seed >= 0,
            f"seed is {self.seed}; it must not be negative.",
        )


class Sampler:
    """Chooses tokens, one after another, from one stream of randomness."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._generator = np.random.default_rng(sampling.seed)

    def choose(self, logits: Array) -> int:
        """The id of the next token. Of equal logits the lowest id comes first."""
        values = _checked(logits)
        if self.sampling.temperature == 0:
            return int(values.argmax())
        order, weights = _candidates(values, self.sampling)
        mass = weights.cumsum()
        drawn = mass.searchsorted(self._generator.random() * mass[-1], side="right")
        last = mass.searchsorted(mass[-1])  # rounding must not reach a weight of 0
        return int(order[min(drawn, last)])


def _candidates(
    values: npt.NDArray[np.float64], sampling: Sampling
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """The tokens that may be drawn, likeliest first, and their weights."""
    order = np.argsort(-values, kind="stable")[: sampling.top_k or None]
    with np.errstate(over="ignore"):  # far below the best: the weight is 0
        weights = np.exp((values[order] - values[order[0]]) / sampling.temperature)
    if sampling.top_p < 1:
        mass = weights.cumsum()
        kept = int(mass.searchsorted(sampling.top_p * mass[-1])) + 1
        order, weights = order[:kept], weights[:kept]
    return order, weights


def _checked(logits: Array) -> npt.NDArray[np.float64]:
    values = np.asarray(logits, np.float64)
    _check(
        values.ndim == 1 and values.size > 0,
        f"The logits have shape {values.shape}; they must be those of one position.",
    )
    best = values.max()
    _check(bool(np.isfinite(best)), f"The largest logit is {best}; it must be finite.")
    return values


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SetupError(otherwise)
