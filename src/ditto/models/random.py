"""Models of any size with random weights: they cost what trained ones cost."""

from collections.abc import Mapping

from ditto.errors import SetupError
from ditto.files import Json, JsonValue
from ditto.models.families import find_family
from ditto.models.model import Model, changed, find_head, read_config
from ditto.models.parameters import random_params


def _bert(hidden_size: int, layers: int, heads: int) -> Json:
    return {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "vocab_size": 30522,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden_size,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }


def _gpt2(hidden_size: int, layers: int, heads: int) -> Json:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 50257,
        "n_embd": hidden_size,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": 1024,
    }


def _llama(
    hidden_size: int,
    layers: int,
    heads: tuple[int, int],
    intermediate_size: int,
    vocab_size: int,
    *,
    theta: float = 500_000.0,
    tied: bool = True,
) -> Json:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "intermediate_size": intermediate_size,
        "max_position_embeddings": 8192,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "tie_word_embeddings": tied,
    }


PRESETS: dict[str, Json] = {
    "bert-base": _bert(768, 12, 12),
    "bert-large": _bert(1024, 24, 16),
    "bert-tiny": _bert(16, 3, 2),
    "gpt2-base": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-tiny": _gpt2(16, 2, 2),
    "llama-1b": _llama(2048, 16, (32, 8), 8192, 128256),
    "llama-3b": _llama(3072, 28, (24, 8), 8192, 128256),
    "llama-8b": _llama(4096, 32, (32, 8), 14336, 128256, tied=False),
    "llama-tiny": _llama(16, 2, (4, 2), 24, 32000),
    "smollm2-135m": _llama(576, 30, (9, 3), 1536, 49152, theta=100_000.0),
}
"""Configurations of well-known sizes, as ``config.json`` would have them."""


_NARROW = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 3072}
_WIDE = {
    "hidden_size": 1536, "num_attention_heads": 24, "num_key_value_heads": 8,
    "intermediate_size": 6144,
}  # fmt: skip
PROBE_SHAPES: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("bert-tiny", 2, 8, {}),
    ("bert-base", 1, 128, _NARROW),
    ("bert-base", 1, 128, {}),
    ("gpt2-base", 1, 32, {}),
    ("smollm2-135m", 1, 32, _WIDE),
)
"""Presets, layers, tokens and changes by which a machine is measured: of few bytes and
products; of many bytes; of both; of fewer tokens; of many products and weights."""


def preset_layers(name: str) -> int:
    """How many layers a preset has."""
    config = PRESETS[name]
    return read_config(find_family(config["model_type"]), config).num_hidden_layers


def random_model(
    config: str | Mapping[str, JsonValue], *, seed: int = 0, **changes: JsonValue
) -> Model:
    """A model of a preset, or of a Hugging Face configuration.

    Changes to it have Hugging Face's common names, such as ``num_hidden_layers``.
    """
    if isinstance(config, str):
        if config not in PRESETS:
            raise SetupError(
                f"There is no preset {config!r}; there are: {', '.join(PRESETS)}."
            )
        config = PRESETS[config]
    family = find_family(config.get("model_type"))
    published = changed(family, config, changes)
    (architecture,) = published["architectures"]
    head = find_head(family, family.architectures[architecture])
    parameters = family.parameters(read_config(family, published), head)
    return Model(family, head, published, random_params(parameters, seed))
