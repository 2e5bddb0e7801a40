"""Integers of any width as bytes, with no bit wasted.

A field of n integers of ``width`` bits takes n*width/8 bytes when width is a whole
number of bytes and ceil(n/8)*width bytes otherwise: n is padded to a multiple of
eight, nothing else. Widths between are cut into byte planes and planes of 4, 2 and 1
bits; a plane of w bits puts 8/w segments of the array side by side in each byte, so
packing is a few passes of contiguous vector operations and no bit loops. The C library
makes these passes, or numpy where there is none.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ditto.errors import MessageError
from ditto.fixedpoint import RINGS, Words
from ditto.native.packing import pack_bits, unpack_bits

Bytes = npt.NDArray[np.uint8]


def packed_size(count: int, width: int) -> int:
    """Bytes that ``count`` integers of ``width`` bits take."""
    if width % 8 == 0:
        return count * width // 8
    return -(-count // 8) * width


def pack(values: Words, width: int) -> Bytes:
    """The low ``width`` bits of each element, flat, as bytes."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if width in (8, 16, 32, 64):
        return flat.astype(RINGS[width - 1].dtype, copy=False).view(np.uint8)
    padded = -(-flat.size // 8) * 8 if width % 8 else flat.size
    out = np.empty(packed_size(flat.size, width), np.uint8)
    if not pack_bits(flat, padded, width, out):
        _pack(flat, padded, width, out)
    return out


def _pack(flat: Words, padded: int, width: int, out: Bytes) -> None:
    """As the library does it."""
    if padded != flat.size:
        flat = np.concatenate([flat, np.zeros(padded - flat.size, flat.dtype)])
    cursor = 0
    for shift, plane in _planes(width):
        segments = 8 // plane
        size = padded // segments
        bits = (flat >> flat.dtype.type(shift)).astype(np.uint8)
        if plane < 8:
            bits &= np.uint8((1 << plane) - 1)
        target = out[cursor : cursor + size]
        target[:] = bits[:size]
        for i in range(1, segments):
            target |= bits[i * size : (i + 1) * size] << np.uint8(i * plane)
        cursor += size


def unpack(data: Bytes, count: int, width: int) -> Words:
    """The inverse of ``pack``: ``count`` elements of the ring of ``width`` bits."""
    if data.size != packed_size(count, width):
        raise MessageError(
            f"A field of {count} integers of {width} bits takes "
            f"{packed_size(count, width)} bytes, got {data.size}."
        )
    if width == 0:
        return np.zeros(count, np.uint8)
    dtype = RINGS[width - 1].dtype
    if dtype.itemsize * 8 == width:
        return data.view(dtype)
    padded = -(-count // 8) * 8 if width % 8 else count
    out: Words = np.empty(count, dtype)
    if unpack_bits(np.ascontiguousarray(data), padded, width, out):
        return out
    return _unpack(data, padded, width, dtype)[:count]


def _unpack(
    data: Bytes, padded: int, width: int, dtype: np.dtype[np.unsignedinteger]
) -> Words:
    """As the library does it."""
    out: Words = np.zeros(padded, dtype)
    cursor = 0
    for shift, plane in _planes(width):
        segments = 8 // plane
        size = padded // segments
        packed = data[cursor : cursor + size]
        for i in range(segments):
            bits = packed if plane == 8 else packed >> np.uint8(i * plane)
            if plane < 8:
                bits = bits & np.uint8((1 << plane) - 1)
            out[i * size : (i + 1) * size] |= bits.astype(dtype) << dtype.type(shift)
        cursor += size
    return out


def _planes(width: int) -> Iterator[tuple[int, int]]:
    """(shift, bits) of the planes that ``width`` bits are cut into."""
    shift = 0
    for plane in (8, 4, 2, 1):
        while width - shift >= plane:
            yield shift, plane
            shift += plane
