"""GPT-2: a decoder that predicts the next token.

Source: Radford et al. 2019; weights as the Hugging Face classes name them.

- token and position embeddings, summed
- layers of causal self-attention and feed-forward, each with a normalisation before it
  and a residual around it
- a last normalisation; the head of the language model is the token embedding again
- heads: language model, sequence classification by the last token
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.models.checkpoint import Tensors
from ditto.models.layers import (
    ACTIVATIONS,
    Params,
    attention,
    check_activation,
    dense,
    layer_norm,
    split_heads,
)
from ditto.models.parameters import KeyMap, Path, to_tensors, to_tree

Head = Literal["generate", "classify"]

HEADS: dict[str, Head] = {
    "LMHeadModel": "generate",
    "ForSequenceClassification": "classify",
}


@dataclass(frozen=True)
class Gpt2Config:
    """The size of a decoder, from its ``config.json``."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    activation: str
    eps: float
    labels: int

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Gpt2Config":
        """From a Hugging Face configuration; refuses what the code does not do."""
        activation = config.get("activation_function", "gelu_new")
        check_activation(activation)
        for name, plain in (
            ("scale_attn_weights", True),
            ("scale_attn_by_inverse_layer_idx", False),
            ("reorder_and_upcast_attn", False),
            ("add_cross_attention", False),
        ):
            if config.get(name, plain) != plain:
                raise CheckpointError(
                    f"GPT-2 with {name}={not plain} is not supported."
                )
        if config.get("tie_word_embeddings", True) is False:
            raise CheckpointError(
                "GPT-2 with an untied language head is not supported."
            )
        return cls(
            vocabulary=config["vocab_size"],
            width=config["n_embd"],
            layers=config["n_layer"],
            heads=config["n_head"],
            inner=config.get("n_inner") or 4 * config["n_embd"],
            positions=config["n_positions"],
            activation=activation,
            eps=config.get("layer_norm_epsilon", 1e-5),
            labels=len(config.get("id2label") or {0: "", 1: ""}),
        )


Cache = list[tuple[jax.Array, jax.Array]]
"""The keys and values of every layer, each (B, heads, T, D)."""


def build(config: Gpt2Config, head: Head) -> Callable[..., jax.Array]:
    """The model as a function of its parameters, ids (B, S) and mask (B, S)."""

    def apply(p: Params, ids: jax.Array, mask: jax.Array) -> jax.Array:
        *_, x = hidden_states(config, p, ids, mask)
        if head == "generate":
            return predict(config, p, x)
        last = mask.astype(jnp.int32).sum(-1) - 1
        x = normalise(config, p, at_position(x, last))
        with jax.named_scope(head):
            return jnp.asarray(x @ p["score"]["w"])

    return apply


def hidden_states(
    config: Gpt2Config, p: Params, ids: jax.Array, mask: jax.Array
) -> list[jax.Array]:
    """The embeddings, and what every layer makes of them, each (B, S, H)."""
    return run_layers(config, p, ids, mask)[0]


def run_layers(
    config: Gpt2Config, p: Params, ids: jax.Array, mask: jax.Array
) -> tuple[list[jax.Array], Cache]:
    """Hidden states, and the keys and values that later tokens will look at."""
    length = ids.shape[1]
    with jax.named_scope("embeddings"):
        x = p["embeddings"]["word"][ids] + p["embeddings"]["position"][:length]
    past = jnp.tril(jnp.ones((length, length), bool))
    seen = past[None, None] & mask.astype(bool)[:, None, None, :]
    states, cache = [x], []
    for k, layer in enumerate(p["layers"]):
        with jax.named_scope(f"decoder.layer.{k}"):
            x, pair = decoder_layer(config, layer, x, seen)
        states.append(x)
        cache.append(pair)
    return states, cache


def begin(
    config: Gpt2Config, p: Params, ids: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, Cache]:
    """The logits (B, V) of what follows prompts of these lengths, and their cache."""
    mask = jnp.arange(ids.shape[1]) < lengths[:, None]
    states, cache = run_layers(config, p, ids, mask)
    return predict(config, p, at_position(states[-1], lengths - 1)), cache


def go_on(
    config: Gpt2Config, p: Params, ids: jax.Array, positions: jax.Array, cache: Cache
) -> tuple[jax.Array, Cache]:
    """The logits (B, V) of what follows one more token (B), and the cache with it.

    Token b stands at position ``positions[b]``; the cache has room for it.
    """
    places = jnp.arange(cache[0][0].shape[2])
    with jax.named_scope("embeddings"):
        e = p["embeddings"]
        x = (e["word"][ids] + e["position"][positions])[:, None]
    here = (places == positions[:, None])[:, None, :, None]
    seen = (places <= positions[:, None])[:, None, None, :]
    grown: Cache = []
    for k, (layer, past) in enumerate(zip(p["layers"], cache, strict=True)):
        with jax.named_scope(f"decoder.layer.{k}"):
            x, pair = decoder_layer(config, layer, x, seen, (here, past))
        grown.append(pair)
    return predict(config, p, x[:, 0]), grown


def decoder_layer(
    config: Gpt2Config,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    past: tuple[jax.Array, tuple[jax.Array, jax.Array]] | None = None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Attention and feed-forward, each on a normalised copy; also keys and values.

    ``past`` says where this token's keys and values go into those of before.
    """
    with jax.named_scope("attention"):
        normed = layer_norm(p["attention_norm"], x, config.eps)
        parts = jnp.split(dense(p["qkv"], normed), 3, axis=-1)
        q, k, v = (split_heads(part, config.heads) for part in parts)
        if past is not None:
            here, (keys, values) = past
            k, v = jnp.where(here, k, keys), jnp.where(here, v, values)
        x = x + dense(p["output"], attention(q, k, v, seen))
    with jax.named_scope("feed_forward"):
        normed = layer_norm(p["feed_norm"], x, config.eps)
        fed = ACTIVATIONS[config.activation](dense(p["up"], normed))
        return jnp.asarray(x + dense(p["down"], fed)), (k, v)


def at_position(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Of each row of x (B, S, H) the state at one position, free if it is public."""
    chosen = jnp.arange(x.shape[1]) == positions[:, None]
    return jnp.where(chosen[:, :, None], x, 0.0).sum(1)


def normalise(config: Gpt2Config, p: Params, x: jax.Array) -> jax.Array:
    """The last normalisation."""
    with jax.named_scope("last_norm"):
        return layer_norm(p["last_norm"], x, config.eps)


def predict(config: Gpt2Config, p: Params, x: jax.Array) -> jax.Array:
    """Logits from the last layer's states."""
    x = normalise(config, p, x)
    with jax.named_scope("generate"):
        return jnp.asarray(x @ p["embeddings"]["word"].T)


_LAYER = {
    "attention_norm": "ln_1",
    "qkv": "attn.c_attn",
    "output": "attn.c_proj",
    "feed_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}


def key_map(config: Gpt2Config, head: Head, base: str) -> KeyMap:
    """For every parameter, by its path, the name Hugging Face gives it."""
    keys: KeyMap = {
        ("embeddings", "word"): f"{base}wte.weight",
        ("embeddings", "position"): f"{base}wpe.weight",
        ("last_norm", "gamma"): f"{base}ln_f.weight",
        ("last_norm", "beta"): f"{base}ln_f.bias",
    }
    for k in range(config.layers):
        for name, place in _LAYER.items():
            weight, bias = ("gamma", "beta") if name.endswith("norm") else ("w", "b")
            keys["layers", k, name, weight] = f"{base}h.{k}.{place}.weight"
            keys["layers", k, name, bias] = f"{base}h.{k}.{place}.bias"
    if head == "classify":
        keys["score", "w"] = "score.weight"
    return keys


def load_params(config: Gpt2Config, head: Head, tensors: Mapping[str, Any]) -> Params:
    """Parameters from the tensors of a checkpoint."""
    base = "transformer." if any(n.startswith("transformer.") for n in tensors) else ""
    keys = key_map(config, head, base)
    what = f"GPT-2 with head {head!r}"
    return to_tree(keys, tensors, _turned, layers=config.layers, what=what)


def save_params(config: Gpt2Config, head: Head, params: Params) -> Tensors:
    """The inverse of ``load_params``."""
    return to_tensors(key_map(config, head, "transformer."), params, _turned)


def _turned(path: Path) -> bool:
    """GPT-2 publishes its linear maps as (in, out), all but the classifier."""
    return path == ("score", "w")
