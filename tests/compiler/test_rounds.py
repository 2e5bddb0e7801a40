"""What does not wait for anything shares its rounds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto

RNG = np.random.default_rng(0)


def group_of(plan: ditto.Plan, step: int) -> list[int]:
    return next(group for group in plan.round_groups() if step in group)


def named(plan: ditto.Plan, name: str) -> list[int]:
    return [k for k, step in enumerate(plan.steps) if step.kind.name == name]


@pytest.mark.parametrize("width", [96, 128, 224, 240, 272])
def test_a_normalisation_waits_for_nothing_that_can_run_beside_it(width: int) -> None:
    """The tensor is squared where it is, or recast beside the means, and the weight is
    multiplied beside the root. Rows of 3, 7 or 15 times a power of two need no product
    with 1/n."""
    x = (RNG.normal(size=(16, width)) + 0.5).astype(np.float32)
    weight = RNG.uniform(0.5, 2.0, width).astype(np.float32)
    matrix = (0.1 * RNG.normal(size=(width, width))).astype(np.float32)

    def norm(w: jax.Array, m: jax.Array, x: jax.Array) -> jax.Array:
        x = x @ m
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-3) * w

    plan = ditto.compile(
        norm,
        (weight, matrix, x),
        calibration=[(weight, matrix, x)],
        weight_argnums=(0, 1),
    )
    (root,) = named(plan, "table_function")
    first, last = named(plan, "multiply")
    assert first in group_of(plan, root)
    assert last > root
    tensors = [
        k
        for k in named(plan, "recast")
        if plan.values[plan.steps[k].outputs[0]].size == x.size
    ]
    if width in (224, 240):  # 7 or 15 times as large, it has no room in a small ring
        beside = group_of(plan, tensors[0])
        assert any(plan.values[plan.steps[k].outputs[0]].size == len(x) for k in beside)
    else:
        assert not tensors
        assert len(named(plan, "downcast")) == 1
    factors = [
        plan.constants[plan.steps[maker].kind.index]
        for k in named(plan, "mul_public")
        for maker in named(plan, "constant")
        if plan.steps[maker].outputs[0] in plan.steps[k].inputs
    ]
    whole = all(np.all(factor == np.rint(factor)) for factor in factors)
    assert whole == (width != 272)
    tuned = ditto.tune_rounds(plan, ditto.WAN)
    assert tuned.steps[first].kind == replace(plan.steps[first].kind, rounds=1), (
        "with its product that is as many as the root has"
    )
    found = ditto.run_local(plan, (weight, matrix, x)).result
    assert np.abs(found - np.asarray(norm(weight, matrix, x))).max() < 0.01


def attention(v: jax.Array, x: jax.Array) -> jax.Array:
    scores = jnp.einsum("qhd,khd->hqk", x, x)
    return jnp.einsum("hqk,khe->qhe", jax.nn.softmax(scores, axis=-1), v)


@pytest.mark.parametrize("features", [4, 48])
def test_a_softmax_is_divided_after_its_product(features: int) -> None:
    """The reciprocal of the sums runs beside the product with the values."""
    x = RNG.normal(size=(24, 2, 8)).astype(np.float32)
    v = RNG.normal(size=(24, 2, features)).astype(np.float32)
    plan = ditto.compile(attention, (v, x), calibration=[(v, x)])
    (inverse,) = named(plan, "table_function")
    beside = [plan.steps[k].kind.name for k in group_of(plan, inverse)]
    assert sorted(beside) == ["einsum", "table_function"]
    (quotient,) = named(plan, "multiply")
    made = plan.values[plan.steps[quotient].outputs[0]]
    assert made.size == v.size
    errors = np.abs(ditto.run_local(plan, (v, x)).result - attention(v, x))
    assert errors.mean() < 0.002
    # half an ulp is an exponential's deviation, and rows are divided by least at least
    (exponential,) = named(plan, "exponential")
    ulp = 2.0 ** -plan.values[plan.steps[exponential].outputs[0]].type.frac
    least = plan.steps[inverse].kind.low * ulp
    deviation = ulp / 2 * np.linalg.norm(v, axis=0).max() / least
    assert errors.max() < 6 * deviation


def test_a_softmax_is_divided_first_where_that_sends_far_less() -> None:
    x = RNG.normal(size=(24, 2, 8)).astype(np.float32)
    v = RNG.normal(size=(24, 2, 2048)).astype(np.float32)
    plan = ditto.compile(attention, (v, x), calibration=[(v, x)])
    (quotient,) = named(plan, "multiply")
    assert plan.values[plan.steps[quotient].outputs[0]].shape == (2, 24, 24)
