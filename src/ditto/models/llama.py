"""Llama and its relatives: decoders with rotary positions and a gated feed-forward.

Source: Touvron et al. 2023; weights as the Hugging Face classes name them.

- token embeddings; positions by rotating queries and keys
- layers of causal self-attention and a gated feed-forward (SwiGLU), each with an RMS
  normalisation before it and a residual around it
- a key and a value serve several heads of queries; only the few are cached
- a last normalisation; the head of the language model is a map of its own, or the token
  embedding again
- heads: language model, sequence classification by the last token

One code for four families, of which SmolLM2 and TinyLlama are Llama:

| family | what is its own |
|---|---|
| Llama | biases of attention and feed-forward, if its configuration says so |
| Mistral | a token may see no more than a window of tokens |
| Qwen2 | biases of queries, keys and values |
| Qwen3 | each head of queries and keys is normalised |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.files import Json, JsonValue
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
    rms_norm,
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
from ditto.models.rotary import Rope, Rotations, rotate, rotations

_SLIDING = "sliding_attention"
_DEFAULTS: dict[str, Json] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
}
"""What Hugging Face takes for fields that ``config.json`` leaves out."""


@dataclass(frozen=True)
class LlamaConfig:
    """The size of a decoder, from its ``config.json``."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_act: str
    attention_weights: str
    rms_norm_eps: float
    rope: Rope
    windows: tuple[int | None, ...]
    """How many tokens a token sees in each layer, itself among them; None is all."""
    biases: frozenset[str]
    """Linear maps that have one."""
    normalises_heads: bool
    """Whether each head of queries and keys is normalised."""
    num_labels: int
    tie_word_embeddings: bool
    outliers: tuple[int, int]
    """How many of the first channels of hidden states are divided by a power of two,
    and which (see ``ditto.models.preparation``)."""
    scaled_queries: bool
    """Whether the weights of queries scale them."""

    @classmethod
    def from_hf(cls, config: Mapping[str, JsonValue]) -> "LlamaConfig":
        """From a Hugging Face configuration; refuses what the code does not do."""
        family = config["model_type"]
        config = {**_DEFAULTS.get(family, {}), **config}
        activation = config.get("hidden_act", "silu")
        check_activation(activation)
        width, heads = config["hidden_size"], config["num_attention_heads"]
        shared = config.get("num_key_value_heads") or heads
        head_dim = config.get("head_dim") or width // heads
        if type(shared) is not int or shared < 1 or heads % shared:
            raise CheckpointError(
                f"config.json says num_attention_heads={heads} and "
                f"num_key_value_heads={shared!r}: the first must be a multiple of the "
                "second."
            )
        if type(head_dim) is not int or head_dim < 2 or head_dim % 2:
            raise CheckpointError(
                f"config.json says head_dim={head_dim!r}; channels are turned in "
                "pairs, so it is an even number."
            )
        return cls(
            vocab_size=config["vocab_size"],
            hidden_size=width,
            num_hidden_layers=config["num_hidden_layers"],
            num_attention_heads=heads,
            num_key_value_heads=shared,
            head_dim=head_dim,
            intermediate_size=config["intermediate_size"],
            max_position_embeddings=config["max_position_embeddings"],
            hidden_act=activation,
            attention_weights=check_attention(config, activation),
            rms_norm_eps=config.get("rms_norm_eps", 1e-6),
            rope=Rope.from_hf(config, family),
            windows=_windows(config),
            biases=_biases(config),
            normalises_heads=family == "qwen3",
            num_labels=len(config.get("id2label") or {0: "", 1: ""}),
            tie_word_embeddings=config.get("tie_word_embeddings", False),
            outliers=(
                config.get("outlier_channels", 0),
                config.get("outlier_shift", 0),
            ),
            scaled_queries=config.get("scaled_queries", False),
        )

    @property
    def type_vocab_size(self) -> int:
        """There are no types."""
        return 0

    @property
    def max_tokens(self) -> int:
        """The longest text."""
        return self.max_position_embeddings


def _windows(config: Mapping[str, JsonValue]) -> tuple[int | None, ...]:
    """Mistral has a window in all layers, Qwen in some, if it is asked for."""
    layers, window = config["num_hidden_layers"], config.get("sliding_window")
    types = [_SLIDING] * layers
    if config["model_type"] != "mistral":
        full = config.get("max_window_layers", 28)
        types = config.get("layer_types") or [
            _SLIDING if k >= full else "full_attention" for k in range(layers)
        ]
        window = window if config.get("use_sliding_window", False) else None
    if len(types) != layers or not {*types} <= {_SLIDING, "full_attention"}:
        raise CheckpointError(
            f"config.json says layer_types={types} and num_hidden_layers={layers}: "
            f"each layer is one of {_SLIDING}, full_attention."
        )
    if window is not None and (type(window) is not int or window < 1):
        raise CheckpointError(f"config.json says sliding_window={window!r}.")
    return tuple(window if kind == _SLIDING else None for kind in types)


def _biases(config: Mapping[str, JsonValue]) -> frozenset[str]:
    family = config["model_type"]
    found: set[str] = set()
    if family == "qwen2":
        found |= {"query", "key", "value"}
    if family in ("llama", "qwen3") and config.get("attention_bias", False):
        found |= {"query", "key", "value", "output"}
    if family == "llama" and config.get("mlp_bias", False):
        found |= {"gate", "up", "down"}
    return frozenset(found)


class Layer(NamedTuple):
    """What comes of a layer."""

    x: jax.Array
    """Hidden states."""
    gated: jax.Array
    """The product inside its feed-forward."""
    pair: tuple[jax.Array, jax.Array]
    """Keys, as they are turned, and values."""


def run_layers(
    config: LlamaConfig, p: Params, ids: jax.Array, mask: jax.Array
) -> tuple[list[jax.Array], Cache]:
    """Hidden states, and the keys and values that later tokens will look at."""
    x = embeddings(config, p, ids)
    layers = list(_layers(config, p, x, mask))
    return [x, *(layer.x for layer in layers)], [layer.pair for layer in layers]


def inner_states(
    config: LlamaConfig, p: Params, ids: jax.Array, mask: jax.Array
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Hidden states, and the product inside the feed-forward of every layer."""
    x = embeddings(config, p, ids)
    layers = list(_layers(config, p, x, mask))
    return [x, *(layer.x for layer in layers)], [layer.gated for layer in layers]


def _layers(
    config: LlamaConfig, p: Params, x: jax.Array, mask: jax.Array
) -> Iterator[Layer]:
    start = prefix_length(p)
    places = jnp.arange(start + x.shape[1])
    text = prefix_mask(p, mask)
    cosines, sines = rotations(config.rope, config.head_dim, len(places))
    turns = cosines[start:], sines[start:]
    layers = zip(p["layers"], config.windows, prefix_joins(p), strict=True)
    for k, (layer, window, join) in enumerate(layers):
        with jax.named_scope(f"decoder.layer.{k}"):
            seen = _sees(places[start:, None], places, window)[None, None] & text
            made = decoder_layer(config, layer, x, seen, turns, join)
        yield made
        x = made.x


def embeddings(config: LlamaConfig, p: Params, ids: jax.Array) -> jax.Array:
    """Of tokens; outliers are divided from here on."""
    count, shift = config.outliers
    with jax.named_scope("embeddings"):
        x = jnp.asarray(p["embeddings"]["word"][ids])
        if not count:
            return x
        few, many = x[..., :count] * 2.0**-shift, x[..., count:]
        return jnp.concatenate([few, many], -1)


def _sees(places: jax.Array, others: jax.Array, window: int | None) -> jax.Array:
    """Whether the token at one place may look at the one at another."""
    seen = others <= places
    return seen if window is None else seen & (others > places - window)


def decode(
    config: LlamaConfig, p: Params, ids: jax.Array, positions: jax.Array, cache: Cache
) -> tuple[jax.Array, Cache]:
    """The logits (B, V) of what follows one more token (B), and the cache with it.

    Token b stands at position ``positions[b]``; the cache has room for it.
    """
    room = cache[0][0].shape[2]
    places = jnp.arange(room)
    x = embeddings(config, p, ids)[:, None]
    here = (places == positions[:, None])[:, None, :, None]
    cosines, sines = (
        jnp.asarray(table)[positions][:, None, None]
        for table in rotations(config.rope, config.head_dim, room)
    )
    grown: Cache = []
    layers = zip(p["layers"], config.windows, cache, strict=True)
    for k, (layer, window, past) in enumerate(layers):
        with jax.named_scope(f"decoder.layer.{k}"):
            seen = _sees(positions[:, None], places, window)[:, None, None]
            join = joined_at(here, past)
            x, _, pair = decoder_layer(config, layer, x, seen, (cosines, sines), join)
        grown.append(pair)
    return _DECODER.predict(config, p, x[:, 0]), grown


def decoder_layer(
    config: LlamaConfig,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    turns: Rotations,
    join: Join,
) -> Layer:
    """Attention and feed-forward, each on a normalised copy."""
    eps = config.rms_norm_eps
    with jax.named_scope("attention"):
        normed = rms_norm(p["attention_norm"], x, eps, config.outliers)
        q = split_heads(dense(p["query"], normed), config.num_attention_heads)
        k = split_heads(dense(p["key"], normed), config.num_key_value_heads)
        v = split_heads(dense(p["value"], normed), config.num_key_value_heads)
        if config.normalises_heads:
            q, k = rms_norm(p["query_norm"], q, eps), rms_norm(p["key_norm"], k, eps)
        q, k = rotate(q, turns), rotate(k, turns)
        k, v = join(k, v)
        weights, scaled = config.attention_weights, config.scaled_queries
        mixed = attention(q, k, v, seen, weights=weights, scaled=scaled)
        x = x + dense(p["output"], mixed)
    with jax.named_scope("feed_forward"):
        normed = rms_norm(p["feed_norm"], x, eps, config.outliers)
        gate = ACTIVATIONS[config.hidden_act](dense(p["gate"], normed))
        gated = gate * dense(p["up"], normed)
        return Layer(jnp.asarray(x + dense(p["down"], gated)), gated, (k, v))


def normalise(config: LlamaConfig, p: Params, x: jax.Array) -> jax.Array:
    """The last normalisation."""
    with jax.named_scope("last_norm"):
        return rms_norm(p["last_norm"], x, config.rms_norm_eps, config.outliers)


_DECODER = Decoder(run_layers, normalise)


def parameters(config: LlamaConfig, head: Head) -> Parameters:
    """Every parameter by its path, with Hugging Face's name for it."""
    width, inner, one = config.hidden_size, config.intermediate_size, config.head_dim
    asking = config.num_attention_heads * one
    shared = config.num_key_value_heads * one
    maps = {
        "query": ("self_attn.q_proj", width, asking),
        "key": ("self_attn.k_proj", width, shared),
        "value": ("self_attn.v_proj", width, shared),
        "output": ("self_attn.o_proj", asking, width),
        "gate": ("mlp.gate_proj", width, inner),
        "up": ("mlp.up_proj", width, inner),
        "down": ("mlp.down_proj", inner, width),
    }
    norms = {
        "attention_norm": ("input_layernorm", width),
        "feed_norm": ("post_attention_layernorm", width),
    }
    if config.normalises_heads:
        norms["query_norm"] = ("self_attn.q_norm", one)
        norms["key_norm"] = ("self_attn.k_norm", one)
    table = Parameter("model.embed_tokens.weight", (config.vocab_size, width))
    found: Parameters = {("embeddings", "word"): table}
    for k in range(config.num_hidden_layers):
        key = f"model.layers.{k}"
        for name, (place, size) in norms.items():
            found |= norm_parameters(
                ("layers", k, name), f"{key}.{place}", size, bias=False
            )
        for name, (place, inputs, outputs) in maps.items():
            found |= dense_parameters(
                ("layers", k, name), f"{key}.{place}", inputs, outputs,
                bias=name in config.biases,
            )  # fmt: skip
    found |= norm_parameters(("last_norm",), "model.norm", width, bias=False)
    if head is Head.TEXT_CLASSIFICATION:
        score = Parameter("score.weight", (width, config.num_labels), transposed=True)
        found["score", "w"] = score
    elif not config.tie_word_embeddings:
        shape = (width, config.vocab_size)
        found["lm_head", "w"] = Parameter("lm_head.weight", shape, transposed=True)
    return found


def _family(model_type: str, name: str) -> Family[LlamaConfig]:
    return Family(
        model_type=model_type,
        read_config=LlamaConfig.from_hf,
        architectures={
            f"{name}ForCausalLM": Head.TEXT_GENERATION,
            f"{name}ForSequenceClassification": Head.TEXT_CLASSIFICATION,
        },
        parameters=parameters,
        forward=_DECODER.forward,
        hidden_states=_DECODER.hidden_states,
        inner_states=inner_states,
        layer_scope="decoder.layer",
        base_model_prefix="model.",
        prefill=_DECODER.prefill,
        decode=decode,
        norm_readers={
            "attention_norm": ("query", "key", "value"),
            "feed_norm": ("gate", "up"),
        },
        residual_maps=("output", "down"),
        scalable_queries="query_norm" if model_type == "qwen3" else "query",
    )


LLAMA = _family("llama", "Llama")
MISTRAL = _family("mistral", "Mistral")
QWEN2 = _family("qwen2", "Qwen2")
QWEN3 = _family("qwen3", "Qwen3")
