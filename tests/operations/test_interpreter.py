"""What numpy computes of a traced function is what JAX does."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ditto.operations.interpreter import interpreted
from tests.compiler.cases import COMPOSITES, PRIMITIVES, Case

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
HUGE = np.array([np.nan, -np.inf, np.inf, 3e9, -3e9, 2.7, -2.7], np.float32)
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
EDGES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conversion that does not fit": (lambda x: x.astype(jnp.int32), (HUGE,)),
    "half to even": (jnp.round, (np.array([0.5, 1.5, -0.5, -2.5], np.float32),)),
    "half away": (
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        (np.array([0.5, 1.5, -0.5, -2.5, 0.2, 0.49999997], np.float32),),
    ),
    "conversion of what is below zero": (
        lambda x: x.astype(jnp.uint32),
        (np.array([-2.7, -0.3, 2.7], np.float32),),
    ),
    "negative power": (lambda x: lax.integer_pow(x, -3), (X + 5,)),
    "large power": (lambda x: lax.integer_pow(x, 11), (X,)),
    "rows beyond the table": (
        lambda t, i: t.at[i].get(mode="fill"),
        (TABLE, np.array([[0, 4], [5, -9]], np.int32)),
    ),
    "rows clipped": (
        lambda t, i: t.at[i].get(mode="clip"),
        (TABLE, np.array([0, 9, -1], np.int32)),
    ),
    "integers beyond the table": (
        lambda t, i: t.at[i].get(mode="fill"),
        (np.arange(4, dtype=np.int32), np.array([1, 7], np.int32)),
    ),
    "slice that would go beyond": (
        lambda x, k: lax.dynamic_slice(x, (k, 1), (2, 3)),
        (X, np.int32(2)),
    ),
    "update that would go beyond": (
        lambda x, k: lax.dynamic_update_slice(x, x[:2, :2], (k, k)),
        (X, np.int32(3)),
    ),
    "product of some axes": (
        lambda x, y: jnp.einsum("abcd,ebad->bec", x, y),
        (np.arange(48.0).reshape(2, 3, 2, 4), np.arange(120.0).reshape(5, 3, 2, 4)),
    ),
    "product over nothing": (jnp.matmul, (np.zeros((2, 0)), np.zeros((0, 3)))),
    "sums from behind": (partial(lax.cumsum, axis=1, reverse=True), (X,)),
    "sums that wrap": (jnp.sum, (np.full(3, 2**31 - 1, np.int32),)),
    "softmax of what is masked": (
        lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), -1),
        (X,),
    ),
    "arange": (lambda x: x + jnp.arange(4), (X,)),
}


def _check(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Whether numpy has a form of it; it then computes the same."""
    program = interpreted(function, *arguments)
    if program is None:
        return False
    expected = jax.tree_util.tree_leaves(function(*map(jnp.asarray, arguments)))
    for result, due in zip(program(*arguments), expected, strict=True):
        assert (result.shape, result.dtype) == (due.shape, due.dtype)
        np.testing.assert_allclose(result, due, rtol=2e-5, atol=2e-6)
    return True


@pytest.mark.parametrize("case", [*PRIMITIVES, *COMPOSITES], ids=lambda case: case.name)
def test_as_jax_computes_it(case: Case) -> None:
    found = _check(case.function, case.arguments)
    rows = tuple(
        np.stack([x, x[::-1].copy(), x]) if np.ndim(x) else x for x in case.arguments
    )
    axes = tuple(0 if np.ndim(x) else None for x in case.arguments)
    if any(axis == 0 for axis in axes):
        assert _check(jax.vmap(case.function, in_axes=axes), rows) <= found


@pytest.mark.parametrize("name", EDGES)
def test_at_the_edges(name: str) -> None:
    assert _check(*EDGES[name])


def test_most_operations_need_no_compiler() -> None:
    every = [*PRIMITIVES, *COMPOSITES]
    known = [interpreted(case.function, *case.arguments) for case in every]
    assert sum(each is not None for each in known) > 0.75 * len(every)
