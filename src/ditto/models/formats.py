"""Folders that cannot be read: what they hold, and the way on."""

import shlex
from pathlib import Path

from ditto.errors import CheckpointError

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_LFS = b"version https://git-lfs.github.com/spec/"
_OTHERS = {
    ".onnx": "ONNX, a graph without the model's description",
    ".gguf": "GGUF, rounded weights for llama.cpp",
    ".h5": "TensorFlow",
    ".msgpack": "Flax",
    ".ot": "Rust",
    ".ckpt": "a training run",
}
_CONVERTED = {
    ".onnx": " examples/convert_onnx.py of the repository makes one of a BERT encoder.",
    ".gguf": " examples/convert_gguf.py of the repository makes one, with the rounded "
    "weights.",
}


def refuse_file(path: Path) -> None:
    """Refuse a path that is not a folder."""
    if path.is_dir():
        return
    if path.is_file():
        raise CheckpointError(
            f"{path} is a file. Name the folder that has config.json, "
            "model.safetensors and the tokenizer's files."
        )
    raise CheckpointError(f"{path} is not a folder.")


def refuse_pointer(path: Path) -> None:
    """Refuse what Git LFS left in place of a file."""
    with path.open("rb") as file:
        begins = file.read(len(_LFS))
    if begins == _LFS:
        raise CheckpointError(
            f"{path} is a Git LFS pointer and not the file itself. Fetch the files:\n"
            f"git -C {shlex.quote(str(path.parent))} lfs pull"
        )


def without_weights(root: Path) -> CheckpointError:
    """Why a folder without safetensors cannot be read, and what to do."""
    pickled = next((name for name in PICKLED if (root / name).is_file()), None)
    if pickled:
        return CheckpointError(
            f"{root} holds {pickled}, a pickle, which may run code when it is read. "
            f"Convert it once (this needs torch, which reads it without running "
            f"code):\n{convert_command(root)}"
        )
    return _only_others(root) or CheckpointError(
        f"{root} holds no model.safetensors, nor one in shards with an index."
    )


def without_config(root: Path) -> CheckpointError:
    """Why a folder without config.json cannot be read, and what to do."""
    inside = next((path.parent for path in sorted(root.glob("*/config.json"))), None)
    if inside is not None and not (root / "modules.json").is_file():
        return CheckpointError(f"{root} has no config.json, but {inside} has: name it.")
    return _only_others(root) or CheckpointError(
        f"{root} has no config.json: it is not a model's folder as save_pretrained "
        "writes it."
    )


def _only_others(root: Path) -> CheckpointError | None:
    """If there are weights in a form that is not read."""
    for path in sorted((*root.iterdir(), *root.glob("onnx/*"))):
        form = _OTHERS.get(path.suffix)
        if form is not None:
            return CheckpointError(
                f"{root} holds {path.relative_to(root)}, of {form}, which is not read. "
                "Take the folder that it was made from, with config.json and "
                "model.safetensors; the model's card names it."
                f"{_CONVERTED.get(path.suffix, '')}"
            )
    return None


def convert_command(root: Path) -> str:
    """The command that makes a folder that can be read."""
    folder = str(root)
    return f"ditto convert {shlex.quote(folder)} --out {shlex.quote(f'{folder}-safe')}"
