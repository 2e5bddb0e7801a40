"""JSON files of a model's folder, read with a limit."""

import json
from pathlib import Path

from ditto.errors import CheckpointError
from ditto.files import Json, JsonValue, read_limited

MAX_JSON = 64 << 20


def read_bytes(path: Path) -> bytes:
    """The content of a file of text."""
    return read_limited(path, MAX_JSON, CheckpointError, f"{MAX_JSON} bytes")


def read_json(path: Path) -> JsonValue:
    """Whatever JSON a file holds."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON.") from None


def read_object(path: Path, missing: Json | None = None) -> Json:
    """The JSON object in a file; ``missing`` if there is no such file."""
    if missing is not None and not path.is_file():
        return missing
    loaded = read_json(path)
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path} does not hold a JSON object.")
    return loaded
