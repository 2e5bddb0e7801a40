"""Pieces in the simulator: their slopes are gradients; draws are alike."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.analysis import predict
from ditto.api.local import run_local
from ditto.plan import Plan
from ditto.simulation import as_function
from ditto.steps import PiecewiseQuadratic
from tests.compiler.cases import PIECES

X = np.linspace(-6, 6, 1536, dtype=np.float32).reshape(24, 64)


def gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ditto.compile(gelu, (X,), calibration=[(X,)])


def step_of(plan: Plan) -> tuple[PiecewiseQuadratic, float]:
    """The step, and what a cell is wide."""
    (step,) = (s for s in plan.steps if isinstance(s.kind, PiecewiseQuadratic))
    assert isinstance(step.kind, PiecewiseQuadratic)
    return step.kind, 2.0**step.kind.cut * plan.values[step.inputs[0]].fxp.ulp


def slopes_at(plan: Plan, x: Any) -> Any:
    kind, width = step_of(plan)
    i = np.clip(np.rint(x / width) - kind.start, 0, len(kind.slopes) - 1).astype(int)
    _, c1, c2 = (each[i] for each in kind.pieces().real())
    return c1 + 2 * c2 * (x - (i + kind.start) * width)


def test_the_gradient_is_the_slope_of_the_piece(plan: Plan) -> None:
    with jax.enable_x64(True):
        total = jax.grad(lambda x: as_function(plan)((x,)).sum())
        got = total(jnp.asarray(X, jnp.float64))
    gaps = np.asarray(got) - slopes_at(plan, X)
    assert np.abs(gaps).max() < 2.0**-20  # x is rounded as the input is


def test_far_beyond_its_range_the_gradient_is_that_of_the_last_piece(
    plan: Plan,
) -> None:
    far = np.array([[-1e4, -100.0, 100.0, 1e4]] * 6, np.float32).repeat(16, 1)
    far = np.resize(far, X.shape)
    with jax.enable_x64(True):
        total = jax.grad(lambda x: as_function(plan)((x,)).sum())
        got = total(jnp.asarray(far, jnp.float64))
    assert np.array_equal(got, (far > 0).astype(float))


def test_either_piece_is_taken_as_often_as_by_the_parties(plan: Plan) -> None:
    """At a quarter of the way to the next middle, one time of four the further one."""
    kind, width = step_of(plan)
    c0, c1, c2 = kind.pieces().real()
    x = (kind.start + np.arange(len(c0) - 1) + 0.25) * width
    near, further = (
        c0[k:][: len(x)] + c1[k:][: len(x)] * d + c2[k:][: len(x)] * d * d
        for k, d in ((0, 0.25 * width), (1, -0.75 * width))
    )
    i = int(np.abs(near - further).argmax())
    here = np.full(X.shape, x[i], np.float32)
    for result in (
        ditto.simulate(plan, (here,), seed=3).result,
        run_local(plan, (here,)).result,
    ):
        share = float((np.mean(result) - near[i]) / (further[i] - near[i]))
        assert abs(share - 0.25) < 0.1


def test_functions_that_do_not_wait_share_their_rounds() -> None:
    def both(x: jax.Array, y: jax.Array) -> jax.Array:
        return gelu(x) + jnp.tanh(y)

    pair = ditto.compile(both, (X, X), calibration=[(X, X)])
    assert sum(s.kind.name == "piecewise_quadratic" for s in pair.steps) == 2
    assert sum(cost.rounds for cost in predict(pair)) == 3
    gaps = run_local(pair, (X, X)).result - both(X, X)
    assert np.abs(gaps).max() < 2 * PIECES
    assert np.sqrt(np.mean(gaps**2)) < 0.007
