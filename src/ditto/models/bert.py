"""BERT, RoBERTa and DistilBERT: encoders of one family.

Sources: Devlin et al. 2018; Liu et al. 2019; Sanh et al. 2019; weights as the
Hugging Face classes name them.

- token, position and (BERT) type embeddings, summed and normalised
- layers of self-attention and feed-forward, each with a residual and a normalisation
  after it
- heads: sequence classification, token classification, masked language model, pooled
  or mean-pooled sentence embedding

RoBERTa counts positions from its padding index on and has no types; DistilBERT has no
types and no pooler. Everything else is the same code.
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

Family = Literal["bert", "roberta", "distilbert"]
Head = Literal["classify", "tag", "fill", "pooled", "mean"]

HEADS: dict[str, Head] = {
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForMaskedLM": "fill",
    "Model": "mean",
}


@dataclass(frozen=True)
class BertConfig:
    """The size of an encoder, from its ``config.json``."""

    family: Family
    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    types: int
    activation: str
    eps: float
    labels: int
    first_position: int

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "BertConfig":
        """From a Hugging Face configuration; refuses what the code does not do."""
        family = config["model_type"]
        if family == "distilbert":
            names = ("dim", "n_layers", "n_heads", "hidden_dim", "activation")
        else:
            names = ("hidden_size", "num_hidden_layers", "num_attention_heads",
                     "intermediate_size", "hidden_act")  # fmt: skip
        width, layers, heads, inner, activation = (config[name] for name in names)
        check_activation(activation)
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise CheckpointError("Only absolute position embeddings are supported.")
        if config.get("is_decoder") or config.get("add_cross_attention"):
            raise CheckpointError("A BERT used as a decoder is not supported.")
        return cls(
            family=family,
            vocabulary=config["vocab_size"],
            width=width,
            layers=layers,
            heads=heads,
            inner=inner,
            positions=config["max_position_embeddings"],
            types=0 if family == "distilbert" else config.get("type_vocab_size", 2),
            activation=activation,
            eps=config.get("layer_norm_eps", 1e-12),
            labels=len(config.get("id2label") or {0: "", 1: ""}),
            first_position=config.get("pad_token_id", 1) + 1
            if family == "roberta"
            else 0,
        )


Apply = Callable[..., jax.Array]


def build(config: BertConfig, head: Head) -> Apply:
    """The model as a function of its parameters, ids (B, S), mask (B, S) and types.

    The mask may be of integers, or of float32 if it is to be secret.
    """

    def apply(
        p: Params, ids: jax.Array, mask: jax.Array, types: jax.Array | None = None
    ) -> jax.Array:
        hidden = encode(config, p, ids, mask, types)
        with jax.named_scope(head):
            return apply_head(config, head, p, hidden, mask)

    return apply


def encode(
    config: BertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> jax.Array:
    """Hidden states (B, S, H)."""
    *_, last = hidden_states(config, p, ids, mask, types)
    return last


def hidden_states(
    config: BertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> list[jax.Array]:
    """The embeddings, and what every layer makes of them, each (B, S, H)."""
    with jax.named_scope("embeddings"):
        e = p["embeddings"]
        first = config.first_position
        x = e["word"][ids] + e["position"][first : first + ids.shape[1]]
        if config.types:
            x = x + (e["type"][0] if types is None else e["type"][types])
        x = layer_norm(e["norm"], x, config.eps)
    seen = (mask if mask.dtype == jnp.float32 else mask.astype(bool))[:, None, None, :]
    states = [x]
    for k, layer in enumerate(p["layers"]):
        with jax.named_scope(f"encoder.layer.{k}"):
            states.append(encoder_layer(config, layer, states[-1], seen))
    return states


def encoder_layer(
    config: BertConfig, p: Params, x: jax.Array, seen: jax.Array
) -> jax.Array:
    """Attention and feed-forward."""
    with jax.named_scope("attention"):
        q, k, v = (
            split_heads(dense(p[name], x), config.heads)
            for name in ("query", "key", "value")
        )
        mixed = dense(p["output"], attention(q, k, v, seen))
    with jax.named_scope("attention_norm"):
        x = layer_norm(p["attention_norm"], x + mixed, config.eps)
    with jax.named_scope("feed_forward"):
        fed = dense(p["down"], ACTIVATIONS[config.activation](dense(p["up"], x)))
    with jax.named_scope("output_norm"):
        return layer_norm(p["output_norm"], x + fed, config.eps)


def apply_head(
    config: BertConfig, head: Head, p: Params, hidden: jax.Array, mask: jax.Array
) -> jax.Array:
    """What the hidden states are for."""
    match head:
        case "classify":
            first = hidden[:, 0]
            between = jax.nn.relu if config.family == "distilbert" else jnp.tanh
            return dense(p["classifier"], between(dense(p["pooler"], first)))
        case "tag":
            return dense(p["classifier"], hidden)
        case "fill":
            act = ACTIVATIONS[
                "gelu" if config.family == "roberta" else config.activation
            ]
            x = act(dense(p["transform"], hidden))
            x = layer_norm(p["transform_norm"], x, config.eps)
            return jnp.asarray(x @ p["embeddings"]["word"].T + p["bias"])
        case "pooled":
            return jnp.tanh(dense(p["pooler"], hidden[:, 0]))
        case "mean":
            kept = mask.astype(hidden.dtype)[:, :, None]
            return (hidden * kept).sum(1) / kept.sum(1)


# Names. A template stands for one place in the parameters; {k} is the layer.

_BERT_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "output_norm": "output.LayerNorm",
}
_DISTIL_LAYER = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "up": "ffn.lin1",
    "down": "ffn.lin2",
    "output_norm": "output_layer_norm",
}
_HEAD_NAMES: dict[tuple[str, str], dict[str, str]] = {
    ("bert", "classify"): {"pooler": "{base}pooler.dense", "classifier": "classifier"},
    ("roberta", "classify"): {
        "pooler": "classifier.dense",
        "classifier": "classifier.out_proj",
    },
    ("distilbert", "classify"): {
        "pooler": "pre_classifier",
        "classifier": "classifier",
    },
    ("bert", "fill"): {
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
    },
    ("roberta", "fill"): {
        "transform": "lm_head.dense",
        "transform_norm": "lm_head.layer_norm",
        "bias": "lm_head.bias",
    },
    ("distilbert", "fill"): {
        "transform": "vocab_transform",
        "transform_norm": "vocab_layer_norm",
        "bias": "vocab_projector.bias",
    },
}


def key_map(config: BertConfig, head: Head, base: str) -> KeyMap:
    """For every parameter, by its path, the name Hugging Face gives it."""
    keys: KeyMap = {}
    inside = "embeddings"
    keys["embeddings", "word"] = f"{base}{inside}.word_embeddings.weight"
    keys["embeddings", "position"] = f"{base}{inside}.position_embeddings.weight"
    if config.types:
        keys["embeddings", "type"] = f"{base}{inside}.token_type_embeddings.weight"
    _norm(keys, ("embeddings", "norm"), f"{base}{inside}.LayerNorm")
    distil = config.family == "distilbert"
    stack = "transformer.layer" if distil else "encoder.layer"
    for k in range(config.layers):
        for name, place in (_DISTIL_LAYER if distil else _BERT_LAYER).items():
            path, key = ("layers", k, name), f"{base}{stack}.{k}.{place}"
            (_norm if name.endswith("norm") else _dense)(keys, path, key)
    names = _HEAD_NAMES.get((config.family, head), {})
    if head == "tag":
        names = {"classifier": "classifier"}
    if head == "pooled":
        names = {"pooler": "{base}pooler.dense"}
    for name, place in names.items():
        key = place.format(base=base)
        if name == "bias":
            keys[(name,)] = key
        else:
            (_norm if name.endswith("norm") else _dense)(keys, (name,), key)
    return keys


def _dense(keys: KeyMap, path: Path, key: str) -> None:
    keys[(*path, "w")] = f"{key}.weight"
    keys[(*path, "b")] = f"{key}.bias"


def _norm(keys: KeyMap, path: Path, key: str) -> None:
    keys[(*path, "gamma")] = f"{key}.weight"
    keys[(*path, "beta")] = f"{key}.bias"


def load_params(config: BertConfig, head: Head, tensors: Mapping[str, Any]) -> Params:
    """Parameters from the tensors of a checkpoint."""
    base = f"{config.family}."
    if not any(name.startswith(base) for name in tensors):
        base = ""
    keys = key_map(config, head, base)
    what = f"a {config.family} model with head {head!r}"
    return to_tree(keys, tensors, _turned, layers=config.layers, what=what)


def save_params(config: BertConfig, head: Head, params: Params) -> Tensors:
    """The inverse of ``load_params``, with the family's prefix."""
    base = "" if head in ("mean", "pooled") else f"{config.family}."
    return to_tensors(key_map(config, head, base), params, _turned)


def _turned(path: Path) -> bool:
    return bool(path[-1] == "w")
