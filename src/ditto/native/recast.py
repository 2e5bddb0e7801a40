"""What a recast computes of each element by the C library, if ``there`` is one."""

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ditto.native.library import for_size, libraries

Words = npt.NDArray[np.unsignedinteger]

_int, _pointer, _word = ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls and for long ones."""
    found = libraries()
    for each in found or ():
        each.ditto_shift.argtypes = (
            *(_int, _int, _pointer, _int, _int),
            *(_word, _word, _pointer),
        )
        each.ditto_top_clear.argtypes = (_int, _int, _pointer, _int, _int, _pointer)
        each.ditto_add_carry.argtypes = (
            *(_int, _int, _pointer, _pointer),
            *(_int, _int, _word, _pointer),
        )
        for name in ("shift", "top_clear", "add_carry"):
            getattr(each, f"ditto_{name}").restype = None
    return found


def there() -> bool:
    """Whether the other functions can be called."""
    return _libraries() is not None


def shifted(
    x: Words,
    cut: int,
    constant: int,
    kept: int,
    dtype: np.dtype[np.unsignedinteger],
) -> Words:
    """(x >> cut) + constant, of which the bits of ``kept`` are kept."""
    x = np.ascontiguousarray(x)
    out: Words = np.empty(x.shape, dtype)
    numbers = x.ctypes.data, x.size, cut, constant, kept, out.ctypes.data
    for_size(_libraries(), x.size).ditto_shift(x.itemsize, out.itemsize, *numbers)
    return out


def top_clear(x: Words, top: int, dtype: np.dtype[np.unsignedinteger]) -> Words:
    """1 where bit ``top`` is not set, else 0."""
    x = np.ascontiguousarray(x)
    out: Words = np.empty(x.shape, dtype)
    where = x.ctypes.data, x.size, top, out.ctypes.data
    for_size(_libraries(), x.size).ditto_top_clear(x.itemsize, out.itemsize, *where)
    return out


def with_carry(share: Words, carry: Words, up: int, kept: int) -> Words:
    """share + (carry << up), of which the bits of ``kept`` are kept."""
    share, carry = np.ascontiguousarray(share), np.ascontiguousarray(carry)
    out: Words = np.empty(share.shape, share.dtype)
    where = share.ctypes.data, carry.ctypes.data, share.size
    for_size(_libraries(), share.size).ditto_add_carry(
        carry.itemsize, out.itemsize, *where, up, kept, out.ctypes.data
    )
    return out
