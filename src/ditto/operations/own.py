"""Operations that no JAX primitive names, as JAX computes them.

bounded_max, bounded_min
    reduce from a bound that the ring can subtract, not from the smallest or largest
    integer as JAX does: SPU may compare with it.
coarse_max
    the maximum on a grid of some step; knows between what its operand lies, and what
    stands for positions that a mask hides.
exp_negative
    exp of what is never positive, as in softmax.
exponential
    exp by the exponentials of its summands; knows between what x lies, and with which
    fracs the protocol computes.
lookup
    the rows of a table.
piecewise_quadratic
    parabolas on cells of one width, as integers with fracs; knows between what x lies.
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


def _piecewise_quadratic(
    x: jax.Array,
    *,
    width: float,
    start: int,
    constants: Sequence[int],
    slopes: Sequence[int],
    curvatures: Sequence[int],
    frac: int,
    offset_frac: int,
    square_frac: int,
    **_: object,
) -> jax.Array:
    """The piece whose middle is nearest; what else is known is for the protocol."""
    x, last = jnp.asarray(x), len(slopes) - 1
    i = jnp.clip(jnp.rint(x / np.asarray(width, x.dtype)) - start, 0, last)
    i = i.astype(np.int32)
    fracs = frac, frac - offset_frac, frac - square_frac
    c0, c1, c2 = (
        jnp.asarray(np.ldexp(np.asarray(each, np.float64), -down), x.dtype)[i]
        for each, down in zip((constants, slopes, curvatures), fracs, strict=True)
    )
    d = x - (i + start).astype(x.dtype) * np.asarray(width, x.dtype)
    return c0 + (c1 + c2 * d) * d


OWN: Mapping[str, Callable[..., jax.Array]] = {
    "bounded_max": partial(_bounded, choose=jax.lax.max),
    "bounded_min": partial(_bounded, choose=jax.lax.min),
    "coarse_max": _coarse_max,
    "exp_negative": jnp.exp,
    "exponential": lambda x, **_: jnp.exp(x),
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "lookup": lambda table, ids: table[ids],
    "piecewise_quadratic": _piecewise_quadratic,
    "reciprocal": lambda x: 1 / x,
    "silu": jax.nn.silu,
    "table_function": _table_function,
    "within": lambda x, low, high: x,  # noqa: ARG005
}
