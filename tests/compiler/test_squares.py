"""Sums of squares of shares that are shifted where they are, and residuals' means."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.analysis import estimate, predict
from ditto.api.local import run_local
from ditto.compiler import compile as compile_plan
from ditto.models.layers import centred, layer_norm, rms_norm, scale_centred
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.simulation import simulate

RNG = np.random.default_rng(3)
ROWS, WIDTH = 24, 256
X, Y = (RNG.normal(size=(ROWS, WIDTH)).astype(np.float32) for _ in range(2))
W = (RNG.normal(size=(WIDTH, WIDTH)) / 16).astype(np.float32)
NORM = {"gamma": RNG.uniform(0.5, 2, WIDTH).astype(np.float32)}


def norm_of_a_sum(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return layer_norm(p["norm"], x + y @ p["w"], 1e-5)


def norm_of_a_centred_sum(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return scale_centred(p["norm"], centred(x) + y @ p["w"], 1e-5)


def compiled(function: Any, w: np.ndarray) -> tuple[Plan, tuple[Any, ...]]:
    arguments = {"norm": NORM, "w": w}, X, Y
    samples = [arguments, (arguments[0], Y, X)]
    plan = compile_plan(function, arguments, calibration=samples, weight_argnums=(0,))
    return plan, arguments


def squares(plan: Plan) -> list[int]:
    """The rings of products of a tensor by itself."""
    return [
        plan.values[s.inputs[0]].fxp.bits
        for s in plan.steps
        if s.kind.name == "einsum" and s.inputs[0] == s.inputs[1]
    ]


@pytest.mark.parametrize("audit", ["off", "products"])
def test_rows_are_squared_where_they_are(audit: Any) -> None:
    plan, arguments = compiled(norm_of_a_sum, W)
    (bits,) = squares(plan)
    assert 17 <= bits < 32
    assert not [
        s for s in plan.steps
        if s.kind.name == "recast" and plan.values[s.outputs[0]].size == X.size
    ]  # fmt: skip
    with ThreadTrio(timeout=120.0) as trio:
        run = run_local(plan, arguments, trio=trio, audit=audit)
    exact = np.asarray(norm_of_a_sum(*arguments))
    assert np.abs(run.result - exact).mean() < 0.001
    assert np.abs(np.asarray(simulate(plan, arguments).result) - exact).mean() < 0.001
    if audit == "off":
        assert [s.bytes for s in run.steps] == [p.bytes for p in predict(plan)]


def test_the_mean_of_a_residual_takes_no_round() -> None:
    """The product adds nothing to it if the rows of its weights have zero mean."""
    w = W - W.mean(-1, keepdims=True)
    plan, arguments = compiled(norm_of_a_centred_sum, w)
    before, _ = compiled(norm_of_a_sum, w)
    assert estimate(plan).rounds < estimate(before).rounds
    exact = np.asarray(norm_of_a_sum(*arguments))
    np.testing.assert_allclose(norm_of_a_centred_sum(*arguments), exact, atol=1e-5)
    assert np.abs(np.asarray(simulate(plan, arguments).result) - exact).mean() < 0.001


def test_what_others_look_at_is_recast_as_before() -> None:
    """A sum of squares that is a result needs its bits to spare."""

    def rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = (x * x).sum(-1, keepdims=True)
        return x * jax.lax.rsqrt(total + 1e-3), total

    plan = compile_plan(lambda x, w: rows(x @ w), (X, W), calibration=[(X, W)])
    assert squares(plan) == [32]
    _, total = simulate(plan, (X, W)).result
    exact = ((X @ W) ** 2).sum(-1, keepdims=True)
    assert np.abs(np.asarray(total) - exact).max() < 0.01 * exact.max()


def test_wide_ranges_are_recast_as_before() -> None:
    """One row a hundred times as large leaves the others no bits in a small ring."""
    x = X.copy()
    x[0] *= 300
    arguments = {"norm": NORM, "w": W}, x, Y
    plan = compile_plan(
        norm_of_a_sum, arguments, calibration=[arguments], weight_argnums=(0,)
    )
    assert all(bits == 32 for bits in squares(plan))
    exact = np.asarray(norm_of_a_sum(*arguments))
    found = np.asarray(simulate(plan, arguments).result)
    assert jnp.isfinite(found).all()
    assert np.abs(found - exact)[1:].mean() < 0.02


@pytest.mark.parametrize("centres", [True, False])
def test_a_residual_that_goes_on_is_not_carried_coarser(centres: bool) -> None:
    """Its rounding would be in all layers after it, for one normalisation's sake."""
    width = 1024  # where a coarser row is squared more precisely
    x, y = (RNG.normal(size=(ROWS, width)).astype(np.float32) for _ in range(2))
    w = (RNG.normal(size=(width, width)) / 32).astype(np.float32)
    p = {"norm": {"gamma": np.ones(width, np.float32)}, "w": w, "v": w.T / 4}

    norm = layer_norm if centres else rms_norm

    def last(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return norm(p["norm"], x + y @ p["w"], 1e-5) @ p["v"]

    def residual(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        x = x + y @ p["w"]
        return x + norm(p["norm"], x, 1e-5) @ p["v"]

    fracs = []
    for function in (last, residual):
        plan = compile_plan(
            function, (p, x, y), calibration=[(p, x, y)], weight_argnums=(0,)
        )
        product = next(s for s in plan.steps if s.kind.name == "einsum")
        fracs.append(plan.values[product.outputs[0]].fxp.frac)
    assert fracs[1] > fracs[0]
