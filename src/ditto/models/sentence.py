"""What a sentence-transformers folder says of its embeddings, besides the network.

``modules.json`` lists what follows the network: how the states of the tokens become one
vector (``1_Pooling/config.json``), linear maps after it (``2_Dense``), and whether the
vector is brought to length 1 (``Normalize``). ``sentence_bert_config.json`` has the
longest text, and ``config_sentence_transformers.json`` what is put before texts.
Anything else is refused by its name: an embedding made in another way is another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ditto.errors import CheckpointError, SetupError
from ditto.files import Json, JsonValue
from ditto.models.json_file import read_json, read_object

MODULES = "modules.json"
PROMPTS = "config_sentence_transformers.json"
NETWORK_SETTINGS = "sentence_bert_config.json"
_TOKENIZER_SETTINGS = "tokenizer_config.json"
_SENTENCE = "sentence_embedding"
_ACTIVATIONS = {
    "Identity": "identity",
    "Tanh": "tanh",
    "GELU": "gelu",
    "ReLU": "relu",
    "SiLU": "silu",
}


class Pooling(StrEnum):
    """How the states of the tokens become one vector."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    LAST = "lasttoken"


_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""How configurations before version 6 name them."""


@dataclass(frozen=True)
class DenseModule:
    """A linear map of the pooled vector, with an activation after it."""

    path: str
    """The folder with its weights."""
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class SentenceEncoding:
    """What the client does itself: before the text is asked, and with the answer."""

    normalize: bool = False
    """Whether the embedding is brought to length 1."""
    max_seq_length: int | None = None
    """The most tokens of a text that count, if fewer than the network can take."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What may be put before texts, by name."""
    default_prompt_name: str | None = None
    include_prompt: bool = True
    """Whether the tokens of a prompt are pooled with those of the text."""

    def prompt(self, prompt: str | None = None, prompt_name: str | None = None) -> str:
        """What is put before a text: a prompt, one of the model's, or its default."""
        if prompt is not None and prompt_name is not None:
            raise SetupError("A text has a prompt or a prompt_name, not both.")
        name = prompt_name if prompt is None else None
        if prompt is None and prompt_name is None:
            name = self.default_prompt_name
        if name is not None and name not in self.prompts:
            names = ", ".join(map(repr, self.prompts)) or "none"
            raise SetupError(f"The model has no prompt {name!r}; it has: {names}.")
        found = self.prompts[name] if name is not None else prompt or ""
        if found and not self.include_prompt:
            raise SetupError(
                "This model leaves the tokens of a prompt out of the mean "
                "(include_prompt is false), which is not supported. Ask without a "
                "prompt: prompt=''."
            )
        return found


@dataclass(frozen=True)
class SentenceModules:
    """How an embedding is made of the last layer's states.

    Without a ``modules.json`` it is their mean.
    """

    pooling: Pooling = Pooling.MEAN
    dense: tuple[DenseModule, ...] = ()
    encoding: SentenceEncoding = SentenceEncoding()


def read_sentence_modules(root: Path) -> SentenceModules | None:
    """What the folder says; None if it is not one of sentence-transformers."""
    if not (root / MODULES).is_file():
        return None
    modules = _modules(root)
    if [kind for kind, _ in modules] == ["Transformer"] and not _embeds(root):
        return None  # a classifier, saved as a folder of modules
    pooling: tuple[Pooling, bool] | None = None
    dense: list[DenseModule] = []
    normalize = False
    for kind, path in modules[1:]:
        if normalize or (kind != "Pooling") == (pooling is None):
            names = " -> ".join(name for name, _ in modules)
            raise CheckpointError(
                f"{root / MODULES} lists {names}. Supported is Transformer -> Pooling "
                "-> any number of Dense -> perhaps Normalize, in this order."
            )
        match kind:
            case "Pooling":
                pooling = _pooling(root / path / "config.json")
            case "Dense":
                dense.append(_dense(root, path))
            case "Normalize":
                _plain_config(root / path / "config.json")
                normalize = True
            case "Dropout":  # nothing is dropped but in training
                pass
            case _:
                raise CheckpointError(
                    f"{root / MODULES} has a module {kind!r}; supported are "
                    "Transformer, Pooling, Dense and Normalize."
                )
    if pooling is None:
        raise CheckpointError(
            f"{root / MODULES} has no Pooling: it does not say how an embedding is "
            "made. Name the head to use the network for something else."
        )
    mode, include_prompt = pooling
    prompts, default = _prompts(root / PROMPTS)
    encoding = SentenceEncoding(
        normalize, _max_seq_length(root), prompts, default, include_prompt
    )
    return SentenceModules(mode, tuple(dense), encoding)


def _modules(root: Path) -> list[tuple[str, str]]:
    """The kind and the folder of every module; the first is the network."""
    listed = read_json(root / MODULES)
    found: list[tuple[str, str]] = []
    for each in listed if isinstance(listed, list) else [None]:
        match each:
            case {"type": str(kind), "path": str(path)} if Path(path).name == path:
                found.append((kind.rpartition(".")[2], path))
            case _:
                raise CheckpointError(
                    f"{root / MODULES} is not a list of modules, each with a type and "
                    "a path that names a folder beside it."
                )
    if not found or found[0] != ("Transformer", ""):
        raise CheckpointError(
            f"{root / MODULES} does not begin with a Transformer in the folder itself. "
            "Load it with sentence-transformers and save it again."
        )
    return found


def _embeds(root: Path) -> bool:
    settings = read_object(root / NETWORK_SETTINGS, missing={})
    return bool(settings.get("transformer_task", "?") == "feature-extraction")


def _pooling(path: Path) -> tuple[Pooling, bool]:
    config = read_object(path)
    named = config.get("pooling_mode")
    modes = [named] if isinstance(named, str) else list(named or [])
    if not modes:
        modes = [mode for flag, mode in _FLAGS.items() if config.get(flag)] or ["mean"]
    known = [mode for mode in Pooling if mode in modes]
    if len(modes) != 1 or not known:
        raise CheckpointError(
            f"{path} pools by {' and '.join(map(str, modes))}; supported is one of: "
            f"{', '.join(Pooling)}."
        )
    return known[0], config.get("include_prompt", True) is not False


def _dense(root: Path, path: str) -> DenseModule:
    file = root / path / "config.json"
    config = _plain_config(file)
    name = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise CheckpointError(
            f"{file} has the activation {name!r}; supported are: "
            f"{', '.join(_ACTIVATIONS)}."
        )
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{file} lacks in_features or out_features.") from None
    return DenseModule(path, *sizes, config.get("bias", True), _ACTIVATIONS[name])


def _unusual(config: Mapping[str, JsonValue]) -> str | None:
    """The first setting by which a module does something else than usual."""
    for name in ("module_input_name", "module_output_name"):
        if config.get(name) not in (None, _SENTENCE):
            return f"{name}={config[name]!r}"
    return "use_residual=true" if config.get("use_residual") else None


def _plain_config(path: Path) -> Json:
    """A module's configuration; refuses what makes it unusual."""
    config = read_object(path, missing={})
    setting = _unusual(config)
    if setting is not None:
        raise CheckpointError(f"{path} has {setting}, which is not supported.")
    return config


def _max_seq_length(root: Path) -> int | None:
    """The folder's own limit, or the tokenizer's."""
    settings = read_object(root / NETWORK_SETTINGS, missing={})
    tokenizer = read_object(root / _TOKENIZER_SETTINGS, missing={})
    for limit in (settings.get("max_seq_length"), tokenizer.get("model_max_length")):
        if isinstance(limit, int) and limit > 0:
            return limit
    return None


def _prompts(path: Path) -> tuple[dict[str, str], str | None]:
    config = read_object(path, missing={})
    prompts = config.get("prompts") or {}
    default = config.get("default_prompt_name")
    texts = prompts.items() if isinstance(prompts, dict) else [(None, None)]
    for name, text in texts:
        if not isinstance(name, str) or not isinstance(text, str | None):
            raise CheckpointError(f"The prompts in {path} are not texts by name.")
    if default is not None and default not in prompts:
        raise CheckpointError(
            f"{path} has the default prompt {default!r}, which is not among its "
            "prompts."
        )
    return {str(name): text or "" for name, text in texts}, default
