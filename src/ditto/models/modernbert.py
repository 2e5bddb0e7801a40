"""ModernBERT: an encoder with rotary positions and windows of attention.

Source: Warner et al. 2024; weights as the Hugging Face classes name them.

- token embeddings, normalised; positions by rotating queries and keys
- layers of self-attention and a gated feed-forward, each with a normalisation before it
  and a residual around it; most layers see a window of tokens alone
- a last normalisation; heads have a dense layer, an activation and a normalisation
- heads: sequence classification, token classification, question answering, masked
  language model
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import CheckpointError
from ditto.files import JsonValue
from ditto.models.family import Family
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
from ditto.models.pooling import pool
from ditto.models.rotary import Rope, Rotations, rotate, rotations
from ditto.models.sentence import Pooling

_KINDS = {"full_attention": "global", "sliding_attention": "local"}
_THETA = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}


@dataclass(frozen=True)
class ModernBertConfig:
    """The size of an encoder, from its ``config.json``."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_activation: str
    attention_weights: str
    classifier_activation: str
    classifier_pooling: Pooling
    norm_eps: float
    local_attention: int
    layer_types: tuple[str, ...]
    rope_theta: Mapping[str, float]
    """By the type of a layer."""
    biases: frozenset[str]
    """Where linear maps and normalisations have one."""
    num_labels: int
    tie_word_embeddings: bool

    @classmethod
    def from_hf(cls, config: Mapping[str, JsonValue]) -> "ModernBertConfig":
        """From a Hugging Face configuration; refuses what the code does not do."""
        activations = [
            config.get(name, "gelu")
            for name in ("hidden_activation", "classifier_activation")
        ]
        for activation in activations:
            check_activation(activation)
        layers = config["num_hidden_layers"]
        every = config.get("global_attn_every_n_layers", 3)
        types = config.get("layer_types") or [
            "sliding_attention" if k % every else "full_attention"
            for k in range(layers)
        ]
        if len(types) != layers or not set(types) <= set(_KINDS):
            raise CheckpointError(
                f"ModernBERT with layer_types={types} and num_hidden_layers={layers}: "
                f"each layer is one of {', '.join(_KINDS)}."
            )
        pooling = config.get("classifier_pooling", "cls")
        if pooling not in (Pooling.CLS, Pooling.MEAN):
            raise CheckpointError(
                f"ModernBERT with classifier_pooling={pooling!r} is not supported."
            )
        named = ("attention", "mlp", "norm", "classifier", "decoder")
        return cls(
            vocab_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            num_hidden_layers=layers,
            num_attention_heads=config["num_attention_heads"],
            intermediate_size=config["intermediate_size"],
            max_position_embeddings=config["max_position_embeddings"],
            hidden_activation=activations[0],
            attention_weights=check_attention(config, activations[0]),
            classifier_activation=activations[1],
            classifier_pooling=Pooling(pooling),
            norm_eps=config.get("norm_eps", 1e-5),
            local_attention=config.get("local_attention", 128),
            layer_types=tuple(types),
            rope_theta={kind: _theta(config, kind) for kind in _KINDS},
            biases=frozenset(
                name for name in named if config.get(f"{name}_bias", name == "decoder")
            ),
            num_labels=len(config.get("id2label") or {0: "", 1: ""}),
            tie_word_embeddings=config.get("tie_word_embeddings", True),
        )

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def type_vocab_size(self) -> int:
        """There are no types."""
        return 0

    @property
    def max_tokens(self) -> int:
        """The longest text."""
        return self.max_position_embeddings


def _theta(config: Mapping[str, JsonValue], kind: str) -> float:
    """The base of the rotations, in the form of today or of before."""
    told = (config.get("rope_parameters") or {}).get(kind) or {}
    scaled = config.get("rope_scaling")
    if told.get("rope_type", "default") != "default" or scaled is not None:
        raise CheckpointError("ModernBERT with scaled positions is not supported.")
    before = config.get(f"{_KINDS[kind]}_rope_theta") or _THETA[kind]
    return float(told.get("rope_theta") or before)


def forward(
    config: ModernBertConfig,
    head: Head,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> jax.Array:
    """The model of ids (B, S) and mask (B, S).

    The mask may be of integers, or of float32 if it is to be secret.
    """
    *_, hidden = hidden_states(config, p, ids, mask, types)
    with jax.named_scope(head.value):
        if head is Head.TEXT_CLASSIFICATION:
            hidden = pool(config.classifier_pooling, hidden, mask)
        act = ACTIVATIONS[config.classifier_activation]
        x = layer_norm(p["head_norm"], act(dense(p["head"], hidden)), config.norm_eps)
        if head is not Head.FILL_MASK:
            return dense(p["classifier"], x)
        table = p["embeddings"]["word"].T
        decoder = p.get("decoder", {})
        return dense({"w": table, **decoder}, x)


def hidden_states(
    config: ModernBertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> list[jax.Array]:
    """The embeddings, and what every layer makes of them, each (B, S, H).

    The last normalisation is part of the last one.
    """
    del types  # there are none
    with jax.named_scope("embeddings"):
        x = p["embeddings"]["word"][ids]
        x = layer_norm(p["embeddings"]["norm"], x, config.norm_eps)
    length = ids.shape[1]
    seen = _seen(config, mask)
    states = [x]
    kinds = zip(p["layers"], config.layer_types, strict=True)
    for k, (layer, kind) in enumerate(kinds):
        with jax.named_scope(f"encoder.layer.{k}"):
            turns = rotations(Rope(config.rope_theta[kind]), config.head_dim, length)
            x = encoder_layer(config, layer, x, seen[kind], turns)
        states.append(x)
    with jax.named_scope("last_norm"):
        states[-1] = layer_norm(p["last_norm"], x, config.norm_eps)
    return states


def _seen(config: ModernBertConfig, mask: jax.Array) -> dict[str, jax.Array]:
    """What attention may see in each type of layer, as (B, 1, S, S).

    A place sees itself, also one without text: else its window might be empty.
    """
    whole = (mask if mask.dtype == jnp.float32 else mask.astype(bool))[:, None, None]
    places = np.arange(mask.shape[1])
    distance = np.abs(places[:, None] - places)
    half = config.local_attention // 2
    if mask.shape[1] <= half + 1:
        return {"full_attention": whole, "sliding_attention": whole}
    near = ((distance > 0) & (distance <= half)).astype(whole.dtype)
    itself = (distance == 0).astype(whole.dtype)
    window = whole * near + itself
    return {"full_attention": whole, "sliding_attention": window}


def encoder_layer(
    config: ModernBertConfig,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    turns: Rotations,
) -> jax.Array:
    """Attention and gated feed-forward, each on a normalised copy."""
    with jax.named_scope("attention"):
        first = "attention_norm" not in p  # it is normalised already
        normed = x if first else layer_norm(p["attention_norm"], x, config.norm_eps)
        parts = jnp.split(dense(p["qkv"], normed), 3, axis=-1)
        q, k, v = (split_heads(part, config.num_attention_heads) for part in parts)
        q, k = rotate(q, turns), rotate(k, turns)
        mixed = attention(q, k, v, seen, weights=config.attention_weights)
        x = x + dense(p["output"], mixed)
    with jax.named_scope("feed_forward"):
        normed = layer_norm(p["feed_norm"], x, config.norm_eps)
        inner, gate = jnp.split(dense(p["up"], normed), 2, axis=-1)
        fed = ACTIVATIONS[config.hidden_activation](inner) * gate
        return jnp.asarray(x + dense(p["down"], fed))


def parameters(config: ModernBertConfig, head: Head) -> Parameters:
    """Every parameter by its path, with Hugging Face's name for it."""
    width, inner, biases = config.hidden_size, config.intermediate_size, config.biases
    has_norm_bias = "norm" in biases
    maps = {
        "qkv": ("attn.Wqkv", width, 3 * width, "attention"),
        "output": ("attn.Wo", width, width, "attention"),
        "up": ("mlp.Wi", width, 2 * inner, "mlp"),
        "down": ("mlp.Wo", inner, width, "mlp"),
    }
    norms = {"attention_norm": "attn_norm", "feed_norm": "mlp_norm"}

    def norm(path: tuple[str | int, ...], key: str) -> Parameters:
        return norm_parameters(path, key, width, bias=has_norm_bias)

    shape = config.vocab_size, width
    table = Parameter("model.embeddings.tok_embeddings.weight", shape)
    found: Parameters = {("embeddings", "word"): table}
    found |= norm(("embeddings", "norm"), "model.embeddings.norm")
    for k in range(config.num_hidden_layers):
        key = f"model.layers.{k}"
        for name, place in norms.items():
            if k or name != "attention_norm":
                found |= norm(("layers", k, name), f"{key}.{place}")
        for name, (place, inputs, outputs, kind) in maps.items():
            found |= dense_parameters(
                ("layers", k, name), f"{key}.{place}", inputs, outputs,
                bias=kind in biases,
            )  # fmt: skip
    found |= norm(("last_norm",), "model.final_norm")
    if head is Head.FEATURE_EXTRACTION:
        return found
    has_bias = "classifier" in biases
    found |= dense_parameters(("head",), "head.dense", width, width, bias=has_bias)
    found |= norm(("head_norm",), "head.norm")
    if head is not Head.FILL_MASK:
        labels = 2 if head is Head.QUESTION_ANSWERING else config.num_labels
        return found | dense_parameters(("classifier",), "classifier", width, labels)
    size = config.vocab_size
    decoder = dense_parameters(
        ("decoder",), "decoder", width, size, bias="decoder" in biases
    )
    if config.tie_word_embeddings:
        decoder.pop(("decoder", "w"))
    return found | decoder


MODERNBERT = Family(
    model_type="modernbert",
    read_config=ModernBertConfig.from_hf,
    architectures={
        "ModernBertForSequenceClassification": Head.TEXT_CLASSIFICATION,
        "ModernBertForTokenClassification": Head.TOKEN_CLASSIFICATION,
        "ModernBertForQuestionAnswering": Head.QUESTION_ANSWERING,
        "ModernBertForMaskedLM": Head.FILL_MASK,
        "ModernBertModel": Head.FEATURE_EXTRACTION,
    },
    parameters=parameters,
    forward=forward,
    hidden_states=hidden_states,
    layer_scope="encoder.layer",
    base_model_prefix="model.",
    attribute_map={"hidden_act": "hidden_activation"},
)
