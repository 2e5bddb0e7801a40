"""JSON and arrays on a pipe between a process and the parties it started.

A frame is a length, a JSON header that lists the arrays that follow, and their bytes.
Sizes are checked against limits before anything is read into memory; array types come
from a fixed list. No pickle.
"""

import json
import struct
from collections.abc import Mapping
from math import prod
from typing import BinaryIO

import numpy as np

from ditto.errors import MessageError
from ditto.files import Json
from ditto.fixedpoint import Array

__all__ = ["Arrays", "Json", "read_frame", "write_frame"]

Arrays = dict[str, Array]

MAX_HEADER = 16 << 20
MAX_ARRAYS = 8 << 30
_LENGTH = struct.Struct("<Q")
_DTYPES = frozenset(
    {"bool", "int32", "int64", "float32", "float64"}
    | {f"uint{bits}" for bits in (8, 16, 32, 64)}
)


def write_frame(stream: BinaryIO, body: Json, arrays: Mapping[str, Array]) -> None:
    """Write one frame and flush it."""
    for name, array in arrays.items():
        if str(array.dtype) not in _DTYPES:
            raise MessageError(f"{name!r} is an array of {array.dtype}: not allowed.")
    listing = [
        {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    ]
    header = json.dumps({"body": body, "arrays": listing}).encode()
    stream.write(_LENGTH.pack(len(header)))
    stream.write(header)
    for array in arrays.values():
        stream.write(np.ascontiguousarray(array).data)
    stream.flush()


def read_frame(
    stream: BinaryIO, most_bytes: int = MAX_ARRAYS
) -> tuple[Json, Arrays] | None:
    """The next frame, or None at the end of the stream.

    Its arrays have ``most_bytes`` together.
    """
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(prefix)
    if size > MAX_HEADER:
        raise MessageError(f"A frame header of {size} bytes exceeds {MAX_HEADER}.")
    header = json.loads(_exactly(stream, size))
    arrays: Arrays = {}
    room = most_bytes
    for item in header["arrays"]:
        if item["dtype"] not in _DTYPES:
            raise MessageError(f"Arrays of {item['dtype']!r} are not allowed.")
        dtype, shape = np.dtype(item["dtype"]), tuple(item["shape"])
        if any(not isinstance(n, int) or n < 0 for n in shape):
            raise MessageError(f"{shape} is not a shape.")
        room -= prod(shape) * dtype.itemsize
        if room < 0:
            raise MessageError(f"The arrays of a frame exceed {most_bytes} bytes.")
        data = _exactly(stream, prod(shape) * dtype.itemsize)
        arrays[item["name"]] = np.frombuffer(data, dtype).reshape(shape)
    return header["body"], arrays


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise MessageError(f"A frame ended after {len(data)} of {size} bytes.")
    return data
