"""Hugging Face folders in and out, without torch.

A folder as ``save_pretrained`` writes it: ``config.json`` and ``model.safetensors``, or
shards with ``model.safetensors.index.json``; and what sentence-transformers adds to it.
Nothing else is read, and nothing in it is executed: pickled weights are refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ditto.errors import CheckpointError
from ditto.files import JsonValue
from ditto.fixedpoint import Array
from ditto.models.families import check_family
from ditto.models.formats import (
    refuse_file,
    refuse_pointer,
    without_config,
    without_weights,
)
from ditto.models.json_file import read_object
from ditto.models.sentence import SentenceModules, read_sentence_modules
from ditto.models.tensors import Tensors

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Checkpoint:
    """A model as it is published: what it is, and its weights by name."""

    config: Mapping[str, JsonValue]
    tensors: Mapping[str, Array]
    sentence: SentenceModules | None = None
    """What makes an embedding of it, if the folder says so."""

    @property
    def architecture(self) -> str:
        """The class that the model was saved from."""
        names = self.config.get("architectures") or ["unknown"]
        return str(names[0])


def read_checkpoint(folder: str | Path) -> Checkpoint:
    """The model in a folder; refuses what cannot be read safely."""
    root = Path(folder)
    refuse_file(root)
    if not (root / "config.json").is_file():
        raise without_config(root)
    refuse_pointer(root / "config.json")
    config = read_object(root / "config.json")
    check_family(config.get("model_type"))  # before anything large is read
    sentence = read_sentence_modules(root)
    tensors = _read_tensors(root)
    for module in () if sentence is None else sentence.dense:
        found = _read_tensors(root / module.path)
        tensors |= {f"{module.path}.{name}": array for name, array in found.items()}
    return Checkpoint(config, tensors, sentence)


def write_checkpoint(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write a folder that ``from_pretrained`` reads."""
    from safetensors.numpy import save_file

    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(checkpoint.config), indent=2, sort_keys=True)
    (root / "config.json").write_text(text + "\n")
    tensors = {k: np.ascontiguousarray(v) for k, v in checkpoint.tensors.items()}
    save_file(tensors, root / _WEIGHTS, metadata={"format": "pt"})


def _read_tensors(root: Path) -> Tensors:
    if (root / _WEIGHTS).is_file():
        return _read_file(root / _WEIGHTS)
    if (root / _INDEX).is_file():
        shards = read_object(root / _INDEX).get("weight_map", {}).values()
        tensors: Tensors = {}
        for name in sorted(set(shards)):
            if Path(name).name != name:
                raise CheckpointError(f"The index of {root} names {name!r}: no file.")
            tensors |= _read_file(root / name)
        return tensors
    raise without_weights(root)


def _read_file(path: Path) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if path.is_file():
        refuse_pointer(path)
    try:
        loaded = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from None
    return {name: _as_float32(array) for name, array in loaded.items()}


def _as_float32(array: Array) -> Array:
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array
