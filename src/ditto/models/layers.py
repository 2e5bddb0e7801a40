"""What all families are made of, in plain JAX."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.plan import Tree

Params = dict[str, Tree]
"""The parameters of a model, by their place in it."""

HIDDEN = -1e9
"""What a hidden position scores; the compiler knows what to do with it."""

ASIDE = 16.0
"""How far a secret mask moves hidden scores aside, so that none of them is the maximum;
the product with the mask then hides them for good."""

# quad stands for GeLU in models distilled for it.
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "quad": lambda x: 0.125 * x * x + 0.25 * x + 0.5,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
}


def check_activation(name: str) -> None:
    """Refuse an activation that there is none of."""
    if name not in ACTIVATIONS:
        raise CheckpointError(
            f"Activation {name!r} is not supported; these are: "
            f"{', '.join(ACTIVATIONS)}."
        )


def dense(p: Params, x: jax.Array) -> jax.Array:
    """x @ w + b, or without a bias if there is none."""
    return jnp.asarray(x @ p["w"] + p["b"] if "b" in p else x @ p["w"])


def layer_norm(p: Params, x: jax.Array, eps: float) -> jax.Array:
    """Zero mean and unit variance over the last axis, then scale and perhaps shift."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(variance + eps) * p["gamma"]
    return jnp.asarray(scaled + p["beta"] if "beta" in p else scaled)


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """(B, S, H) as (B, heads, S, D)."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Heads (B, heads, S, D), mixed to (B, S, H). The mask is as (B, 1, S, T), and so
    is a bias of the scores.

    A mask of booleans is meant to be public, one of numbers 0 and 1 may be secret: it
    costs a product a weight, and no comparison.
    """
    scores = jnp.einsum("bhsd,bhtd->bhst", q * q.shape[-1] ** -0.5, k)
    if bias is not None:
        scores = scores + bias
    if mask.dtype == jnp.bool_:
        seen = jnp.broadcast_to(mask, scores.shape)
        weights = jax.nn.softmax(jnp.where(seen, scores, HIDDEN), axis=-1)
    else:
        scores = scores + (mask - 1) * ASIDE
        raised = jnp.exp(scores - scores.max(-1, keepdims=True)) * mask
        weights = raised / raised.sum(-1, keepdims=True)
    mixed = jnp.einsum("bhst,bhtd->bhsd", weights, v)
    batch, _, length, _ = q.shape
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1)


def at_position(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Of each row of x (B, S, H) the state at one position, free if it is public."""
    chosen = jnp.arange(x.shape[1]) == positions[:, None]
    return jnp.where(chosen[:, :, None], x, 0.0).sum(1)
