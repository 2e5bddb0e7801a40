"""From the states of the tokens to one vector, as sentence-transformers does it."""

import jax
import jax.numpy as jnp

from ditto.models.layers import ACTIVATIONS, Params, dense
from ditto.models.parameters import Parameters, dense_parameters
from ditto.models.sentence import Pooling, SentenceModules

DENSE = "sentence_dense"
"""Where the linear maps after pooling stand in a tree of parameters."""


def pool(pooling: Pooling, hidden: jax.Array, mask: jax.Array) -> jax.Array:
    """One vector (B, H) of hidden states (B, S, H), where the mask (B, S) is 1.

    The mask may be of integers, or of float32 if it is to be secret. For ``cls`` the
    state of the first token is enough.
    """
    if pooling is Pooling.CLS:
        return hidden[:, 0]
    kept = mask.astype(hidden.dtype)[:, :, None]
    match pooling:
        case Pooling.MEAN:
            return (hidden * kept).sum(1) / kept.sum(1)
        case Pooling.MAX:  # what is hidden counts as the first token once more
            first = hidden[:, :1]
            return (first + (hidden - first) * kept).max(1)
        case Pooling.LAST:  # text stands on the left: the last is before a 0
            after = jnp.pad(kept[:, 1:], ((0, 0), (0, 1), (0, 0)))
            return (hidden * (kept - after)).sum(1)


def embed(
    sentence: SentenceModules, p: Params, hidden: jax.Array, mask: jax.Array
) -> jax.Array:
    """The embedding (B, D) of hidden states, all but its length of 1."""
    x = pool(sentence.pooling, hidden, mask)
    for module, layer in zip(sentence.dense, p.get(DENSE, []), strict=True):
        x = _activated(module.activation, dense(layer, x))
    return jnp.asarray(x)


def _activated(name: str, x: jax.Array) -> jax.Array:
    if name == "identity":
        return x
    return jnp.tanh(x) if name == "tanh" else ACTIVATIONS[name](x)


def embedding_parameters(sentence: SentenceModules) -> Parameters:
    """Of the linear maps after pooling."""
    found: Parameters = {}
    for k, module in enumerate(sentence.dense):
        sizes = module.in_features, module.out_features
        found |= dense_parameters(
            (DENSE, k), f"{module.path}.linear", *sizes, bias=module.bias
        )
    return found
