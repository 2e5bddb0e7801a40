"""What lies in its range comes out right, and what does not is reported."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.api.local import run_local
from ditto.compiler import compile
from ditto.compiler.passes.approximate import exp_range, squarings
from ditto.errors import CapacityError
from ditto.plan import Plan, Step
from ditto.runtime import ThreadTrio
from ditto.simulation import Simulator

ROWS, COLUMNS = 16, 32


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, -1)


def scores(rng: np.random.Generator, scale: float = 2.0) -> Any:
    return (rng.normal(size=(ROWS, COLUMNS)) * scale).astype(np.float32)


def calibrated(scale: float = 2.0) -> Plan:
    rng = np.random.default_rng(0)
    samples = [(scores(rng, scale),) for _ in range(8)]
    return compile(softmax, samples[0], calibration=samples)


def only(plan: Plan, op: str) -> Step:
    (step,) = (s for s in plan.steps if s.kind.name == op)
    return step


def grid_ends(plan: Plan) -> tuple[float, float, float]:
    """Where the grid of a softmax begins and ends, and its step."""
    step = only(plan, "coarse_max")
    kind = plan.values[step.inputs[0]].fxp
    grid = step.kind.grid(kind)
    low, high, size = (x * kind.ulp for x in (grid.low, grid.high, 1 << grid.cut))
    return low, high, size


def wrong_rows(plan: Plan, x: Any, trio: ThreadTrio, function: Any = softmax) -> int:
    """Rows in which the parties are far from the function."""
    found = run_local(plan, (x,), trio=trio).result
    gaps = np.abs(found - np.asarray(function(x)))
    return int((gaps.reshape(len(x), -1).max(1) > 0.02).sum())


def test_a_grid_has_room_below_as_above() -> None:
    """The margin is 1.5 at least: a quarter of the range to spare on each side."""
    for scale in (0.5, 1.0, 1.6, 2.0, 3.0):
        rng = np.random.default_rng(0)
        samples = [scores(rng, scale) for _ in range(8)]
        low, high, step = grid_ends(calibrated(scale))
        least, most = min(s.min() for s in samples), max(s.max() for s in samples)
        spare = (most - least) / 4
        assert low <= least - spare + step
        assert high >= most + spare - step
        assert abs((least - low) - (high - most)) <= 2 * step


@pytest.mark.parametrize("below", [-0.3, 0.0, 0.25, 0.6, 1.2, 3.0, 12.0])
def test_a_score_below_the_grid_is_reported_if_it_does_harm(
    below: float, trio: ThreadTrio
) -> None:
    """It does nothing to a softmax, and wraps to the top of the grid."""
    plan = calibrated()
    low, _, _ = grid_ends(plan)
    x = np.clip(scores(np.random.default_rng(1)), -5, 5)
    x[:, 5] = low - below
    simulated = Simulator(plan)((x,))
    assert simulated.broken == (below > 0)
    if not simulated.broken:
        assert wrong_rows(plan, x, trio) == 0


@pytest.mark.parametrize("scale", [1.0, 1.6, 2.0])
def test_a_score_above_the_grid_is_noted(scale: float, trio: ThreadTrio) -> None:
    """Just above, and further out, in most rows."""
    plan = calibrated(scale)
    _, top, step = grid_ends(plan)
    for above, harm in ((-0.05, False), (1.0, True), (6.0, True)):
        x = np.clip(scores(np.random.default_rng(1), 1.0), -5, 5)
        x[:, 3] = top + above * step
        simulated = Simulator(plan)((x,), seed=1)
        run = run_local(plan, (x,), trio=trio)
        assert simulated.in_range == run.in_range == (not harm)
        if harm:
            assert "coarse_max" in str(next(h for h in simulated.headroom if h.left))
        else:
            assert wrong_rows(plan, x, trio) == 0


def test_both_sides_of_a_gate_may_use_their_margin() -> None:
    """Their product then goes as far as both margins together."""

    def gated(x: jax.Array) -> jax.Array:
        return x[:, :COLUMNS] * jax.nn.silu(x[:, COLUMNS:])

    def mapped(x: jax.Array, w: jax.Array) -> jax.Array:
        return gated(x) @ w

    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (ROWS, 2 * COLUMNS)).astype(np.float32)
    w = rng.normal(0, 0.1, (COLUMNS, 4)).astype(np.float32)
    plan = compile(mapped, (x, w), calibration=[(x, w)])
    further = 1.99 * x
    assert np.abs(gated(further)).max() > 4 * np.abs(gated(x)).max()
    found = Simulator(plan)((further, w)).headroom
    (product,) = (h for h in found if h.kind == "multiply")
    assert not product.left


def test_a_table_is_right_at_its_ends_and_reported_beyond(trio: ThreadTrio) -> None:
    def inverse(x: jax.Array) -> jax.Array:
        return 1 / x

    rng = np.random.default_rng(0)
    samples = [(rng.uniform(1, 20, 64).astype(np.float32),) for _ in range(4)]
    plan = compile(inverse, samples[0], calibration=samples)
    step = only(plan, "table_function")
    kind = plan.values[step.inputs[0]].fxp
    shape = step.kind.table(kind, plan.values[step.outputs[0]].fxp)
    last = shape.scales[-1]
    low, width = shape.low * kind.ulp, 2.0**last.cut * kind.ulp
    top = min(low + (last.cells - 1) * width, kind.max_value)
    assert low <= 1 / 16  # far below the samples
    assert top >= 40
    for at, harm in ((low * 1.01, False), (top - width / 2, False), (low / 2, True)):
        x = np.full(64, at, np.float32)
        assert Simulator(plan)((x,)).broken == harm
        if not harm:
            found = run_local(plan, (x,), trio=trio).result
            assert np.abs(found * at - 1).max() < 0.02


def test_rows_of_any_sharpness_have_their_sum_in_the_table(trio: ThreadTrio) -> None:
    """Calibrated on flat rows; one score far above the rest makes a sum of one."""
    rng = np.random.default_rng(0)
    flat = [(scores(rng, 1.5),) for _ in range(4)]
    plan = compile(softmax, flat[0], calibration=flat)
    sharp = np.full((ROWS, COLUMNS), -4.0, np.float32)
    sharp[:, 7] = 4.0
    level = np.full((ROWS, COLUMNS), 1.7, np.float32)
    for x in (sharp, level):
        assert not Simulator(plan)((x,)).broken
        assert wrong_rows(plan, x, trio) == 0


def normalise(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-12)


@pytest.mark.parametrize("size", [0.3, 1.0, 1.9])
def test_variances_far_below_the_samples_are_in_the_table(
    size: float, trio: ThreadTrio
) -> None:
    rng = np.random.default_rng(0)
    samples = [(scores(rng, 2.0),) for _ in range(4)]
    plan = compile(normalise, samples[0], calibration=samples)
    x = scores(np.random.default_rng(1), 2.0 * size)
    x = np.clip(x, -2 * samples[0][0].max(), 2 * samples[0][0].max())
    assert not Simulator(plan)((x,)).broken
    assert wrong_rows(plan, x, trio, normalise) == 0


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_a_fit_used_beyond_its_range_is_reported(name: str, trio: ThreadTrio) -> None:
    """It is wrong there without any overflow, as soon as its cells count around. A
    product of inputs goes that far, one alone does not."""
    activation = {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "silu": jax.nn.silu,
    }[name]

    def function(x: jax.Array) -> jax.Array:
        return activation(x[:, 1:] * x[:, :1])

    rng = np.random.default_rng(0)
    samples = [(rng.uniform(-2, 2, (ROWS, COLUMNS + 1)).astype(np.float32),)]
    plan = compile(function, samples[0], calibration=samples)
    step = only(plan, "piecewise_quadratic")
    kind = plan.values[step.inputs[0]].fxp
    grid = step.kind.between(kind, plan.values[step.outputs[0]].fxp).grid
    end, around = grid.high * kind.ulp, (grid.levels << grid.cut) * kind.ulp
    (seen,) = samples[0]
    assert end >= 2 * np.abs(seen[:, 1:] * seen[:, :1]).max()
    for reach, harm in (
        (0.9 * end, False),
        (end - 0.01, False),
        (0.6 * around, True),
        (0.8 * around, True),
    ):
        x = np.linspace(-1, 1, COLUMNS + 1, dtype=np.float32) * math.sqrt(reach)
        x = np.resize(x, (ROWS, COLUMNS + 1))
        assert Simulator(plan)((x,)).broken == harm
        assert (wrong_rows(plan, x, trio, function) > 0) == harm


def test_exp_by_squarings_knows_where_it_is_good() -> None:
    for n in range(4, 8):
        low, high = exp_range(n)
        x = np.linspace(low, high, 4001)
        y = x / 2**n
        error = np.abs((1 + y + y * y / 2) ** 2**n - np.exp(x))
        assert error[x <= 0].max() <= 1 / 899
        assert (error[x > 0] / np.exp(x[x > 0])).max() <= 1 / 60
        assert squarings(-low) == n
        assert squarings(-low + 0.1) == n + 1


def test_what_a_public_mask_hides_does_no_harm(trio: ThreadTrio) -> None:
    """An overflow in a row that nobody uses is seen, and is not reported."""

    def seen(x: jax.Array, mask: jax.Array) -> jax.Array:
        squared = (x * x) * 0.3
        return jnp.where(mask[:, None], squared, 0.0).sum(0)

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (ROWS, COLUMNS)).astype(np.float32)
    mask = np.arange(ROWS) < 9
    plan = compile(seen, (x, mask), calibration=[(x, mask)], public_argnums=(1,))
    for row, harm in ((12, False), (3, True)):
        asked = x.copy()
        asked[row] = 3.0
        simulated = Simulator(plan)((asked, mask))
        assert any(h.left for h in simulated.headroom)
        assert simulated.broken == harm
        if not harm:
            found = run_local(plan, (asked, mask), trio=trio).result
            assert np.allclose(found, seen(asked, mask), atol=0.01)


def test_sums_may_wrap_around_and_come_back(trio: ThreadTrio) -> None:
    """Only a recast, a comparison or the client needs a number to be in range."""

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * y + 100.0) - 99.0

    small = np.linspace(-1, 1, 8, dtype=np.float32)
    plan = compile(function, (small, small), calibration=[(small, small)])
    found = run_local(plan, (1.9 * small, 1.9 * small), trio=trio).result
    assert not Simulator(plan)((1.9 * small, 1.9 * small)).broken
    assert np.allclose(found, (1.9 * small) ** 2 + 1, atol=0.01)


def test_a_proof_that_the_samples_contradict_is_not_used(trio: ThreadTrio) -> None:
    """A sum that is no softmax's, however like one it looks, has its own range."""
    rng = np.random.default_rng(0)
    x = scores(rng, 1.0)
    offsets = np.linspace(-4, 4, ROWS)[:, None].astype(np.float32)
    hidden = x.copy()
    hidden[:, 0] = 5.0
    mask = np.ones((ROWS, COLUMNS), np.float32)
    mask[:, 0], mask[:, 6:] = 0, 0
    weights = np.minimum(np.abs(scores(rng, 0.1)), 1)
    weights[0, :2] = 0, 1

    def over_all(x: jax.Array, _: jax.Array) -> jax.Array:
        e = jnp.exp(x - jnp.max(x))
        return e / e.sum(-1, keepdims=True)

    def hiding(x: jax.Array, mask: jax.Array) -> jax.Array:
        e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
        e = jnp.where(mask > 0, e, 0.0)
        return e / e.sum(-1, keepdims=True)

    def weighing(x: jax.Array, weights: jax.Array) -> jax.Array:
        e = jnp.exp(x - jnp.max(x, -1, keepdims=True)) * weights
        return e / e.sum(-1, keepdims=True)

    for function, sample in (
        (over_all, (x + offsets, mask)),
        (hiding, (hidden, mask)),
        (weighing, (x, weights)),
    ):
        plan = compile(function, sample, calibration=[sample], public_argnums=(1,))
        assert not Simulator(plan)(sample).broken, function
        got = run_local(plan, sample, trio=trio).result
        assert np.abs(got - np.asarray(function(*sample))).max() < 0.04, function


def test_a_row_below_all_samples_is_not_beaten_by_what_is_hidden(
    trio: ThreadTrio,
) -> None:
    """The first row of a causal mask has one score; the margin lets it be anything."""

    def causal(x: jax.Array, mask: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.where(mask, x, -1e9), -1)

    rng = np.random.default_rng(0)
    mask = np.tril(np.ones((8, 16), np.bool_))
    samples = [(rng.uniform(-4, 4, (8, 16)).astype(np.float32), mask) for _ in range(4)]
    plan = compile(causal, samples[0], calibration=samples, public_argnums=(1,))
    for score in (-4.0, -5.5, -7.0, 7.0):
        x = samples[0][0].copy()
        x[0, 0] = score
        assert not Simulator(plan)((x, mask)).broken, score
        got = run_local(plan, (x, mask), trio=trio).result
        assert np.abs(got - np.asarray(causal(x, mask))).max() < 0.01, score


@pytest.mark.parametrize(
    ("profile", "name", "good", "bad"),
    [
        ("spu", "square", 2e3, 2e4),
        ("paper", "square", 100.0, 400.0),
        ("spu", "exp", 2.0, 14.0),
        ("ditto", "sinh", 2.0, 8.0),
        ("ditto", "cumprod", 1.0, 16.0),
    ],
)
def test_what_spu_gets_wrong_is_reported(
    profile: str, name: str, good: float, bad: float, trio: ThreadTrio
) -> None:
    """Products that wrap before they are truncated, and exponentials out of reach."""
    function: Any = {
        "square": lambda x: x * x,
        "exp": jnp.exp,
        "sinh": jnp.sinh,
        "cumprod": lambda x: jnp.cumprod(x, -1),
    }[name]
    x = np.random.default_rng(0).uniform(0.5, 1, (4, 8)).astype(np.float32)
    x[0, 0] = 1
    plan = compile(function, (good * x,), calibration=[(good * x,)], profile=profile)
    for scale, broken in ((good, False), (bad, True)):
        asked = (scale * x).astype(np.float32)
        exact = np.asarray(function(asked))
        got = run_local(plan, (asked,), trio=trio).result
        wrong = np.abs(got - exact).max() / np.abs(exact).max() > 0.05
        assert (Simulator(plan)((asked,)).broken, wrong) == (broken, broken)


def test_what_is_no_number_is_refused_as_input() -> None:
    plan = compile(lambda x: x, (np.ones(2, np.float32),), bounds=[1.0])
    with pytest.raises(CapacityError, match="reaches inf"):
        Simulator(plan)((np.array([1.0, np.nan], np.float32),))


def test_constants_tell_little_of_the_samples() -> None:
    """What a plan holds of a mask's fill and an exponential's top is rounded."""
    rng = np.random.default_rng(0)
    x, mask = scores(rng), np.tril(np.ones((ROWS, COLUMNS), np.bool_))

    def causal(x: jax.Array, mask: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.where(mask, x, -1e9), -1)

    for plan, grain in (
        (compile(causal, (x, mask), calibration=[(x, mask)], public_argnums=(1,)), 1.0),
        (compile(jnp.exp, (x,), calibration=[(x,)]), 0.125),
    ):
        numbers = np.concatenate(
            [c.reshape(-1) for c in plan.constants if c.dtype == np.float32]
        )
        for end in (x.min(), x.max()):
            assert not np.isin([end, -end, np.exp(end)], numbers).any()
        near = numbers[np.abs(np.abs(numbers) - np.abs(x).max()) < 2]
        assert np.all(near % grain == 0)
