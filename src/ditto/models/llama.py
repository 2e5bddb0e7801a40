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

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ditto.errors import CheckpointError
from ditto.files import Json, JsonValue
from ditto.models.family import Cache, Family
from ditto.models.head import Head
from ditto.models.layers import (
    ACTIVATIONS,
    Params,
    at_position,
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
    and which (see ``ditto.models.outliers``)."""

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


def forward(
    config: LlamaConfig,
    head: Head,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> jax.Array:
    """The model of ids (B, S) and mask (B, S)."""
    *_, x = hidden_states(config, p, ids, mask, types)
    if head is Head.TEXT_GENERATION:
        return predict(config, p, x)
    last = mask.astype(jnp.int32).sum(-1) - 1
    x = normalise(config, p, at_position(x, last))
    with jax.named_scope(head.value):
        return jnp.asarray(x @ p["score"]["w"])


def hidden_states(
    config: LlamaConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> list[jax.Array]:
    """The embeddings, and what every layer makes of them, each (B, S, H)."""
    del types  # there are none
    return run_layers(config, p, ids, mask)[0]


def run_layers(
    config: LlamaConfig, p: Params, ids: jax.Array, mask: jax.Array
) -> tuple[list[jax.Array], Cache]:
    """Hidden states, and the keys and values that later tokens will look at."""
    with jax.named_scope("embeddings"):
        x = p["embeddings"]["word"][ids]
    places = jnp.arange(ids.shape[1])
    text = mask.astype(bool)[:, None, None, :]
    turns = rotations(config.rope, config.head_dim, ids.shape[1])
    states, cache = [x], []
    for k, (layer, window) in enumerate(zip(p["layers"], config.windows, strict=True)):
        with jax.named_scope(f"decoder.layer.{k}"):
            seen = _sees(places[:, None], places, window)[None, None] & text
            x, pair = decoder_layer(config, layer, x, seen, turns)
        states.append(x)
        cache.append(pair)
    return states, cache


def _sees(places: jax.Array, others: jax.Array, window: int | None) -> jax.Array:
    """Whether the token at one place may look at the one at another."""
    seen = others <= places
    return seen if window is None else seen & (others > places - window)


def prefill(
    config: LlamaConfig, p: Params, ids: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, Cache]:
    """The logits (B, V) of what follows prompts of these lengths, and their cache."""
    mask = jnp.arange(ids.shape[1]) < lengths[:, None]
    states, cache = run_layers(config, p, ids, mask)
    return predict(config, p, at_position(states[-1], lengths - 1)), cache


def decode(
    config: LlamaConfig, p: Params, ids: jax.Array, positions: jax.Array, cache: Cache
) -> tuple[jax.Array, Cache]:
    """The logits (B, V) of what follows one more token (B), and the cache with it.

    Token b stands at position ``positions[b]``; the cache has room for it.
    """
    room = cache[0][0].shape[2]
    places = jnp.arange(room)
    with jax.named_scope("embeddings"):
        x = p["embeddings"]["word"][ids][:, None]
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
            x, pair = decoder_layer(
                config, layer, x, seen, (cosines, sines), (here, past)
            )
        grown.append(pair)
    return predict(config, p, x[:, 0]), grown


def decoder_layer(
    config: LlamaConfig,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    turns: Rotations,
    past: tuple[jax.Array, tuple[jax.Array, jax.Array]] | None = None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Attention and feed-forward, each on a normalised copy; also keys and values.

    Keys are cached as they are turned. ``past`` says where this token's keys and values
    go into those of before.
    """
    eps = config.rms_norm_eps
    with jax.named_scope("attention"):
        normed = rms_norm(p["attention_norm"], x, eps, config.outliers)
        q = split_heads(dense(p["query"], normed), config.num_attention_heads)
        k = split_heads(dense(p["key"], normed), config.num_key_value_heads)
        v = split_heads(dense(p["value"], normed), config.num_key_value_heads)
        if config.normalises_heads:
            q, k = rms_norm(p["query_norm"], q, eps), rms_norm(p["key_norm"], k, eps)
        q, k = rotate(q, turns), rotate(k, turns)
        if past is not None:
            here, (keys, values) = past
            k, v = jnp.where(here, k, keys), jnp.where(here, v, values)
        mixed = attention(q, k, v, seen, weights=config.attention_weights)
        x = x + dense(p["output"], mixed)
    with jax.named_scope("feed_forward"):
        normed = rms_norm(p["feed_norm"], x, eps, config.outliers)
        gate = ACTIVATIONS[config.hidden_act](dense(p["gate"], normed))
        return jnp.asarray(x + dense(p["down"], gate * dense(p["up"], normed))), (k, v)


def normalise(config: LlamaConfig, p: Params, x: jax.Array) -> jax.Array:
    """The last normalisation."""
    with jax.named_scope("last_norm"):
        return rms_norm(p["last_norm"], x, config.rms_norm_eps, config.outliers)


def predict(config: LlamaConfig, p: Params, x: jax.Array) -> jax.Array:
    """Logits from the last layer's states."""
    x = normalise(config, p, x)
    with jax.named_scope(Head.TEXT_GENERATION.value):
        if not config.tie_word_embeddings:
            return jnp.asarray(x @ p["lm_head"]["w"])
        return jnp.asarray(x @ p["embeddings"]["word"].T)


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
        forward=forward,
        hidden_states=hidden_states,
        layer_scope="decoder.layer",
        base_model_prefix="model.",
        prefill=prefill,
        decode=decode,
        residual_maps=("output", "down"),
    )


LLAMA = _family("llama", "Llama")
MISTRAL = _family("mistral", "Mistral")
QWEN2 = _family("qwen2", "Qwen2")
QWEN3 = _family("qwen3", "Qwen3")
