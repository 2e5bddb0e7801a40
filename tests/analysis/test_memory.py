"""The memory of a party, estimated from a plan."""

import numpy as np
import pytest

import ditto
from ditto.analysis import party_memory
from ditto.analysis.memory import LOADING


@pytest.mark.fast
def test_weights_and_values_are_counted() -> None:
    weights = np.full((64, 32), 0.5, np.float32)
    x = np.ones((4, 64), np.float32)
    plan = ditto.compile(
        lambda w, x: x @ w,
        (weights, x),
        calibration=[(weights, x)],
        weight_argnums=(0,),
    )
    memory = party_memory(plan)
    shares = 2 * 4 * 64 * 32
    # as they came, as they are multiplied, and the sum of both while it is made
    assert memory.weights == (1 + 1 + 0.5) * shares
    assert memory.values >= 2 * 4 * 64 * 2
    assert memory.bytes == memory.process + memory.weights + memory.values


@pytest.mark.fast
def test_a_table_that_is_only_looked_up_is_held_as_it_came() -> None:
    table = np.full((64, 32), 0.5, np.float32)
    ids = np.arange(4, dtype=np.int32)
    plan = ditto.compile(
        lambda w, k: w[k], (table, ids), calibration=[(table, ids)], weight_argnums=(0,)
    )
    assert party_memory(plan).weights == LOADING * 2 * 4 * 64 * 32
