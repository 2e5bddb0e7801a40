"""Flags of the range check and conjunctions of bits by the C library.

``there`` says whether there is one. If not, the blocks compute the same with numpy.
"""

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ditto.native.library import for_size, libraries

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.unsignedinteger]

_int, _pointer = ctypes.c_int64, ctypes.c_void_p


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls and for long ones."""
    found = libraries()
    for each in found or ():
        each.ditto_top_planes.argtypes = (_int, _pointer, _int, _int, _pointer)
        each.ditto_pick_planes.argtypes = (_pointer, _int, _pointer, _int, _pointer)
        each.ditto_fold.argtypes = (_pointer, _pointer, _int)
        each.ditto_terms.argtypes = (
            *(_int, _pointer, _int, _int, ctypes.c_int),
            *(_pointer, _pointer),
        )
        each.ditto_row_dots.argtypes = (
            *(_int, _pointer, _pointer, _int, _int),
            _pointer,
        )
        each.ditto_fold.restype = ctypes.c_uint64
        for name in ("top_planes", "pick_planes", "terms", "row_dots"):
            getattr(each, f"ditto_{name}").restype = None
    return found


def there() -> bool:
    """Whether the other functions can be called."""
    return _libraries() is not None


def top_planes(summand: Words, bits: int) -> Bytes:
    """Which elements' top two bits are 0, 1 and 2: three times as many bits."""
    x = np.ascontiguousarray(summand)
    out: Bytes = np.empty(3 * -(-x.size // 8), np.uint8)
    for_size(_libraries(), x.size).ditto_top_planes(
        x.itemsize, x.ctypes.data, x.size, bits, out.ctypes.data
    )
    return out


def pick_planes(summand: Words, bits: int, held: Bytes, *, invert: bool) -> Bytes:
    """Of a share of such planes the bit at 2 minus the top two bits, modulo 4; the
    fourth plane is the XOR of the three, or its complement."""
    tops = top_planes(summand, bits)
    out: Bytes = np.empty(len(tops) // 3, np.uint8)
    for_size(_libraries(), summand.size).ditto_pick_planes(
        tops.ctypes.data, summand.size, held.ctypes.data, invert, out.ctypes.data
    )
    return out


def fold(flags: Bytes, string: Bytes) -> int:
    """The word of flags, of which there is a multiple of eight bytes, and a random
    string eight bytes longer."""
    word: int = for_size(_libraries(), 8 * flags.size).ditto_fold(
        flags.ctypes.data, string.ctypes.data, flags.size
    )
    return word


def terms(bits: Words, *, is_p1: bool) -> tuple[Words, Words]:
    """For the empty set of each group of n bits, and for its 2^n - 1 others."""
    x = np.ascontiguousarray(bits)
    *outer, size = x.shape
    rest: Words = np.empty(outer, x.dtype)
    out: Words = np.empty((*outer, (1 << size) - 1), x.dtype)
    where = (rest.ctypes.data, out.ctypes.data)
    for_size(_libraries(), x.size).ditto_terms(
        x.itemsize, x.ctypes.data, rest.size, size, is_p1, *where
    )
    return rest, out


def row_dots(x: Words, y: Words) -> Words:
    """The dot products of the rows of two arrays of one type."""
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    rows, length = x.shape
    out: Words = np.empty(rows, x.dtype)
    for_size(_libraries(), x.size).ditto_row_dots(
        x.itemsize, x.ctypes.data, y.ctypes.data, rows, length, out.ctypes.data
    )
    return out
