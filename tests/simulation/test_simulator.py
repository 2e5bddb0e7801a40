"""The simulator against three parties, on programs that nobody wrote."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ditto.api.local import run_local
from ditto.compiler import compile
from ditto.errors import CapacityError
from ditto.runtime import ThreadTrio
from ditto.simulation import Simulator, error_bounds, simulate

ROWS, COLUMNS = 3, 4


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


# Each step of a program takes values of shape (ROWS, COLUMNS) and makes one.

BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b * 0.25,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "where": lambda a, b: jnp.where(a > b, a * 0.5, b),
    "dot": lambda a, b: (a @ b.T) @ b * 0.05,
    "batched": lambda a, b: jnp.einsum("ij,ij->i", a, b)[:, None] * 0.1 + a,
    "concatenate": lambda a, b: jnp.concatenate([a[:1], b[1:]], 0),
}
UNARY = {
    "neg": lambda a: -a,
    "half": lambda a: a * 0.5,
    "scale": lambda a: a * 0.37 + 0.2,
    "square": lambda a: a * a * 0.25,
    "relu": jax.nn.relu,
    "reverse": lambda a: a[::-1, ::-1],
    "mean": lambda a: a - a.mean(-1, keepdims=True),
    "cumsum": lambda a: jnp.cumsum(a, 1) * 0.25,
    "row_max": lambda a: a - a.max(-1, keepdims=True),
    "reciprocal": lambda a: 1 / (1 + a * a),
    "rsqrt": lambda a: jax.lax.rsqrt(1 + jnp.abs(a)),
    "softmax": lambda a: jax.nn.softmax(a, -1),
    "gelu": lambda a: jax.nn.gelu(a, approximate=False),
    "tanh": jnp.tanh,
    "masked": lambda a: jnp.where(jnp.tri(ROWS, COLUMNS) > 0, a, 0.5),
}
PUBLIC = np.linspace(-1, 1, COLUMNS * 2).reshape(COLUMNS, 2).astype(np.float32)

steps = st.one_of(
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 99), st.integers(0, 99)),
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 99)),
)
programs = st.lists(steps, min_size=1, max_size=6)


def build(program: list[tuple[Any, ...]]) -> Any:
    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        values = [x, y]
        for name, *operands in program:
            chosen = [values[k % len(values)] for k in operands]
            rule = BINARY[name] if len(chosen) == 2 else UNARY[name]
            values.append(rule(*chosen))
        return values[-1]

    return function


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=programs, seed=st.integers(0, 2**32 - 1))
@example(program=[("sub", 0, 0), ("batched", 0, 2)], seed=0)  # a product with nothing
@example(program=[("row_max", 0), ("gelu", 2)], seed=0)  # a bias beyond the ring
def test_parties_and_simulator_agree(
    program: list[tuple[Any, ...]], seed: int, trio: ThreadTrio
) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.uniform(-2, 2, (ROWS, COLUMNS)).astype(np.float32) for _ in "xy")
    function = build(program)
    plan = compile(function, (x, y), calibration=[(x, y)])
    run = run_local(plan, (x, y), trio=trio)
    simulated = simulate(plan, (x, y))
    (bound,) = error_bounds(plan, (x, y))
    difference = np.abs(run.result.astype(np.float64) - simulated.result)
    assert (difference <= bound + 1e-6).all(), (difference.max(), bound.max())
    drawn = simulate(plan, (x, y), seed=seed % 1000)
    assert (np.abs(drawn.result - simulated.result) <= bound + 1e-6).all()


def test_the_bound_is_not_vacuous(trio: ThreadTrio) -> None:
    """A product of values near one: errors of a few last places, and no more."""

    def function(x: jax.Array) -> jax.Array:
        return (x * x) * x

    x = np.random.default_rng(0).uniform(0.5, 1, (64, 64)).astype(np.float32)
    plan = compile(function, (x,), calibration=[(x,)])
    (bound,) = error_bounds(plan, (x,))
    run = run_local(plan, (x,), trio=trio)
    difference = np.abs(run.result - simulate(plan, (x,)).result)
    assert difference.max() > 0
    assert difference.max() <= bound.max() + 1e-6 <= 40 * difference.max()


def test_an_overflow_names_the_tensor_and_the_scope() -> None:
    def function(x: jax.Array) -> jax.Array:
        with jax.named_scope("encoder.layer.3"):
            return (x * x) * x

    small = np.linspace(-1, 1, 8, dtype=np.float32)
    plan = compile(function, (small,), calibration=[(small,)])
    fits = simulate(plan, (2.3 * small,))
    assert 0 < fits.tightest.bits < 1
    with pytest.raises(CapacityError, match=r"encoder\.layer\.3.* reaches -?17\.5"):
        simulate(plan, (2.6 * small,))


def test_an_input_beyond_its_range_is_named() -> None:
    small = np.linspace(-1, 1, 8, dtype=np.float32)
    plan = compile(lambda x: x.sum(), (small,), calibration=[(small,)])
    with pytest.raises(CapacityError, match=r"Input \[0\] reaches 100"):
        simulate(plan, (100 * small,))


def test_the_simulator_runs_many_inputs_without_compiling_again() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 8)).astype(np.float32)
    plan = compile(lambda a: jax.nn.softmax(a @ a.T, -1), (x,), calibration=[(x,)])
    simulator = Simulator(plan)
    simulator((x,))
    traced = simulator._run._cache_size()
    for k in range(20):
        again = simulator((x * (1 - k / 40),))
        assert np.allclose(again.result.sum(-1), 1, atol=0.01)
    assert simulator._run._cache_size() == traced


def test_headroom_is_told_for_products_before_their_recast() -> None:
    """The margin is 2, so what was calibrated has at least one bit left."""
    x = np.random.default_rng(2).normal(size=(8, 8)).astype(np.float32)
    plan = compile(lambda a: ((a @ a.T) @ a) * a, (x,), calibration=[(x,)])
    found = simulate(plan, (x,))
    assert 1 <= found.tightest.bits <= 3
    assert [h.kind for h in found.headroom] == ["einsum", "einsum", "multiply"]
