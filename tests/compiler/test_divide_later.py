"""A softmax that is divided after its product, or before it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.compiler import compile as compile_plan
from ditto.compiler import find_profile
from ditto.plan import Plan
from ditto.simulation import Simulator, simulate

WIDTH = 8


def begin(scores: Any, x: Any, matrix: Any) -> tuple[Any, Any]:
    """Attention to values, which parties keep."""
    return attend(scores, x @ matrix)


def attend(scores: Any, values: Any) -> tuple[Any, Any]:
    """What a softmax makes of values, and these."""
    return jax.nn.softmax(scores, axis=-1) @ values, values


def drawn(keys: int) -> tuple[Any, Any]:
    """Scores that are all alike nearly, so that the sum of a softmax is large."""
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 0.3, (2, keys))
    values = rng.normal(0, 1, (keys, WIDTH)) + 2
    return scores.astype(np.float32), values.astype(np.float32)


def plan(keys: int) -> Plan:
    """Attention to values that another plan keeps as it needs them for few keys."""
    few = (*drawn(4), np.eye(WIDTH, dtype=np.float32))
    first = compile_plan(begin, few, calibration=[few], retain_outputs=(1,))
    many = drawn(keys)
    return compile_plan(
        attend,
        many,
        calibration=[many],
        state_argnums=(1,),
        retain_outputs=(1,),
        reuse_shares_of=first,
    )


@pytest.mark.fast
@pytest.mark.parametrize(("keys", "later"), [(16, True), (512, False)])
def test_exp_has_fraction_bits_enough(keys: int, later: bool) -> None:
    made = plan(keys)
    (exp,) = (s for s in made.steps if s.kind.name == "exponential")
    assert made.values[exp.outputs[0]].fxp.frac >= 8
    divided = [s for s in made.steps if s.kind.name == "multiply"]
    sizes = {made.values[s.outputs[0]].size for s in divided}
    assert sizes == {2 * (WIDTH if later else keys)}
    found, exact = simulate(made, drawn(keys)).result[0], attend(*drawn(keys))[0]
    assert np.abs(np.asarray(found) - np.asarray(exact)).max() < 0.01


KEYS = 32


def alike(keys: int) -> tuple[Any, Any]:
    """Scores that are all the same, as of a word again and again."""
    _, values = drawn(keys)
    return np.zeros((2, keys), np.float32), values


def apart(keys: int) -> tuple[Any, Any]:
    """Scores of which few count."""
    scores, values = drawn(keys)
    return 5 * scores, values


@pytest.mark.parametrize(("remainders", "has_room"), [("none", False), ("all", True)])
def test_keys_that_are_all_alike_have_room(remainders: Any, has_room: bool) -> None:
    """Where samples had none of them: the sum of what a softmax weighs is then as many
    times as large as there are keys."""
    few = apart(KEYS)
    made = compile_plan(
        attend,
        few,
        profile=find_profile("ditto").replace(remainders=remainders),
        calibration=[few],
        retain_outputs=(1,),
    )
    usual, other = Simulator(made)(few), Simulator(made)(alike(KEYS))
    assert not usual.broken
    assert other.broken == (not has_room)
    assert not (other.broken and other.in_range)  # the parties would say so
    if has_room:
        for found, given in ((usual, few), (other, alike(KEYS))):
            wrong = np.asarray(found.result[0]) - np.asarray(attend(*given)[0])
            assert np.abs(wrong).max() < 0.02


def norms(x: Any, y: Any) -> tuple[Any, Any]:
    """Squares that are summed and multiplied: no softmax, and an outer product."""
    squares = x * x
    sums = squares.sum(-1)
    return (squares @ y) / sums[:, None], jnp.einsum("i,j->ij", sums, sums)


def test_other_sums_beside_products_get_no_more_room() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((4, 8), (8, 3)))
    plans = [
        compile_plan(
            norms,
            (x, y),
            profile=find_profile("ditto").replace(remainders=remainders),
            calibration=[(x, y)],
        )
        for remainders in ("none", "few")
    ]
    squares = [
        [plan.values[v].fxp for v in step.inputs]
        for plan in plans
        for step in plan.steps
        if step.kind.name == "einsum"
    ]
    assert squares[0] == squares[len(squares) // 2]
