"""BERT, RoBERTa, XLM-RoBERTa, DistilBERT and MPNet: encoders of one family.

Sources: Devlin et al. 2018; Liu et al. 2019; Conneau et al. 2020; Sanh et al. 2019;
Song et al. 2020; weights as the Hugging Face classes name them.

- token, position and (BERT) type embeddings, summed and normalised
- layers of self-attention and feed-forward, each with a residual and a normalisation
  after it
- heads: sequence classification, token classification, question answering, masked
  language model, pooled sentence embedding

RoBERTa counts positions from its padding index on and has no types, and XLM-RoBERTa is
the same network; DistilBERT has no types and no pooler; MPNet has no types, and adds to
the scores of all layers a number for each distance of two tokens. Everything else is
the same code.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

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
    norm_of_sum,
    scale_centred,
    split_heads,
)
from ditto.models.parameters import (
    Parameter,
    Parameters,
    dense_parameters,
    norm_parameters,
)

_DISTILBERT_NAMES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
_DISTANCES = 32
"""Buckets of distances that MPNet tells apart."""


@dataclass(frozen=True)
class BertConfig:
    """The size of an encoder, from its ``config.json``."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    hidden_act: str
    attention_weights: str
    layer_norm_eps: float
    num_labels: int
    tie_word_embeddings: bool
    first_position: int
    """Where positions count from."""
    relative_attention_num_buckets: int
    """Distances that are told apart; 0 if they do not count."""
    scaled_queries: bool
    """Whether the weights of queries scale them (see ``ditto.models.preparation``)."""
    centred_maps: bool
    """Whether what maps add to a residual has zero mean (likewise)."""
    centred_tables: bool
    """Whether all embeddings have (likewise)."""

    @classmethod
    def from_hf(cls, config: Mapping[str, JsonValue]) -> "BertConfig":
        """From a Hugging Face configuration; refuses what the code does not do."""
        model_type = config["model_type"]
        is_distilbert = model_type == "distilbert"
        has_no_types = model_type in ("distilbert", "mpnet")
        names = _DISTILBERT_NAMES if is_distilbert else {}

        def get(name: str) -> JsonValue:
            return config[names.get(name, name)]

        check_activation(get("hidden_act"))
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise CheckpointError("Only absolute position embeddings are supported.")
        if config.get("is_decoder") or config.get("add_cross_attention"):
            raise CheckpointError("A BERT used as a decoder is not supported.")
        return cls(
            model_type=model_type,
            vocab_size=config["vocab_size"],
            hidden_size=get("hidden_size"),
            num_hidden_layers=get("num_hidden_layers"),
            num_attention_heads=get("num_attention_heads"),
            intermediate_size=get("intermediate_size"),
            max_position_embeddings=config["max_position_embeddings"],
            type_vocab_size=0 if has_no_types else config.get("type_vocab_size", 2),
            hidden_act=get("hidden_act"),
            attention_weights=check_attention(config, get("hidden_act")),
            layer_norm_eps=config.get("layer_norm_eps", 1e-12),
            num_labels=len(config.get("id2label") or {0: "", 1: ""}),
            tie_word_embeddings=config.get("tie_word_embeddings", True),
            first_position=_first_position(config),
            relative_attention_num_buckets=_distances(config),
            scaled_queries=config.get("scaled_queries", False),
            centred_maps=config.get("centred_maps", False),
            centred_tables=config.get("centred_tables", False),
        )

    @property
    def head_dim(self) -> int:
        """Of a head's queries, keys and values."""
        return self.hidden_size // self.num_attention_heads

    @property
    def max_tokens(self) -> int:
        """The longest text."""
        return self.max_position_embeddings - self.first_position


def _first_position(config: Mapping[str, JsonValue]) -> int:
    match config["model_type"]:
        case "roberta" | "xlm-roberta":
            return int(config.get("pad_token_id", 1)) + 1
        case "mpnet":  # whatever its padding index
            return 2
        case _:
            return 0


def _distances(config: Mapping[str, JsonValue]) -> int:
    if config["model_type"] != "mpnet":
        return 0
    count = config.get("relative_attention_num_buckets", _DISTANCES)
    if count != _DISTANCES:
        raise CheckpointError(
            f"MPNet with relative_attention_num_buckets={count} is not supported: "
            f"Hugging Face's computes with {_DISTANCES}, whatever is said here."
        )
    return _DISTANCES


def forward(
    config: BertConfig,
    head: Head,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> jax.Array:
    """The model of ids (B, S), mask (B, S) and types (B, S).

    The mask may be of integers, or of float32 if it is to be secret.
    """
    *_, last = hidden_states(config, p, ids, mask, types)
    with jax.named_scope(head.value):
        return apply_head(config, head, p, last)


def hidden_states(
    config: BertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> list[jax.Array]:
    """The embeddings, and what every layer makes of them, each (B, S, H)."""
    x, seen, bias = embed_tokens(config, p, ids, mask, types)
    states = [x]
    for k, layer in enumerate(p["layers"]):
        with jax.named_scope(f"encoder.layer.{k}"):
            states.append(encoder_layer(config, layer, states[-1], seen, bias))
    return states


def first_state(
    config: BertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None = None,
) -> jax.Array:
    """The last layer's state of the first token, (B, 1, H).

    Only keys and values of the other tokens are computed in the last layer.
    """
    x, seen, bias = embed_tokens(config, p, ids, mask, types)
    for k, layer in enumerate(p["layers"]):
        is_last = k + 1 == len(p["layers"])
        with jax.named_scope(f"encoder.layer.{k}"):
            x = encoder_layer(config, layer, x, seen, bias, first_only=is_last)
    return x


def embed_tokens(
    config: BertConfig,
    p: Params,
    ids: jax.Array,
    mask: jax.Array,
    types: jax.Array | None,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """What goes into the first layer (B, S, H), what attention may see, and what is
    added to its scores (1, heads, S, S), if anything."""
    with jax.named_scope("embeddings"):
        e = p["embeddings"]
        first = config.first_position
        x = e["word"][ids] + e["position"][first : first + ids.shape[1]]
        if config.type_vocab_size:
            x = x + (e["type"][0] if types is None else e["type"][types])
        norm = scale_centred if config.centred_tables else layer_norm
        x = norm(e["norm"], x, config.layer_norm_eps)
        bias = None
        if config.relative_attention_num_buckets:
            buckets = distance_buckets(
                ids.shape[1], config.relative_attention_num_buckets
            )
            bias = e["distance"][buckets].transpose(2, 0, 1)[None]
    seen = mask if mask.dtype == jnp.float32 else mask.astype(bool)
    return x, seen[:, None, None, :], bias


def distance_buckets(length: int, count: int, most: int = 128) -> npt.NDArray[np.int64]:
    """The bucket of the distance of any two tokens, (S, S).

    Half of them are for tokens before, half for tokens after. Small distances have
    buckets of their own; larger ones, up to ``most``, share them by their logarithm.
    """
    places = np.arange(length)
    distance = places[:, None] - places[None, :]
    half, exact = count // 2, count // 4
    far = np.maximum(np.abs(distance), 1)
    scale = np.float32(math.log(most / exact))
    logarithm = np.log(far.astype(np.float32) / np.float32(exact)) / scale
    shared = exact + (logarithm * (half - exact)).astype(np.int64)
    bucket = np.where(far < exact, np.abs(distance), np.minimum(shared, half - 1))
    return np.asarray(np.where(distance < 0, half, 0) + bucket, np.int64)


def encoder_layer(
    config: BertConfig,
    p: Params,
    x: jax.Array,
    seen: jax.Array,
    bias: jax.Array | None = None,
    *,
    first_only: bool = False,
) -> jax.Array:
    """Attention and feed-forward, for all tokens or for the first alone."""
    norm = norm_of_sum(has_mean=not config.centred_maps)
    with jax.named_scope("attention"):
        asking = x[:, :1] if first_only else x
        q, k, v = (
            split_heads(dense(p[name], rows), config.num_attention_heads)
            for name, rows in (("query", asking), ("key", x), ("value", x))
        )
        if bias is not None and first_only:
            bias = bias[:, :, :1]
        mixed = attention(
            q, k, v, seen, bias, config.attention_weights, scaled=config.scaled_queries
        )
        mixed = dense(p["output"], mixed)
    with jax.named_scope("attention_norm"):
        x = norm(p["attention_norm"], asking, mixed, config.layer_norm_eps)
    with jax.named_scope("feed_forward"):
        fed = dense(p["down"], ACTIVATIONS[config.hidden_act](dense(p["up"], x)))
    with jax.named_scope("output_norm"):
        return norm(p["output_norm"], x, fed, config.layer_norm_eps)


def apply_head(
    config: BertConfig, head: Head, p: Params, hidden: jax.Array
) -> jax.Array:
    """What the hidden states are for."""
    match head:
        case Head.TEXT_CLASSIFICATION:
            first = hidden[:, 0]
            between = jax.nn.relu if config.model_type == "distilbert" else jnp.tanh
            return dense(p["classifier"], between(dense(p["pooler"], first)))
        case Head.TOKEN_CLASSIFICATION | Head.QUESTION_ANSWERING:
            return dense(p["classifier"], hidden)
        case Head.FILL_MASK:
            own = _NAMES[config.model_type].transform_act
            act = ACTIVATIONS[own or config.hidden_act]
            x = act(dense(p["transform"], hidden))
            x = layer_norm(p["transform_norm"], x, config.layer_norm_eps)
            if not config.tie_word_embeddings:
                return dense(p["decoder"], x)
            return jnp.asarray(x @ p["embeddings"]["word"].T + p["bias"])
        case Head.POOLER_OUTPUT:
            return jnp.tanh(dense(p["pooler"], hidden[:, 0]))
        case _:
            raise CheckpointError(f"An encoder has no head {head.value!r}.")


# Hugging Face's names of the parameters.


@dataclass(frozen=True)
class _Names:
    """Where the families differ. A tied decoder has a bias alone."""

    base: str
    layers: str
    layer: Mapping[str, str]
    pooler: str
    classifier: str
    transform: str
    transform_norm: str
    tied_bias: str
    decoder: str
    transform_act: str | None = None
    """The activation in the head of a language model, if not that of the layers."""


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
_ROBERTA = _Names(
    base="roberta",
    layers="encoder.layer",
    layer=_BERT_LAYER,
    pooler="classifier.dense",
    classifier="classifier.out_proj",
    transform="lm_head.dense",
    transform_norm="lm_head.layer_norm",
    tied_bias="lm_head.bias",
    decoder="lm_head.decoder",
    transform_act="gelu",
)
_NAMES = {
    "bert": _Names(
        base="bert",
        layers="encoder.layer",
        layer=_BERT_LAYER,
        pooler="bert.pooler.dense",
        classifier="classifier",
        transform="cls.predictions.transform.dense",
        transform_norm="cls.predictions.transform.LayerNorm",
        tied_bias="cls.predictions.bias",
        decoder="cls.predictions.decoder",
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "mpnet": replace(
        _ROBERTA,
        base="mpnet",
        layer=_BERT_LAYER
        | {
            "query": "attention.attn.q",
            "key": "attention.attn.k",
            "value": "attention.attn.v",
            "output": "attention.attn.o",
            "attention_norm": "attention.LayerNorm",
        },
    ),
    "distilbert": _Names(
        base="distilbert",
        layers="transformer.layer",
        layer={
            "query": "attention.q_lin",
            "key": "attention.k_lin",
            "value": "attention.v_lin",
            "output": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "up": "ffn.lin1",
            "down": "ffn.lin2",
            "output_norm": "output_layer_norm",
        },
        pooler="pre_classifier",
        classifier="classifier",
        transform="vocab_transform",
        transform_norm="vocab_layer_norm",
        tied_bias="vocab_projector.bias",
        decoder="vocab_projector",
    ),
}


def parameters(config: BertConfig, head: Head) -> Parameters:
    """Every parameter by its path, with Hugging Face's name for it."""
    names, width = _NAMES[config.model_type], config.hidden_size
    base = names.base
    embeddings = f"{base}.embeddings"
    tables = {"word": config.vocab_size, "position": config.max_position_embeddings}
    if config.type_vocab_size:
        tables["type"] = config.type_vocab_size
    published = {"type": "token_type"}
    found: Parameters = {
        ("embeddings", name): Parameter(
            f"{embeddings}.{published.get(name, name)}_embeddings.weight", (rows, width)
        )
        for name, rows in tables.items()
    }
    found |= norm_parameters(("embeddings", "norm"), f"{embeddings}.LayerNorm", width)
    if config.relative_attention_num_buckets:
        shape = config.relative_attention_num_buckets, config.num_attention_heads
        key = f"{base}.encoder.relative_attention_bias.weight"
        found["embeddings", "distance"] = Parameter(key, shape)
    sizes = {
        "up": (width, config.intermediate_size),
        "down": (config.intermediate_size, width),
    }
    for k in range(config.num_hidden_layers):
        for name, place in names.layer.items():
            path, key = ("layers", k, name), f"{base}.{names.layers}.{k}.{place}"
            if name.endswith("norm"):
                found |= norm_parameters(path, key, width)
            else:
                found |= dense_parameters(path, key, *sizes.get(name, (width, width)))
    return found | _head_parameters(config, head, names)


def _head_parameters(config: BertConfig, head: Head, names: _Names) -> Parameters:
    width = config.hidden_size
    found: Parameters = {}
    match head:
        case Head.TEXT_CLASSIFICATION:
            found |= dense_parameters(("pooler",), names.pooler, width, width)
            sizes = width, config.num_labels
            found |= dense_parameters(("classifier",), names.classifier, *sizes)
        case Head.TOKEN_CLASSIFICATION:
            sizes = width, config.num_labels
            found |= dense_parameters(("classifier",), "classifier", *sizes)
        case Head.QUESTION_ANSWERING:
            found |= dense_parameters(("classifier",), "qa_outputs", width, 2)
        case Head.POOLER_OUTPUT:
            key = f"{names.base}.pooler.dense"
            found |= dense_parameters(("pooler",), key, width, width)
        case Head.FILL_MASK:
            found |= dense_parameters(("transform",), names.transform, width, width)
            found |= norm_parameters(("transform_norm",), names.transform_norm, width)
            size = config.vocab_size
            if config.tie_word_embeddings:
                found |= {("bias",): Parameter(names.tied_bias, (size,))}
            else:
                found |= dense_parameters(("decoder",), names.decoder, width, size)
    return found


def _family(
    model_type: str,
    prefix: str,
    *,
    more_heads: tuple[Head, ...] = (),
    attribute_map: Mapping[str, str] | None = None,
) -> Family[BertConfig]:
    return Family(
        model_type=model_type,
        read_config=BertConfig.from_hf,
        architectures={
            f"{prefix}ForSequenceClassification": Head.TEXT_CLASSIFICATION,
            f"{prefix}ForTokenClassification": Head.TOKEN_CLASSIFICATION,
            f"{prefix}ForMaskedLM": Head.FILL_MASK,
            f"{prefix}ForQuestionAnswering": Head.QUESTION_ANSWERING,
            f"{prefix}Model": Head.FEATURE_EXTRACTION,
        },
        parameters=parameters,
        forward=forward,
        hidden_states=hidden_states,
        first_state=first_state,
        layer_scope="encoder.layer",
        base_model_prefix=f"{_NAMES[model_type].base}.",
        more_heads=more_heads,
        attribute_map=attribute_map or {},
        scalable_queries="query",
        centred_maps=("output", "down"),
        centred_tables=("word", "position", "type"),
        maps_around_activation=("up", "down"),
    )


BERT = _family("bert", "Bert", more_heads=(Head.POOLER_OUTPUT,))
ROBERTA = _family("roberta", "Roberta", more_heads=(Head.POOLER_OUTPUT,))
XLM_ROBERTA = _family("xlm-roberta", "XLMRoberta", more_heads=(Head.POOLER_OUTPUT,))
MPNET = _family("mpnet", "MPNet", more_heads=(Head.POOLER_OUTPUT,))
DISTILBERT = _family("distilbert", "DistilBert", attribute_map=_DISTILBERT_NAMES)
