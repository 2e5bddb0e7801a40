"""Operations that no JAX primitive names, as JAX computes them.

bounded_max, bounded_min
    reduce from a bound that the ring can subtract, not from the smallest or largest
    integer as JAX does: SPU may compare with it.
coarse_max
    the maximum on a grid of some step; knows between what its operand lies, and what
    stands for positions that a mask hides.
combine
    a sum of operands times public numbers, plus a public number.
exp_negative
    exp of what is never positive, as in softmax.
exponential
    exp by the exponentials of its summands; knows between what x lies, and with which
    fracs the protocol computes.
lookup
    the rows of a table.
piecewise_linear
    straight lines on cells of one width, as integers with fracs; knows between what x
    lies, and with which frac the protocol takes it.
table_function
    the reciprocal or inverse root of factor * x + summand; knows between what x lies.
within
    x itself; says between what it has to lie for what follows to be right.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _combine(
    *values: jax.Array, coefficients: Sequence[float], bias: float
) -> jax.Array:
    terms = [
        jnp.asarray(v) * np.asarray(c, jnp.asarray(v).dtype)
        for c, v in zip(coefficients, values, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total + np.asarray(bias, total.dtype)


def _bounded(
    x: jax.Array,
    *,
    axes: Sequence[int],
    bound: float,
    choose: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    start = np.asarray(bound, x.dtype)
    result: jax.Array = jax.lax.reduce(x, start, choose, tuple(axes))
    return result


def _coarse_max(
    x: jax.Array,
    *,
    axes: Sequence[int],
    step: float,
    low: float,
    high: float,
    hidden: float | None = None,
) -> jax.Array:
    del low, high, hidden  # where x lies; the value does not depend on it
    size = np.asarray(step, x.dtype)
    return jnp.floor(jnp.max(x, axis=tuple(axes)) / size) * size


def _table_function(
    x: jax.Array,
    *,
    function: str,
    factor: float,
    summand: float,
    low: float,
    high: float,
    widths: int,
) -> jax.Array:
    del low, high, widths
    y = np.asarray(factor, x.dtype) * x + np.asarray(summand, x.dtype)
    apply: Callable[[jax.Array], jax.Array] = {
        "reciprocal": lambda v: 1 / v,
        "rsqrt": jax.lax.rsqrt,
    }[function]
    return apply(y)


def _piecewise_linear(
    x: jax.Array,
    *,
    width: float,
    start: int,
    slopes: Sequence[int],
    intercepts: Sequence[int],
    slope_frac: int,
    intercept_frac: int,
    **_: object,
) -> jax.Array:
    """The line whose middle is nearest; what else is known is for the protocol."""
    x, last = jnp.asarray(x), len(slopes) - 1
    i = jnp.clip(jnp.rint(x / np.asarray(width, x.dtype)) - start, 0, last)
    m, d = (
        jnp.asarray(np.ldexp(np.asarray(each, np.float64), -frac), x.dtype)[
            i.astype(np.int32)
        ]
        for each, frac in ((slopes, slope_frac), (intercepts, intercept_frac))
    )
    return m * x + d


OWN: Mapping[str, Callable[..., jax.Array]] = {
    "bounded_max": partial(_bounded, choose=jax.lax.max),
    "bounded_min": partial(_bounded, choose=jax.lax.min),
    "coarse_max": _coarse_max,
    "combine": _combine,
    "exp_negative": jnp.exp,
    "exponential": lambda x, **_: jnp.exp(x),
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "lookup": lambda table, ids: table[ids],
    "piecewise_linear": _piecewise_linear,
    "reciprocal": lambda x: 1 / x,
    "silu": jax.nn.silu,
    "table_function": _table_function,
    "within": lambda x, low, high: x,  # noqa: ARG005
}
