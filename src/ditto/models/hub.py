"""A folder by its path, or by its name on the Hugging Face hub."""

import re
from pathlib import Path

from ditto.errors import CheckpointError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILES = ("*.json", "*.txt", "*.safetensors")
_PICKLED = ("*.json", "*.txt", "pytorch_model*.bin", "*/pytorch_model.bin")


def find_folder(folder: str | Path, *, pickled: bool = False) -> Path:
    """The folder at a path, or a copy of the hub's under this name.

    Copies are kept in Hugging Face's own cache. With ``pickled`` it is torch's files
    that are fetched, to be converted.
    """
    path = Path(folder)
    name = path.as_posix()
    if path.exists() or not _NAME.fullmatch(name):
        return path
    neither = f"{name} is not a folder here, and as a model's name on the Hugging Face"
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"{neither} hub it needs huggingface_hub: pip install huggingface_hub."
        ) from None
    patterns = list(_PICKLED if pickled else _FILES)
    try:
        found = Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # of the hub, of the network, of the disk
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"{neither} hub it could not be fetched: {reason[0].rstrip('.')}. Download "
            f"it where there is a network (hf download {name}), or name a folder."
        ) from None
    if not pickled and not any(found.glob("*.safetensors")):
        raise CheckpointError(
            f"{name} has no safetensors on the hub. If it has torch's files, convert "
            f"them:\nditto convert {name} --out {path.name}-safe"
        )
    return found
