"""Programs that once were silently wrong, or ended in a trace instead of a sentence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ditto
from ditto.errors import CapacityError, DittoError, FixedPointRangeError, SetupError
from ditto.simulation import simulate

RNG = np.random.default_rng(11)
X = RNG.normal(size=(4, 6)).astype(np.float32)
Y = RNG.normal(size=(4, 6)).astype(np.float32)
TABLE = RNG.normal(size=(6, 3)).astype(np.float32)
IDS = np.array([0, 3, 2, 3], np.int32)
ROWS = (RNG.normal(size=(4, 50)) * [[30], [1], [3], [10]]).astype(np.float32)


def _rms(x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def _norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


RIGHT: dict[str, tuple[Any, ...]] = {
    "rsqrt of large": (lax.rsqrt, array(1e5, 2.5e5, 1e6)),
    "sqrt of large": (jnp.sqrt, array(1e5, 1e6, 3e6)),
    "log of large": (jnp.log, array(1e3, 1e5, 1e6)),
    "reciprocal of large": (lambda x: 1000 / x, array(1e3, 3e3, 5e3)),
    "reciprocal of small": (lambda x: 1 / x, array(2e-3, 3e-3, 5e-3)),
    "quotient of large": (
        lambda x, y: x / y, 3e5 * array(1, 2, 3), 3e5 * array(2, 1, 3)
    ),
    "share of a large sum": (lambda x: x / x.sum(-1, keepdims=True), 1e3 + 10 * X),
    "norm of large": (_norm, 500 * X),
    "rms norm of unequal rows": (_rms, ROWS),
    "length of large": (lambda x: jnp.linalg.norm(x, axis=-1), 300 * ROWS[:2]),
    "exp above zero": (jnp.exp, array(-3, 0, 2, 4, 5, 6)),
    "exp far below": (jnp.exp, array(-1000, -500, -3, 0)),
    "secret additive mask": (
        lambda s, m: jax.nn.softmax(s + (1 - m) * -1e4, -1), X, (Y > -1).astype("f")
    ),
    "factors of unequal size": (
        lambda x: (x * array(1e-2, 1, 1e2)) * array(1e2, 1, 1e-2), array(1, 1, 1)
    ),
    "lookup by moved ids": (lambda t, i: t[jnp.where(i == 3, 0, i)], TABLE, IDS),
    "lookup reshaped": (lambda t, i: t[i.reshape(2, 2)], TABLE, IDS),
    "lookup of a row": (lambda t, i: t[i[None]], TABLE, IDS),
    "lookup in a constant": (lambda i: jnp.asarray(TABLE)[i], IDS),
    "lookup in a sum": (lambda t, i: (t[i] + 1).sum(-1), TABLE, IDS),
    "sum below a large one": (
        lambda x, y: jnp.maximum(x.sum(1), 1) < jnp.maximum(y, 1),
        0.5 + jnp.abs(ROWS) / 100, 3e3 + array(1, 2, 3, 4),
    ),
    "sum of sums": (lambda x: x.sum(1).reshape(2, 2).sum(), 1 + jnp.abs(ROWS)),
    "sum beside a large one": (
        lambda x, y: jnp.concatenate([x.sum(1), y]),
        0.5 + jnp.abs(ROWS) / 100, 3e3 + array(1, 2, 3, 4),
    ),
    "clip after silu": (lambda x: jnp.minimum(jax.nn.silu(x), 10.0), 15 * X),
    "where by a moved bit": (
        lambda x, y: jnp.where((x[:, 0] > 0)[:, None], x, y), X, Y
    ),
    "any with kept axis": (lambda x: jnp.any(x > 1, axis=1, keepdims=True), X),
    "joined bits": (lambda x, y: jnp.concatenate([x > 0, y > 0]), X, Y),
    "bits by a public mask": (lambda x: jnp.where(X > 0, x > 0, False), Y),
    "select of several": (lambda x, y: jnp.select([x > 1, x > 0], [y, x], 0.5), X, Y),
    "secret bits": (lambda b, x: jnp.where(b, x, 0.0), X > 0, Y),
    "secret bits times": (lambda b, x: b * x, X > 0, Y),
    "secret bits out": (lambda b: b, X > 0),
    "exp of a choice": (lambda x: jnp.exp(jnp.where(x > 0, 1.0, 0.0)), X),
    "choice of tanh": (lambda x: jnp.where(x > 9, 0.0, jnp.tanh(x)), X),
    "scalar tanh, wide": (jnp.tanh, np.float32(30.0)),
    "python scalars": (lambda a, b: a * b, 1.5, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    function, *given = RIGHT[name]
    plan = ditto.compile(function, given, calibration=[tuple(given)])
    run = ditto.run_local(plan, given)
    expected = np.asarray(function(*given), np.float64)
    scale = max(1.0, float(np.abs(expected).max()))
    assert np.shape(run.result) == expected.shape
    assert np.abs(run.result - expected).max() <= 0.015 * scale
    simulated = ditto.simulate(plan, given).result
    assert np.abs(simulated - expected).max() <= 0.015 * scale


REFUSED: dict[str, tuple[Any, ...]] = {
    "fill value": (
        lambda x, i: jnp.take(x, i, axis=0, mode="fill", fill_value=1.0), X, IDS
    ),
    "small integers": (lambda i: i.astype(jnp.int8), IDS),
    "top_k": (lambda x: lax.top_k(x, 2)[0], X),
    "empty scan": (
        lambda x: lax.scan(lambda c, r: (c, r), x, jnp.zeros((0, 3))), X
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(name: str) -> None:
    function, *given = REFUSED[name]
    with pytest.raises(DittoError, match=r"Use "):
        ditto.compile(function, given, calibration=[tuple(given)])


@pytest.mark.parametrize("fill", [4.0, -6.0])
def test_a_constant_among_scores_is_a_score(fill: float) -> None:
    """Only what lies endlessly low is hidden from the maximum."""

    def function(x: jax.Array) -> jax.Array:
        here = jnp.arange(16) == 3
        return jax.nn.softmax(jnp.where(here, fill, x @ x.T / 16), -1)

    x = np.random.default_rng(0).normal(size=(16, 8)).astype("f")
    plan = ditto.compile(function, (x,), calibration=[(x,)])
    run = ditto.run_local(plan, (x,))
    assert run.in_range
    assert np.abs(run.result - function(x)).max() < 0.005


def test_masked_scores_that_serve_something_else_are_not_changed() -> None:
    def function(s: jax.Array, m: jax.Array) -> Any:
        z = jnp.where(m, s, -2000.0)
        return z, jax.nn.softmax(z, -1)

    mask = np.tri(4, 6, dtype=bool)
    plan = ditto.compile(
        function, (X, mask), calibration=[(X, mask)], public_argnums=(1,)
    )
    scores, _ = ditto.run_local(plan, (X, mask)).result
    assert np.abs(scores - np.where(mask, X, -2000)).max() < 0.01


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"calibration": [X]}, "each is a tuple"),
        ({"calibration": [(X, X)]}, "shapes"),
        ({"calibration": [(X[:2],)]}, "shapes"),
        ({"calibration": []}, "at least one sample"),
        ({"bounds": [-1]}, "not negative"),
        ({"calibration": [(X,)], "public_argnums": (-1,)}, "arguments 0 to 0"),
        ({"calibration": [(X,)], "weight_argnums": (7,)}, "arguments 0 to 0"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        ditto.compile(lambda x: x + 1, (X,), **options)


def test_a_quotient_by_nothing_is_told_by_the_simulator() -> None:
    given = array(0.5, 1, 100)
    plan = ditto.compile(lambda x: 1 / x, (given,), calibration=[(given,)])
    with pytest.raises(CapacityError):
        ditto.simulate(plan, (array(0, 1, 100),))


def test_an_argument_beyond_what_spu_takes_is_told_by_the_simulator() -> None:
    plan = ditto.compile(lax.rsqrt, (array(1, 2, 3),), profile="spu")
    ditto.simulate(plan, (array(1, 2, 3),))
    with pytest.raises(CapacityError, match="region"):
        ditto.simulate(plan, (array(1, 2, 3e5),))


@pytest.mark.parametrize(("outlier", "refused"), [(1e2, False), (1e3, True)])
def test_no_root_of_what_is_lost_beside_an_outlier(
    outlier: float, refused: bool
) -> None:
    """A row that is so much larger that little is left of the mean square of others:
    they would be normalised to anything, and no check would see it."""
    x = np.random.default_rng(0).normal(0, 0.3, (64, 32)).astype(np.float32)
    x[0] *= outlier / 0.3

    if refused:
        with pytest.raises(FixedPointRangeError, match="little would be left"):
            ditto.compile(_rms, (x,), calibration=[(x,)])
        return
    plan = ditto.compile(_rms, (x,), calibration=[(x,)])
    assert np.abs(simulate(plan, (x,)).result - _rms(x))[1:].max() < 0.1
