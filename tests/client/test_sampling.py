"""The choice of tokens: greedy, by temperature, from the best k or p."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from scipy import stats
from scipy.special import softmax

from ditto.client import Sampler, Sampling
from ditto.errors import SetupError

LOGITS = np.array([0.5, 2.0, -1.0, 2.0, 1.0, -math.inf])


def drawn(count: int, **options: Any) -> np.ndarray:
    sampler = Sampler(Sampling(seed=7, **options))
    chosen = [sampler.choose(LOGITS) for _ in range(count)]
    return np.bincount(chosen, minlength=len(LOGITS))


def test_greedy_takes_the_first_of_the_best() -> None:
    assert Sampler(Sampling()).choose(LOGITS) == 1
    assert Sampler(Sampling()).choose(LOGITS.astype(np.float32)) == 1
    assert Sampler(Sampling(temperature=3, top_k=1)).choose(LOGITS) == 1
    assert Sampler(Sampling(temperature=3, top_p=1e-9)).choose(LOGITS) == 1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_draws_follow_the_softmax(temperature: float) -> None:
    counts = drawn(4000, temperature=temperature)
    expected = 4000 * softmax(LOGITS / temperature)
    assert counts[-1] == 0
    assert stats.chisquare(counts[:-1], expected[:-1]).pvalue > 1e-3


def test_top_k_keeps_the_best() -> None:
    assert set(np.flatnonzero(drawn(500, temperature=9.0, top_k=3))) == {1, 3, 4}
    assert set(np.flatnonzero(drawn(500, temperature=9.0, top_k=1))) == {1}
    assert set(np.flatnonzero(drawn(500, temperature=9.0, top_k=99))) == {0, 1, 2, 3, 4}


@given(
    logits=hn.arrays(
        np.float64, st.integers(1, 12), elements=st.floats(-8, 8, allow_subnormal=False)
    ),
    top_p=st.floats(0.01, 1.0),
    seed=st.integers(0, 2**32),
)
def test_top_p_keeps_the_smallest_set(
    logits: np.ndarray, top_p: float, seed: int
) -> None:
    chosen = Sampler(Sampling(1.0, top_p=top_p, seed=seed)).choose(logits)
    weights = softmax(logits)
    better = weights[weights > weights[chosen]].sum()
    assert better <= top_p + 1e-9  # the better ones alone did not suffice


def test_top_p_counts_after_top_k() -> None:
    # Of the best two each holds a half, so 0.4 is reached by the first.
    options = {"temperature": 1.0, "top_k": 2}
    assert set(np.flatnonzero(drawn(200, top_p=0.4, **options))) == {1}
    assert set(np.flatnonzero(drawn(200, top_p=0.6, **options))) == {1, 3}


def test_seed_repeats_a_draw() -> None:
    first, again, other = (
        [sampler.choose(LOGITS) for _ in range(40)]
        for sampler in (Sampler(Sampling(2.0, seed=seed)) for seed in (5, 5, 6))
    )
    assert first == again != other
    fresh = [
        [sampler.choose(LOGITS) for _ in range(200)]
        for sampler in (Sampler(Sampling(2.0)), Sampler(Sampling(2.0)))
    ]
    assert fresh[0] != fresh[1]


@given(st.floats(5e-324, 1e308))
def test_any_temperature_works(temperature: float) -> None:
    assert Sampler(Sampling(temperature)).choose(LOGITS) in range(5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0; it must lie above 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"top_p": math.nan}, "top_p is nan"),
        ({"seed": -3}, "seed is -3"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(SetupError, match=match):
        Sampling(**options)


@pytest.mark.parametrize(
    "logits",
    [np.zeros((2, 3)), np.zeros(0), np.float64(1), [1.0, math.nan], [-math.inf] * 2],
)
def test_bad_logits_are_refused(logits: Any) -> None:
    for sampling in (Sampling(), Sampling(1.0, top_k=2)):
        with pytest.raises(SetupError, match="logit"):
            Sampler(sampling).choose(logits)
