"""Keys and values that stand before those of new tokens.

A decoder's layer is given a ``Join``: new tokens stand alone, after a prefix that all
texts share, or at their places in a cache.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from ditto.models.layers import Params

Pair = tuple[jax.Array, jax.Array]
"""Keys and values of a layer, each (B, heads, T, D)."""
Join = Callable[[jax.Array, jax.Array], Pair]
"""Of the keys and values of new tokens: all that these may look at."""
PREFIX = "prefix"
"""Where parameters have keys and values of a prefix: see ``ditto.models.prefix``."""


def prefix_length(p: Params) -> int:
    """How many tokens stand before every text."""
    return int(p[PREFIX][0][0].shape[2]) if PREFIX in p else 0


def prefix_joins(p: Params) -> Sequence[Join]:
    """For every layer: after the prefix, if there is one."""
    if PREFIX not in p:
        return [_alone] * len(p["layers"])
    return [_after(pair) for pair in p[PREFIX]]


def prefix_mask(p: Params, mask: jax.Array) -> jax.Array:
    """Which positions hold text, as (B, 1, 1, T): all of a prefix do."""
    text = mask.astype(bool)
    if PREFIX in p:
        known = jnp.ones((text.shape[0], prefix_length(p)), bool)
        text = jnp.concatenate([known, text], 1)
    return text[:, None, None, :]


def joined_at(here: jax.Array, past: Pair) -> Join:
    """At the place of a cache that ``here`` says, (B, 1, T, 1)."""

    def join(k: jax.Array, v: jax.Array) -> Pair:
        keys, values = past
        return jnp.where(here, k, keys), jnp.where(here, v, values)

    return join


def _alone(k: jax.Array, v: jax.Array) -> Pair:
    return k, v


def _after(past: Pair) -> Join:
    def join(k: jax.Array, v: jax.Array) -> Pair:
        keys, values = past
        return _appended(keys, k), _appended(values, v)

    return join


def _appended(before: jax.Array, new: jax.Array) -> jax.Array:
    rows = (new.shape[0], *before.shape[1:])
    return jnp.concatenate([jnp.broadcast_to(before, rows), new], 2)
