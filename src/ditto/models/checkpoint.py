"""Hugging Face folders in and out, without torch.

A folder as ``save_pretrained`` writes it: ``config.json`` and ``model.safetensors``, or
shards with ``model.safetensors.index.json``. Nothing else is read, and nothing in it is
executed: pickled weights are refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ditto.errors import CheckpointError
from ditto.files import read_limited

Tensors = dict[str, npt.NDArray[Any]]

MAX_JSON = 64 << 20
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5")


@dataclass(frozen=True)
class Checkpoint:
    """A model as it is published: what it is, and its weights by name."""

    config: Mapping[str, Any]
    tensors: Mapping[str, npt.NDArray[Any]]

    @property
    def architecture(self) -> str:
        """The class that the model was saved from."""
        names = self.config.get("architectures") or ["unknown"]
        return str(names[0])


def read_checkpoint(folder: str | Path) -> Checkpoint:
    """The model in a folder; refuses what cannot be read safely."""
    root = Path(folder)
    if not root.is_dir():
        raise CheckpointError(f"{root} is not a folder.")
    config = _read_json(root / "config.json")
    return Checkpoint(config, _read_tensors(root))


def write_checkpoint(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write a folder that ``from_pretrained`` reads."""
    from safetensors.numpy import save_file

    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(checkpoint.config), indent=2, sort_keys=True)
    (root / "config.json").write_text(text + "\n")
    tensors = {k: np.ascontiguousarray(v) for k, v in checkpoint.tensors.items()}
    save_file(tensors, root / _WEIGHTS, metadata={"format": "pt"})


def _read_json(path: Path) -> dict[str, Any]:
    text = read_limited(path, MAX_JSON, CheckpointError, f"{MAX_JSON} bytes")
    try:
        loaded = json.loads(text)
    except ValueError:
        raise CheckpointError(f"{path} is not JSON.") from None
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path} does not hold a JSON object.")
    return loaded


def _read_tensors(root: Path) -> Tensors:
    if (root / _WEIGHTS).is_file():
        return _read_file(root / _WEIGHTS)
    if (root / _INDEX).is_file():
        shards = _read_json(root / _INDEX).get("weight_map", {}).values()
        tensors: Tensors = {}
        for name in sorted(set(shards)):
            if Path(name).name != name:
                raise CheckpointError(f"The index of {root} names {name!r}: no file.")
            tensors |= _read_file(root / name)
        return tensors
    found = next((name for name in _PICKLED if (root / name).is_file()), None)
    if found:
        raise CheckpointError(
            f"{root} holds {found}, which may run code when it is read. Convert it "
            f'once where you trust it: python -c "from transformers import AutoModel; '
            f"AutoModel.from_pretrained('{root}').save_pretrained('{root}-safe')\""
        )
    raise CheckpointError(f"{root} holds no {_WEIGHTS}.")


def _read_file(path: Path) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        loaded = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from None
    return {name: _as_float32(array) for name, array in loaded.items()}


def _as_float32(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array
