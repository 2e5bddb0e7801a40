"""Where a recast of a sum, or of a factor, stands for many others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.compiler import compile
from ditto.models.rotary import Rope, rotate, rotations


def normal(*shape: int, size: float = 1.0) -> np.ndarray:
    """The same whatever was drawn before."""
    drawn = np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)
    return (size * drawn).astype(np.float32)


def checked_plan(function: object, *arguments: np.ndarray, most: float) -> ditto.Plan:
    """A plan whose largest error, beside the largest result, is small."""
    weights = range(1, len(arguments))
    plan = compile(
        function, arguments, calibration=[arguments], weight_argnums=tuple(weights)
    )
    run = ditto.run_local(plan, arguments)
    exact = np.asarray(function(*arguments))  # type: ignore[operator]
    assert run.in_range
    assert np.abs(run.result - exact).max() < most * np.abs(exact).max()
    return plan


def recasts(plan: ditto.Plan) -> list[tuple[int, ...]]:
    """The shapes of what is recast by itself."""
    steps = [step for step in plan.steps if step.kind.name == "recast"]
    return [plan.values[step.outputs[0]].shape for step in steps]


def test_a_rotation_is_recast_once() -> None:
    turns = rotations(Rope(10_000.0), 8, 4)

    def turned(x: jax.Array, w: jax.Array) -> jax.Array:
        return rotate((x @ w).reshape(1, 1, 4, 8), turns) @ w

    plan = checked_plan(turned, normal(4, 8), normal(8, 8), most=0.004)
    assert recasts(plan) == [(1, 1, 4, 8)]


def test_a_stream_that_grows_is_not_recast_in_every_layer() -> None:
    """Its beginning is small and fine, and all that follows asks for less."""

    def stream(x: jax.Array, w: jax.Array) -> jax.Array:
        more = x @ w
        first = x + more
        found = [(64 * first) * first]
        x = first
        for _ in range(4):
            x = x + 64 * more
            found.append(x * x)
        return jnp.concatenate(found)

    x, w = normal(4, 32, size=0.01), normal(32, 32)
    plan = checked_plan(stream, x, w, most=0.004)
    assert recasts(plan).count((4, 32)) == 2  # for its beginning, and for all the rest


@pytest.mark.parametrize("biased", [False, True])
def test_a_term_is_as_fine_as_what_it_is_added_to(biased: bool) -> None:
    """All that follows the sum asks for little; a product cut to that would cost more
    and be known less well."""

    def stream(x: jax.Array, w: jax.Array, bias: jax.Array) -> jax.Array:
        more = x @ w + bias if biased else x @ w
        return ((x + more) * 100) @ w

    arguments = normal(4, 32), normal(32, 32), normal(32)
    plan = checked_plan(stream, *arguments, most=0.004)
    products = [step for step in plan.steps if step.kind.name == "einsum"]
    *_, total = (step for step in plan.steps if step.kind.name == "add")
    held = [plan.values[step.outputs[0]].fxp.frac for step in (products[0], total)]
    assert held[0] == held[1]
    assert len(recasts(plan)) == 1  # of the whole


def test_squares_of_outliers_keep_those_of_the_others() -> None:
    """In the low ring those of the first row leave the others hardly a bit."""

    def norm(x: jax.Array) -> jax.Array:
        few, many = x[:, :1], x[:, 1:]
        squares = 16 * (few * few).sum(-1, keepdims=True)
        return jax.lax.rsqrt(squares + (many * many).sum(-1, keepdims=True))

    x = normal(64, 129)
    x[:, 0] = 5
    x[0, 0] = 3000
    plan = compile(norm, [x], calibration=[[x]])
    run, exact = ditto.run_local(plan, [x]), np.asarray(norm(x))
    assert run.in_range
    assert np.abs(run.result / exact - 1)[1:].max() < 0.01


def test_few_numbers_take_a_factor_as_the_many_ask_for_it() -> None:
    """A norm with outliers in one row: what the row's factor is, it is for all."""

    def norm(x: jax.Array, w: jax.Array) -> jax.Array:
        few, many = x[:, :2], x[:, 2:]
        squares = (few * few).sum(-1, keepdims=True) + (many * many).sum(
            -1, keepdims=True
        )
        factor = jax.lax.rsqrt(squares / x.shape[-1])
        return (few * factor) @ w[:2] + (many * factor) @ w[2:]

    x = normal(8, 66)
    x[0, :2] = 300, -500
    plan = checked_plan(norm, x, normal(66, 8), most=0.01)
    assert (8, 1) not in recasts(plan)
