"""A plan as a pure function: its values, its gradients, batches of inputs."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ditto
from ditto.simulation import Nearest, Rounding, Simulator, StraightThrough, as_function

TOKENS, HEADS, SIZE = 6, 2, 4  # S, H, D
WIDTH = HEADS * SIZE
SHAPES = {
    "query": (WIDTH, WIDTH),
    "key": (WIDTH, WIDTH),
    "value": (WIDTH, WIDTH),
    "up": (WIDTH, 2 * WIDTH),
    "down": (2 * WIDTH, WIDTH),
}
Tree = Any
Function = Callable[[Sequence[Any]], Any]


def block(
    weights_of_scores: Callable[[Any], Any], activation: Callable[[Any], Any]
) -> Callable[[dict[str, Any], Any], Any]:
    """Attention and an MLP, with residual connections."""

    def split(x: Any) -> Any:
        return x.reshape(TOKENS, HEADS, SIZE).transpose(1, 0, 2)

    def model(p: dict[str, Any], x: Any) -> Any:
        with jax.named_scope("attention"):
            q, k, v = (split(x @ p[name]) for name in ("query", "key", "value"))
            mixed = weights_of_scores(q @ k.mT * 0.5) @ v
            y = x + mixed.transpose(1, 0, 2).reshape(TOKENS, WIDTH)
        with jax.named_scope("mlp"):
            return y + activation(y @ p["up"]) @ p["down"]

    return model


TRANSFORMER = block(
    lambda scores: jax.nn.softmax(scores, -1),
    lambda x: jax.nn.gelu(x, approximate=False),
)
POLYNOMIAL = block(lambda scores: scores, lambda x: (x * x) * 0.25)
"""Of products and sums alone, so that nothing of it is approximated."""

RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=(TOKENS, WIDTH))
ARGUMENTS = (
    {k: (0.4 * RNG.normal(size=shape)).astype("f") for k, shape in SHAPES.items()},
    RNG.normal(size=(TOKENS, WIDTH)).astype("f"),
)
WHOLE = (
    {k: RNG.choice([-1, 0, 0, 0, 1], shape).astype("f") for k, shape in SHAPES.items()},
    RNG.choice([-1, 0, 1], (TOKENS, WIDTH)).astype("f"),
)
"""Whole numbers, so that all that comes of them is a small multiple of 1/16."""


def compiled(function: Any, arguments: tuple[Any, ...]) -> ditto.Plan:
    return ditto.compile(
        function, arguments, calibration=[arguments], weight_argnums=(0,)
    )


@pytest.fixture(scope="module")
def transformer() -> ditto.Plan:
    return compiled(TRANSFORMER, ARGUMENTS)


@pytest.fixture(scope="module")
def polynomial() -> ditto.Plan:
    return compiled(POLYNOMIAL, WHOLE)


def of_arguments(function: Callable[..., Any]) -> Function:
    return lambda arguments: function(*arguments)


def in_float64(arguments: Tree) -> Tree:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), arguments)


def loss(function: Function, arguments: Sequence[Any]) -> Any:
    return ((function(arguments) - TARGET) ** 2).mean()


def gradient(function: Function, arguments: Tree) -> Tree:
    """Of the loss, with respect to all weights and inputs."""
    return jax.grad(lambda a: loss(function, a))(in_float64(arguments))


def central_differences(function: Function, arguments: Tree) -> Tree:
    """The same gradient, without any derivative; its error is of the order h^2."""
    flat, restore = ravel_pytree(in_float64(arguments))
    h = 1e-4
    change = jax.jit(
        jax.vmap(
            lambda d: (
                loss(function, restore(flat + d)) - loss(function, restore(flat - d))
            )
        )
    )
    return restore(change(h * jnp.eye(flat.size)) / (2 * h))


def errors(got: Tree, expected: Tree) -> dict[str, float]:
    """For every argument the error of its gradient, relative, in the 2-norm."""
    relative = jax.tree.map(
        lambda g, e: float(jnp.linalg.norm(g - e) / jnp.linalg.norm(e)), got, expected
    )
    named = jax.tree_util.tree_leaves_with_path(relative)
    return {jax.tree_util.keystr(path): error for path, error in named}


def assert_within(got: Tree, expected: Tree, tolerance: float) -> None:
    found = errors(got, expected)
    assert len(found) == len(SHAPES) + 1
    assert {name: e for name, e in found.items() if not e <= tolerance} == {}


class Forgetful(StraightThrough):
    """Rounds without ``stop_gradient``: no gradient passes."""

    def nearest(self, x: Any) -> Any:
        return jnp.rint(x)


def test_gradients_are_exact_where_nothing_rounds(polynomial: ditto.Plan) -> None:
    """Then the plan is the float function, and so are its derivatives."""
    with jax.enable_x64(True):
        plain = of_arguments(POLYNOMIAL)
        answer = as_function(polynomial)(WHOLE)
        assert np.array_equal(answer, plain(in_float64(WHOLE)))
        got = gradient(as_function(polynomial), WHOLE)
        assert_within(got, gradient(plain, WHOLE), 1e-12)
        assert_within(got, central_differences(plain, WHOLE), 1e-6)


def test_gradients_are_those_of_the_float_model(transformer: ditto.Plan) -> None:
    """As far as the plan's approximations are those of the float model.

    A polynomial of degree d that is within e of a function on |x| <= R crosses it about
    d times, so that its slope is wrong by about d e / R: that is exp. GeLU is
    parabolas, each on two cells of 1/2, whose slopes are off by hundredths. What is
    rounded, to 9 bits or more after the point, is small beside it.
    """
    tolerance = 0.02
    with jax.enable_x64(True):
        plain = of_arguments(TRANSFORMER)
        got = gradient(as_function(transformer), ARGUMENTS)
        expected = gradient(plain, ARGUMENTS)
        differences = central_differences(plain, ARGUMENTS)
        assert_within(expected, differences, 1e-6)
        assert_within(got, expected, tolerance)
        assert_within(got, differences, tolerance)


def test_a_rounding_that_stops_gradients_would_be_seen(
    transformer: ditto.Plan, polynomial: ditto.Plan
) -> None:
    with jax.enable_x64(True):
        for plan, function, arguments in (
            (transformer, TRANSFORMER, ARGUMENTS),
            (polynomial, POLYNOMIAL, WHOLE),
        ):
            got = gradient(as_function(plan, Forgetful()), arguments)
            expected = gradient(of_arguments(function), arguments)
            assert set(errors(got, expected).values()) == {1.0}


@pytest.mark.parametrize("rounding", [Nearest(), StraightThrough()])
def test_values_are_those_of_the_simulator(
    transformer: ditto.Plan, rounding: Rounding
) -> None:
    expected = Simulator(transformer, jit=False)(ARGUMENTS)
    assert not expected.broken
    with jax.enable_x64(True):
        got = as_function(transformer, rounding)(ARGUMENTS)
    assert np.array_equal(np.asarray(got, np.float32), expected.result)


def test_a_batch_is_its_members(transformer: ditto.Plan) -> None:
    weights, x = ARGUMENTS
    batch = np.stack([x, -x, 0.5 * x])
    with jax.enable_x64(True):
        function = as_function(transformer)
        together = jax.jit(jax.vmap(lambda each: function((weights, each))))(batch)
        for got, member in zip(together, batch, strict=True):
            assert np.array_equal(got, function((weights, member)))
