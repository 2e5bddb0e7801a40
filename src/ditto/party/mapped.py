"""Tensors of a safetensors file where they lie on disk, mapped into memory.

Weights that are mapped cost memory only while they are used, and the pages are shared
by all that map the file. The header is parsed with limits: it comes from the owner.
"""

import json
import struct
from math import prod
from pathlib import Path

import numpy as np

from ditto.errors import PlanError
from ditto.fixedpoint import Array

_LENGTH = struct.Struct("<Q")
_MAX_HEADER = 64 << 20
_DTYPES = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64}
"""Of shares; nothing else is in a party's files."""


def map_tensors(path: Path) -> dict[str, Array]:
    """The tensors of a file, read-only; raises PlanError for any other file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            raise _damaged(path)
        (length,) = _LENGTH.unpack(prefix)
        if length > min(_MAX_HEADER, size - _LENGTH.size):
            raise _damaged(path)
        text = file.read(length)
    start = _LENGTH.size + length
    try:
        listed = json.loads(text)
        entries = {
            str(name): (
                np.dtype(_DTYPES[entry["dtype"]]),
                tuple(int(n) for n in entry["shape"]),
                tuple(int(n) for n in entry["data_offsets"]),
            )
            for name, entry in listed.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None
    if size == start:
        return {
            name: _view(path, np.empty(0, np.uint8), *e) for name, e in entries.items()
        }
    content = np.memmap(path, np.uint8, "r", offset=start)
    return {name: _view(path, content, *entry) for name, entry in entries.items()}


def _view(
    path: Path,
    content: Array,
    dtype: np.dtype[np.generic],
    shape: tuple[int, ...],
    offsets: tuple[int, ...],
) -> Array:
    begin, end = offsets if len(offsets) == 2 else (1, 0)
    fits = 0 <= begin <= end <= len(content) and min(shape, default=0) >= 0
    if not fits or end - begin != prod(shape) * dtype.itemsize:
        raise _damaged(path)
    data = np.asarray(content[begin:end])
    if begin % dtype.itemsize:
        data = data.copy()
    return data.view(dtype).reshape(shape)


def _damaged(path: Path) -> PlanError:
    return PlanError(f"{path} is not a file of shares: its header does not fit it.")
