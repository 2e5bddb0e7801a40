"""JSON and arrays as bytes: on a pipe to a local party, and in calls over a network.

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
_DIMENSIONS = 16
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
    stream: BinaryIO, most_bytes: int = MAX_ARRAYS, most_header: int = MAX_HEADER
) -> tuple[Json, Arrays] | None:
    """The next frame, or None at the end of the stream.

    Its arrays have ``most_bytes`` together. Raises MessageError for anything else.
    """
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(prefix)
    if size > most_header:
        raise MessageError(f"A frame header of {size} bytes exceeds {most_header}.")
    body, listing = _parse_header(_exactly(stream, size))
    arrays: Arrays = {}
    room = most_bytes
    for name, dtype, shape in listing:
        room -= prod(shape) * dtype.itemsize
        if room < 0:
            raise MessageError(f"The arrays of a frame exceed {most_bytes} bytes.")
        data = _exactly(stream, prod(shape) * dtype.itemsize)
        arrays[name] = np.frombuffer(data, dtype).reshape(shape)
    return body, arrays


_Listed = tuple[str, np.dtype[np.generic], tuple[int, ...]]


def _parse_header(text: bytes) -> tuple[Json, list[_Listed]]:
    """The body of a frame, and the name, type and shape of each array after it."""
    try:
        match json.loads(text):
            case {"body": dict() as body, "arrays": list() as listed}:
                return body, [_listed(item) for item in listed]
    except (ValueError, RecursionError):
        pass
    raise MessageError("The header of a frame is not a body and a list of arrays.")


def _listed(item: object) -> _Listed:
    match item:
        case {"name": str() as name, "dtype": str() as dtype, "shape": list() as shape}:
            pass
        case _:
            raise MessageError("An array of a frame has a name, a dtype and a shape.")
    if dtype not in _DTYPES:
        raise MessageError(f"Arrays of {dtype!r:.40} are not allowed.")
    if len(shape) > _DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise MessageError(f"{shape!r:.80} is not a shape.")
    return name, np.dtype(dtype), tuple(shape)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise MessageError(f"A frame ended after {len(data)} of {size} bytes.")
    return data
