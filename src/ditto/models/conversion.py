"""Folders with torch's files, as folders with safetensors.

Torch reads its own files with ``weights_only=True``: nothing in them is executed. All
other files of the folder, such as the configuration, the head's labels, the tokenizer
and what sentence-transformers adds, are copied as they are.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from ditto.errors import CheckpointError, SetupError
from ditto.fixedpoint import Array
from ditto.models.formats import PICKLED, refuse_file, refuse_pointer
from ditto.models.json_file import read_object

_COPIED = (".json", ".txt", ".model", ".md")
_LEFT_OUT = (*PICKLED, "model.safetensors.index.json")
_MODULE_FOLDERS = "[0-9]*_*"
_OLD_NAMES = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}
"""Of checkpoints that were first TensorFlow's."""


def convert_folder(source: Path, out: Path) -> None:
    """Write a folder with safetensors; it appears as a whole or not at all."""
    refuse_file(source)
    if out.exists():
        raise SetupError(f"{out} exists already. Name a folder that does not.")
    if not any((source / name).is_file() for name in PICKLED):
        raise CheckpointError(
            f"{source} holds none of {', '.join(PICKLED)}: there is nothing to convert."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _convert(source, made)
        for module in sorted(source.glob(_MODULE_FOLDERS)):
            if module.is_dir():
                (made / module.name).mkdir()
                _convert(module, made / module.name)
        made.chmod(0o755)
        made.rename(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _convert(source: Path, out: Path) -> None:
    from safetensors.numpy import save_file

    for file in sorted(source.iterdir()):
        if file.suffix in _COPIED and file.name not in _LEFT_OUT and file.is_file():
            shutil.copyfile(file, out / file.name)
    tensors: dict[str, Array] = {}
    for file in _pickled_files(source):
        tensors |= _read_torch(file)
    if tensors:
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def _pickled_files(source: Path) -> list[Path]:
    whole, index = (source / name for name in PICKLED)
    if whole.is_file():
        return [whole]
    if not index.is_file():
        return []
    names = sorted(set(read_object(index).get("weight_map", {}).values()))
    for name in names:
        if Path(str(name)).name != name:
            raise CheckpointError(f"{index} names {name!r}, which is no file.")
    return [source / str(name) for name in names]


def _read_torch(path: Path) -> dict[str, Array]:
    refuse_pointer(path)
    try:
        import torch
    except ImportError:
        raise SetupError(
            "Reading torch's files needs torch: pip install torch (without a GPU its "
            "CPU build is enough)."
        ) from None
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of torch, of its unpickler, of the zip file
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"{path} cannot be read without running what is in it: {reason[0]}"
        ) from None
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path} does not hold weights by name.")
    tensors: dict[str, Array] = {}
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{path} holds {name!r}, which is not a tensor.")
        kept = tensor.float() if tensor.is_floating_point() else tensor
        tensors[_new_name(name)] = np.ascontiguousarray(kept.numpy())
    return tensors


def _new_name(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
