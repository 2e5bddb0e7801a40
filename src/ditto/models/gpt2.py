"""GPT-2: a decoder that predicts the next token.

Source: Radford et al. 2019; weights as the Hugging Face classes name them.

- token and position embeddings, summed
- layers of causal self-attention and feed-forward, each with a normalisation before it
  and a residual around it
- a last normalisation; the head of the language model is the token embedding again
- heads: language model, sequence classification by the last token
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.files import JsonValue
from ditto.models.decoder import Decoder
from ditto.models.family import Cache, Family
from ditto.models.head import Head
from ditto.models.layers import (
    ACTIVATIONS,
    Params,
    attention,
    check_activation,
    check_attention,
    dense,
    layer_norm,
    split_heads,
)
from ditto.models.parameters import (
    Parameter,
    Parameters,
    dense_parameters,
    norm_parameters,
)
from ditto.models.past import (
    Join,
    joined_at,
    prefix_joins,
    prefix_length,
    prefix_mask,
)


@dataclass(frozen=True)
class Gpt2Config:
    """The size of a decoder, from its ``config.json``."""

    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int
    n_positions: int
    activation_function: str
    attention_weights: str
    layer_norm_epsilon: float
    num_labels: int
    tie_word_embeddings: bool

    @classmethod
    def from_hf(cls, config: Mapping[str, JsonValue]) -> "Gpt2Config":
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
        return cls(
            vocab_size=config["vocab_size"],
            n_embd=config["n_embd"],
            n_layer=config["n_layer"],
            n_head=config["n_head"],
            n_inner=config.get("n_inner") or 4 * config["n_embd"],
            n_positions=config["n_positions"],
            activation_function=activation,
            attention_weights=check_attention(config, activation),
            layer_norm_epsilon=config.get("layer_norm_epsilon", 1e-5),
            num_labels=len(config.get("id2label") or {0: "", 1: ""}),
            tie_word_embeddings=config.get("tie_word_embeddings", True),
        )

    @property
    def num_hidden_layers(self) -> int:
        """Layers."""
        return self.n_layer

    @property
    def type_vocab_size(self) -> int:
        """There are no types."""
        return 0

    @property
    def max_tokens(self) -> int:
        """The longest text."""
        return self.n_positions


def run_layers(
    config: Gpt2Config, p: Params, ids: jax.Array, mask: jax.Array
) -> tuple[list[jax.Array], Cache]:
    """Hidden states, and the keys and values that later tokens will look at."""
    start = prefix_length(p)
    end = start + ids.shape[1]
    with jax.named_scope("embeddings"):
        x = p["embeddings"]["word"][ids] + p["embeddings"]["position"][start:end]
    past = jnp.tril(jnp.ones((end, end), bool))[start:]
    seen = past[None, None] & prefix_mask(p, mask)
    states, cache = [x], []
    for k, (layer, join) in enumerate(zip(p["layers"], prefix_joins(p), strict=True)):
        with jax.named_scope(f"decoder.layer.{k}"):
            x, pair = decoder_layer(config, layer, x, seen, join)
        states.append(x)
        cache.append(pair)
    return states, cache


def decode(
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
            x, pair = decoder_layer(config, layer, x, seen, joined_at(here, past))
        grown.append(pair)
    return _DECODER.predict(config, p, x[:, 0]), grown


def decoder_layer(
    config: Gpt2Config,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    join: Join,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Attention and feed-forward, each on a normalised copy; also keys and values."""
    with jax.named_scope("attention"):
        normed = layer_norm(p["attention_norm"], x, config.layer_norm_epsilon)
        parts = jnp.split(dense(p["qkv"], normed), 3, axis=-1)
        q, k, v = (split_heads(part, config.n_head) for part in parts)
        k, v = join(k, v)
        mixed = attention(q, k, v, seen, weights=config.attention_weights)
        x = x + dense(p["output"], mixed)
    with jax.named_scope("feed_forward"):
        normed = layer_norm(p["feed_norm"], x, config.layer_norm_epsilon)
        fed = ACTIVATIONS[config.activation_function](dense(p["up"], normed))
        return jnp.asarray(x + dense(p["down"], fed)), (k, v)


def normalise(config: Gpt2Config, p: Params, x: jax.Array) -> jax.Array:
    """The last normalisation."""
    with jax.named_scope("last_norm"):
        return layer_norm(p["last_norm"], x, config.layer_norm_epsilon)


_DECODER = Decoder(run_layers, normalise)


_LAYER = {
    "attention_norm": "ln_1",
    "qkv": "attn.c_attn",
    "output": "attn.c_proj",
    "feed_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}


def parameters(config: Gpt2Config, head: Head) -> Parameters:
    """Every parameter by its path, with Hugging Face's name for it.

    GPT-2 publishes its linear maps as (in, out), all but those of the heads.
    """
    base, width, inner = "transformer", config.n_embd, config.n_inner
    sizes = {
        "qkv": (width, 3 * width),
        "output": (width, width),
        "up": (width, inner),
        "down": (inner, width),
    }
    found: Parameters = {
        ("embeddings", "word"): Parameter(
            f"{base}.wte.weight", (config.vocab_size, width)
        ),
        ("embeddings", "position"): Parameter(
            f"{base}.wpe.weight", (config.n_positions, width)
        ),
    }
    for k in range(config.n_layer):
        for name, place in _LAYER.items():
            path, key = ("layers", k, name), f"{base}.h.{k}.{place}"
            if name in sizes:
                found |= dense_parameters(path, key, *sizes[name], transposed=False)
            else:
                found |= norm_parameters(path, key, width)
    found |= norm_parameters(("last_norm",), f"{base}.ln_f", width)
    if head is Head.TEXT_CLASSIFICATION:
        score = Parameter("score.weight", (width, config.num_labels), transposed=True)
        found["score", "w"] = score
    elif not config.tie_word_embeddings:
        shape = (width, config.vocab_size)
        found["lm_head", "w"] = Parameter("lm_head.weight", shape, transposed=True)
    return found


GPT2 = Family(
    model_type="gpt2",
    read_config=Gpt2Config.from_hf,
    architectures={
        "GPT2LMHeadModel": Head.TEXT_GENERATION,
        "GPT2ForSequenceClassification": Head.TEXT_CLASSIFICATION,
    },
    parameters=parameters,
    forward=_DECODER.forward,
    hidden_states=_DECODER.hidden_states,
    layer_scope="decoder.layer",
    base_model_prefix="transformer.",
    prefill=_DECODER.prefill,
    decode=decode,
    attribute_map={
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
        "hidden_act": "activation_function",
    },
    residual_maps=("output", "down"),
    maps_around_activation=("up", "down"),
)
