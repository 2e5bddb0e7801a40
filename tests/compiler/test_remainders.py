"""Products that take what rounding leaves of their operands."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.api.local import run_local
from ditto.compiler import RangeReport, compile, find_profile
from ditto.compiler.passes.remainders import Mode

Function = Callable[..., jax.Array]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng([seed, *shape]).normal(size=shape)
    return drawn.astype(np.float32)


def plan_of(function: Function, mode: Mode, *arguments: np.ndarray) -> ditto.Plan:
    """The first argument is secret, the others are weights."""
    return compile(
        function,
        arguments,
        profile=find_profile("ditto").replace(remainders=mode),
        calibration=[arguments],
        weight_argnums=range(1, len(arguments)),
    )


def error(function: Function, plan: ditto.Plan, *arguments: np.ndarray) -> float:
    """Of three parties, on the root of the mean square; they send what is declared."""
    run = run_local(plan, arguments)
    assert run.in_range
    assert run.bytes == ditto.estimate(plan).bytes
    wrong = np.asarray(run.result) - np.asarray(function(*arguments))
    return float(np.sqrt((wrong**2).mean()))


def beside_a_large_one(x: jax.Array, w: jax.Array) -> jax.Array:
    """The first result goes a thousand times as far as the others: their product is
    taken as coarse as that one has to be."""
    return (x @ w)[:, 1:]


def a_few(x: jax.Array, w: jax.Array) -> jax.Array:
    """Few results of many numbers that nothing else takes."""
    return (x * x[:, :1]) @ w


def signs(*shape: int) -> np.ndarray:
    """Weights that lose nothing to rounding; the first column is large."""
    w = np.sign(normal(*shape, seed=1))
    w[:, 0] *= 1024
    return w


def weight_frac(plan: ditto.Plan) -> int:
    """Of the last argument, of which the parties have shares of one type."""
    (encoding,) = plan.inputs[-1].encodings
    return plan.values[encoding].fxp.frac


def test_what_rounding_leaves_of_an_operand_counts() -> None:
    arguments = normal(16, 64), signs(64, 65)
    plans = {
        mode: plan_of(beside_a_large_one, mode, *arguments) for mode in ("none", "all")
    }
    errors = {
        mode: error(beside_a_large_one, plan, *arguments)
        for mode, plan in plans.items()
    }
    assert errors["all"] < errors["none"] / 2
    assert weight_frac(plans["all"]) == weight_frac(plans["none"])


def test_few_results_leave_more_to_the_weight() -> None:
    """The weight is rounded once and for all, the same in every run."""
    arguments = normal(16, 64), signs(64, 8) * normal(64, 8)
    plans = {mode: plan_of(a_few, mode, *arguments) for mode in ("none", "few", "all")}
    fracs = {mode: weight_frac(plan) for mode, plan in plans.items()}
    assert fracs["few"] == fracs["all"] == fracs["none"] + 3
    errors = {mode: error(a_few, plan, *arguments) for mode, plan in plans.items()}
    assert errors["few"] < errors["none"] / 2
    many = plan_of(beside_a_large_one, "few", normal(16, 64), signs(64, 65))
    assert (
        many.digest
        == plan_of(beside_a_large_one, "none", normal(16, 64), signs(64, 65)).digest
    )


def sink(x: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
    """The first key has nearly all of the attention, and says nothing."""
    return jax.nn.softmax(x @ keys, -1) @ values


def test_the_small_weights_of_a_softmax_are_finer() -> None:
    x, keys, values = normal(16, 16), normal(16, 64) / 8, 16 * normal(64, 64)
    x[:, 0], keys[0] = 1, 0
    keys[:, 0], values[0] = 0, 0
    keys[0, 0] = 8
    arguments = x, keys, values
    fracs, products = [], []
    for mode in ("none", "few"):
        plan = plan_of(sink, mode, *arguments)
        raised = [s.outputs[0] for s in plan.steps if s.kind.name == "exponential"]
        fracs.append(plan.values[raised[0]].fxp.frac)
        products.append(sum(step.kind.name == "einsum" for step in plan.steps))
        assert error(sink, plan, *arguments) < 0.02
    assert fracs[1] > fracs[0] + 1
    assert products[1] == products[0] + 1


def retained_frac(function: Function, mode: Mode, x: np.ndarray, w: np.ndarray) -> int:
    """Of the second result, of which the parties retain shares."""
    plan = compile(
        function,
        (x, w),
        profile=find_profile("ditto").replace(remainders=mode),
        calibration=[(x, w)],
        weight_argnums=[1],
        retain_outputs=[1],
    )
    return plan.retained()[0].fxp.frac


def test_what_is_retained_keeps_its_type() -> None:
    """A remainder would have to be retained too."""

    def keys(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        k = x @ w
        return jnp.einsum("sd,td->st", x, k), k.T

    arguments = normal(16, 16), normal(16, 16)
    none, every = (retained_frac(keys, mode, *arguments) for mode in ("none", "all"))
    assert every == none


@pytest.mark.parametrize("mode", ["few", "all"])
def test_ranges_are_those_of_the_products_themselves(mode: Mode) -> None:
    """The type of a remainder holds it, whatever the values are."""
    reports: list[RangeReport] = []
    arguments = normal(16, 64), normal(64, 8)
    for each in ("none", mode):
        compile(
            a_few,
            arguments,
            profile=find_profile("ditto").replace(remainders=each),
            calibration=[arguments],
            weight_argnums=[1],
            on_ranges=reports.append,
        )
    of_products = [[r for r in report.ranges if r.low == -r.high] for report in reports]
    for ranges in of_products:
        assert all(2 * max(map(abs, r.seen)) <= r.high for r in ranges)


def test_keys_of_a_matrix_that_makes_queries_too_stay_as_coarse() -> None:
    """Else a further token, which takes keys as they are, rounds its queries more."""

    def keys(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        q, k = jnp.split(x @ w, 2, axis=-1)
        return jnp.einsum("sd,td->st", q / 4, k), k

    arguments = normal(16, 16), normal(16, 32)
    none, every = (retained_frac(keys, mode, *arguments) for mode in ("none", "all"))
    assert every == none


def test_a_weight_that_is_moved_about_keeps_its_type() -> None:
    """Nothing is left of it when it is rounded: it is shared as products take it."""

    def gained(x: jax.Array, gain: jax.Array) -> jax.Array:
        return x * gain[None, :]

    arguments = normal(64, 16), normal(16)
    plans = [plan_of(gained, mode, *arguments) for mode in ("none", "all")]
    assert plans[0].digest == plans[1].digest


def test_a_public_factor_joins_nothing() -> None:
    """Keys and something else have one: that is not of the keys' matrix."""

    def keys(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        q, k = x @ w[:, :16] * 0.25, x @ w[:, 16:] * 0.25
        return jnp.einsum("sd,td->st", q, w[:, :16]), k

    arguments = normal(16, 16), normal(16, 32)
    rounds = [
        ditto.estimate(
            compile(
                keys,
                arguments,
                profile=find_profile("ditto").replace(remainders=mode),
                calibration=[arguments],
                weight_argnums=[1],
                retain_outputs=[1],
            )
        ).bytes
        for mode in ("none", "all")
    ]
    assert rounds[1] > rounds[0]  # the query's remainder
