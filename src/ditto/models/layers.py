"""What all families are made of, in plain JAX."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.files import JsonValue
from ditto.plan import Tree

Elementwise = Callable[[jax.Array], jax.Array]
Params = dict[str, Tree]
"""The parameters of a model, by their place in it."""

HIDDEN = -1e9
"""What a hidden position scores; the compiler knows what to do with it."""

ASIDE = 16.0
"""How far a secret mask moves hidden scores aside, so that none of them is the maximum;
the product with the mask then hides them for good."""


def _named(name: str, function: Elementwise) -> Elementwise:
    """Found under its name in what is traced."""

    def activation(x: jax.Array) -> jax.Array:
        return function(x)

    activation.__name__ = name
    return jax.jit(activation)


QUAD = (0.5, 0.25, 0.125)
"""The factors of 1, x and x^2 in ``quad``, which stands for GeLU in models distilled
for it."""
ACTIVATIONS: Mapping[str, Elementwise] = {
    name: _named(name, function)
    for name, function in (
        ("gelu", lambda x: jax.nn.gelu(x, approximate=False)),
        ("gelu_new", lambda x: jax.nn.gelu(x, approximate=True)),
        ("gelu_pytorch_tanh", lambda x: jax.nn.gelu(x, approximate=True)),
        ("quad", lambda x: QUAD[2] * x * x + QUAD[1] * x + QUAD[0]),
        ("relu", jax.nn.relu),
        ("silu", jax.nn.silu),
        ("swish", jax.nn.silu),
    )
}
OURS = ("quad",)
"""Activations that no other software knows: it refuses models that have one."""

# what softmax's exp is replaced by, in models distilled for it
ATTENTION_WEIGHTS: dict[str, Elementwise] = {
    "softmax": jnp.exp,
    "relu": jax.nn.relu,
    "square": lambda x: (0.5 * x + 1) * (0.5 * x + 1),
}
"""What scores become before they are divided by their sum."""
_LEAST_SUM = 2.0**-6
"""Added to a sum that may be 0."""


def check_activation(name: str) -> None:
    """Refuse an activation that there is none of."""
    if name not in ACTIVATIONS:
        raise CheckpointError(
            f"Activation {name!r} is not supported; these are: "
            f"{', '.join(ACTIVATIONS)}."
        )


def check_attention(config: Mapping[str, JsonValue], activation: str) -> str:
    """How a configuration makes weights of scores; refuses what there is not.

    Other software knows nothing of this key, so it has to stumble over the activation.
    """
    name = str(config.get("attention_weights", "softmax"))
    if name not in ATTENTION_WEIGHTS:
        raise CheckpointError(
            f"attention_weights {name!r} is not supported; these are: "
            f"{', '.join(ATTENTION_WEIGHTS)}."
        )
    if name != "softmax" and activation not in OURS:
        raise CheckpointError(
            f"attention_weights {name!r} goes with an activation of Ditto's own "
            f"({', '.join(OURS)}), not with {activation!r}: other software would "
            "compute softmax, and not say so."
        )
    return name


def dense(p: Params, x: jax.Array) -> jax.Array:
    """x @ w + b, or without a bias if there is none."""
    return jnp.asarray(x @ p["w"] + p["b"] if "b" in p else x @ p["w"])


def layer_norm(p: Params, x: jax.Array, eps: float) -> jax.Array:
    """Zero mean and unit variance over the last axis, then scale and perhaps shift."""
    return scale_centred(p, centred(x), eps)


def centred(x: jax.Array) -> jax.Array:
    """Zero mean over the last axis."""
    return jnp.asarray(x - x.mean(-1, keepdims=True))


def scale_centred(p: Params, x: jax.Array, eps: float) -> jax.Array:
    """What is left of ``layer_norm`` where the mean over the last axis is zero."""
    variance = (x * x).mean(-1, keepdims=True)
    scaled = x * jax.lax.rsqrt(variance + eps) * p["gamma"]
    return jnp.asarray(scaled + p["beta"] if "beta" in p else scaled)


def norm_of_sum(
    *, has_mean: bool
) -> Callable[[Params, jax.Array, jax.Array, float], jax.Array]:
    """``layer_norm`` of a residual plus what is added to it. That may have no mean:
    then the mean is the residual's, which is known before the sum is."""
    if has_mean:
        return lambda p, residual, added, eps: layer_norm(p, residual + added, eps)
    return lambda p, residual, added, eps: scale_centred(
        p, centred(residual) + added, eps
    )


def rms_norm(
    p: Params, x: jax.Array, eps: float, outliers: tuple[int, int] = (0, 0)
) -> jax.Array:
    """Mean square 1 over the last axis, then scale.

    ``outliers`` are how many of the first channels are there divided by a power of two,
    and which. Their squares are summed up by themselves, and they are scaled by
    themselves: there they may have a type of their own. The result has all channels as
    they are: normalised, none is large.
    """
    count, shift = outliers
    if count:
        few, many = x[..., :count], x[..., count:]
        total = (few * few).sum(-1, keepdims=True) * 4.0**shift
        total = total + (many * many).sum(-1, keepdims=True)
        scale = jax.lax.rsqrt(total * (1 / x.shape[-1]) + eps)
        normed = jnp.concatenate([few * scale * 2.0**shift, many * scale], -1)
    else:
        normed = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps)
    return jnp.asarray(normed * p["gamma"] if "gamma" in p else normed)


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """(B, S, H) as (B, heads, S, D)."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array,
    bias: jax.Array | None = None,
    weights: str = "softmax",
    *,
    scaled: bool = False,
) -> jax.Array:
    """Heads (B, heads, S, D), mixed to (B, S, H). The mask is as (B, 1, S, T), and so
    is a bias of the scores. Queries are divided by the root of their width, unless they
    are scaled.

    A mask of booleans is meant to be public, one of numbers 0 and 1 may be secret: it
    costs a product a weight, and no comparison. Of keys and values there may be fewer
    heads: each then serves as many heads of queries, as if these were more rows of one.
    """
    batch, heads, length, width = q.shape
    served = heads // k.shape[1]
    if served > 1:
        q = q.reshape(batch, k.shape[1], served * length, width)
        rows = (*mask.shape[:2], length, mask.shape[3])
        mask = jnp.tile(jnp.broadcast_to(mask, rows), (1, 1, served, 1))
    if not scaled:
        q = q * width**-0.5
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k)
    if bias is not None:
        scores = scores + bias
    if weights == "softmax":
        shares = _softmax(scores, mask)
    else:
        shares = _divided(ATTENTION_WEIGHTS[weights](scores), mask)
    mixed = jnp.einsum("bhst,bhtd->bhsd", shares, v)
    if served > 1:
        mixed = mixed.reshape(batch, heads, length, width)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1)


def _softmax(scores: jax.Array, mask: jax.Array) -> jax.Array:
    if mask.dtype == jnp.bool_:
        seen = jnp.broadcast_to(mask, scores.shape)
        return jax.nn.softmax(jnp.where(seen, scores, HIDDEN), axis=-1)
    scores = scores + (mask - 1) * ASIDE
    raised = jnp.exp(scores - scores.max(-1, keepdims=True)) * mask
    return raised / raised.sum(-1, keepdims=True)


def _divided(raised: jax.Array, mask: jax.Array) -> jax.Array:
    """By the sum of what is not hidden."""
    if mask.dtype == jnp.bool_:
        raised = jnp.where(jnp.broadcast_to(mask, raised.shape), raised, 0.0)
    else:
        raised = raised * mask
    return raised / (raised.sum(-1, keepdims=True) + _LEAST_SUM)


def at_position(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Of each row of x (B, S, H) the state at one position, free if it is public."""
    chosen = jnp.arange(x.shape[1]) == positions[:, None]
    return jnp.where(chosen[:, :, None], x, 0.0).sum(1)
