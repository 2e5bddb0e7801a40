"""The verdict of the parties, and the simulator's beside it, on values out of range."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import numpy as np
import pytest

from ditto.analysis import predict
from ditto.api.local import run_local
from ditto.client import answer_in_range
from ditto.compiler import compile as compile_plan
from ditto.errors import MessageError
from ditto.owner import signature_of
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.simulation import Simulator
from ditto.steps import plan_from_bytes

SHAPE = (16, 32)
Reals = np.ndarray


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def scores(seed: int) -> Reals:
    rng = np.random.default_rng(seed)
    return (2 * rng.normal(size=SHAPE)).clip(-7, 7).astype(np.float32)


def softmax(x: Reals) -> Reals:
    return np.asarray(jax.nn.softmax(x, -1))


@pytest.fixture(scope="module")
def plan() -> Plan:
    samples = [(scores(k),) for k in range(8)]
    return compile_plan(jax.nn.softmax, samples[0], calibration=samples)


def both(
    plan: Plan, trio: ThreadTrio, arguments: list[Reals], seed: int
) -> tuple[Reals, bool | None, bool]:
    run = run_local(plan, arguments, trio=trio)
    return (
        run.result,
        run.in_range,
        Simulator(plan, jit=False)(arguments, seed=seed).in_range,
    )


def test_what_is_in_range_is_not_refused(plan: Plan, trio: ThreadTrio) -> None:
    for seed in range(20, 26):
        x = scores(seed)
        result, in_range, simulated = both(plan, trio, [x], seed)
        assert np.abs(result - softmax(x)).max() < 0.03
        assert in_range is True
        assert simulated is True


@pytest.mark.parametrize("score", [-60, -40, -34, -28, -24, -20, 22, 30, 34, 40, 60])
def test_one_score_beyond_the_grid_is_seen(
    plan: Plan, trio: ThreadTrio, score: float
) -> None:
    """It ruins its row, whose sum is one all the same."""
    x = scores(3)
    x[:, 5] = score
    result, in_range, simulated = both(plan, trio, [x], 3)
    wrong = np.abs(result - softmax(x)).max() > 0.05
    assert in_range is False or not wrong
    assert simulated == in_range


@pytest.mark.parametrize(
    ("function", "times"),
    [(jax.nn.gelu, 3.0), (jax.nn.gelu, 4.0), (jax.nn.silu, 3.0), (jax.nn.gelu, 1.0)],
)
def test_a_fit_beyond_its_range_is_seen(
    trio: ThreadTrio, function: Callable[[Reals], Reals], times: float
) -> None:
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(64, 64)) / 8).astype(np.float32)

    def layer(x: Reals, w: Reals) -> Reals:
        return function(x @ w)

    samples = [(rng.normal(size=(8, 64)).astype(np.float32), w) for _ in range(8)]
    plan = compile_plan(layer, samples[0], calibration=samples, weight_argnums=(1,))
    x = times * np.clip(rng.normal(size=(8, 64)), -3, 3).astype(np.float32)
    result, in_range, simulated = both(plan, trio, [x, w], 1)
    wrong = np.abs(result - np.asarray(layer(x, w))).max() > 0.05
    assert wrong == (times > 1)
    assert in_range is not wrong
    assert simulated is not wrong


def test_the_check_is_in_the_cost_and_in_no_round(plan: Plan, trio: ThreadTrio) -> None:
    bare = replace(plan, range_check=False)
    assert bare.digest != plan.digest
    assert plan_from_bytes(plan.to_bytes()).range_check
    run, without = (run_local(p, [scores(1)], trio=trio) for p in (plan, bare))
    assert without.in_range is None
    assert run.rounds == without.rounds
    for each, cost in ((run, predict(plan)), (without, predict(bare))):
        assert [s.bytes for s in each.steps] == [c.bytes for c in cost]
    assert 1 < run.bytes / without.bytes < 1.2  # a softmax alone: much is the grid's


def test_a_party_that_keeps_its_word_back_is_noticed(plan: Plan) -> None:
    signature = signature_of(plan)
    word = np.array([7], np.uint64)
    with pytest.raises(MessageError, match="range check"):
        answer_in_range(signature, [{"range": word}, {"range": word}, {}])
    assert answer_in_range(signature, [{"range": word}] * 3) is False
    zero = np.array([0], np.uint64)
    two = [{"range": word}, {"range": word}, {"range": zero}]
    assert answer_in_range(signature, two) is True
