"""Several inputs at once: each as if it were alone."""

import jax
import numpy as np
import pytest

from ditto.compiler import compile
from ditto.errors import CapacityError, SetupError
from ditto.plan import Plan
from ditto.simulation import Simulator

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(8, 8)).astype(np.float32)
SAMPLE = RNG.normal(size=(4, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    def function(w: jax.Array, x: jax.Array) -> jax.Array:
        return (x @ w) * (x * x) + jax.nn.relu(x)

    arguments = (WEIGHTS, SAMPLE)
    return compile(function, arguments, calibration=[arguments], weight_argnums=(0,))


@pytest.mark.parametrize("seed", [None, 7])
def test_each_is_as_alone(plan: Plan, seed: int | None) -> None:
    """Also beside one that leaves its ranges."""
    simulator = Simulator(plan)
    inputs = [factor * SAMPLE for factor in (1, 0.5, 3, -1)]
    together = simulator.many([(WEIGHTS, x) for x in inputs], seed=seed)
    assert [each.broken for each in together] == [False, False, True, False]
    assert [each.in_range for each in together] == [True, True, False, True]
    for got, x in zip(together, inputs, strict=True):
        alone = simulator((WEIGHTS, x), seed=seed)
        assert (got.broken, got.in_range) == (alone.broken, alone.in_range)
        assert got.headroom == alone.headroom
        assert np.array_equal(got.result, alone.result, equal_nan=True)


def test_it_is_compiled_once_for_each_number_of_inputs(plan: Plan) -> None:
    simulator = Simulator(plan)
    for count in (2, 3, 2, 3):
        simulator.many([(WEIGHTS, SAMPLE)] * count)
    assert simulator._run_many._cache_size() == 2
    assert simulator.many([]) == []


def test_other_weights_and_inputs_beyond_their_type_are_refused(plan: Plan) -> None:
    simulator = Simulator(plan, jit=False)
    with pytest.raises(SetupError, match=r"Weight \[0\] is not the same array"):
        simulator.many([(WEIGHTS, SAMPLE), (WEIGHTS.copy(), SAMPLE)])
    with pytest.raises(CapacityError, match=r"Input \[1\] reaches"):
        simulator.many([(WEIGHTS, SAMPLE), (WEIGHTS, 1e6 * SAMPLE)])
