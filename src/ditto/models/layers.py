"""What both families are made of, in plain JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError

Params = dict[str, Any]

HIDDEN = -1e9
"""What a hidden position scores; the compiler knows what to do with it."""

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: jax.nn.gelu(x, approximate=True),
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
    """x @ w + b."""
    return jnp.asarray(x @ p["w"] + p["b"])


def layer_norm(p: Params, x: jax.Array, eps: float) -> jax.Array:
    """Zero mean and unit variance over the last axis, then scale and shift."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return jnp.asarray(centred * jax.lax.rsqrt(variance + eps) * p["gamma"] + p["beta"])


def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, heads: int
) -> jax.Array:
    """Several heads. q (B, S, H), k and v (B, T, H), mask as (B, 1, S, T)."""
    scale = (q.shape[-1] // heads) ** -0.5

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    scores = jnp.einsum("bhsd,bhtd->bhst", split(q), split(k)) * scale
    seen = jnp.broadcast_to(mask, scores.shape)
    weights = jax.nn.softmax(jnp.where(seen, scores, HIDDEN), axis=-1)
    mixed = jnp.einsum("bhst,bhtd->bhsd", weights, split(v))
    return mixed.transpose(0, 2, 1, 3).reshape(q.shape)
