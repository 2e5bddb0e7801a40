"""Scores that only a softmax takes are shared in a smaller ring."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.analysis import predict
from ditto.api.local import run_local
from ditto.compiler import compile as compile_plan
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.simulation import simulate

rng = np.random.default_rng(2)
Q, K, V = (rng.normal(size=(2, 24, 16)).astype(np.float32) for _ in range(3))
SEEN = np.tril(np.ones((24, 24), bool))


def attend(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.mT * 0.25, -1) @ v


def attend_to_the_past(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(jnp.where(SEEN, q @ k.mT * 0.25, -jnp.inf), -1) @ v


def with_scores(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * 0.25
    return jax.nn.softmax(scores, -1) @ v, scores


def with_another_term(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.mT * 0.25 + v @ v.mT * 0.125, -1) @ v


def compiled(function: Callable[..., Any]) -> Plan:
    return compile_plan(function, (Q, K, V), calibration=[(Q, K, V), (K, Q, V)])


def bits_of_scores(plan: Plan) -> tuple[int, float, int]:
    """The ring of the first product, its bytes, and the ring that exp takes."""
    i = next(i for i, s in enumerate(plan.steps) if s.kind.name == "einsum")
    exp = next(s for s in plan.steps if s.kind.name == "exponential")
    made, taken = plan.steps[i].outputs[0], exp.inputs[0]
    sent = predict(plan)[i].bytes
    return plan.values[made].fxp.bits, sent, plan.values[taken].fxp.bits


@pytest.mark.parametrize("function", [attend, attend_to_the_past])
def test_scores_have_as_many_bits_as_are_looked_at(function: Any) -> None:
    plan = compiled(function)
    bits, sent, taken = bits_of_scores(plan)
    assert 17 <= bits == taken < 24
    assert sent == 3 * bits * SEEN.size * 2 / 8
    with ThreadTrio(timeout=60.0) as trio:
        run = run_local(plan, (Q, K, V), trio=trio)
    exact = function(Q, K, V)
    found = simulate(plan, (Q, K, V)).result
    assert np.abs(run.result - exact).max() < 0.01
    assert np.abs(np.asarray(found) - exact).max() < 0.01
    declared = [p.bytes for p in predict(plan)]
    assert [s.bytes for s in run.steps] == declared


@pytest.mark.parametrize("function", [with_scores, with_another_term])
def test_scores_that_others_take_or_add_to_stay_as_they_are(function: Any) -> None:
    bits, _, taken = bits_of_scores(compiled(function))
    assert bits == taken == 32


def test_an_audited_run_answers_the_same() -> None:
    """There the products are reshared as they are, and the shares shifted."""
    plan = compiled(attend)
    with ThreadTrio(timeout=60.0) as trio:
        run = run_local(plan, (Q, K, V), trio=trio, audit="products")
    assert np.abs(run.result - attend(Q, K, V)).max() < 0.01
    i = next(i for i, s in enumerate(plan.steps) if s.kind.name == "einsum")
    assert run.steps[i].bytes == 3 * 32 * SEEN.size * 2 / 8
