"""The memory of a party, estimated from a plan."""

import numpy as np
import pytest

import ditto
from ditto.analysis import party_memory
from ditto.analysis.memory import LOADING


@pytest.mark.fast
def test_weights_and_values_are_counted_twice_each() -> None:
    weights = np.full((64, 32), 0.5, np.float32)
    x = np.ones((4, 64), np.float32)
    plan = ditto.compile(
        lambda w, x: x @ w,
        (weights, x),
        calibration=[(weights, x)],
        weight_argnums=(0,),
    )
    memory = party_memory(plan)
    assert memory.weights in (LOADING * 2 * 64 * 32 * size for size in (2, 4))
    assert memory.values >= 2 * 4 * 64 * 2
    assert memory.bytes == memory.process + memory.weights + memory.values
