"""Integers of any width as bytes by the C library, where there is one.

A party packs many short messages, so what a call costs counts: short ones keep Python's
lock, long ones give it to other threads.
"""

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ditto.native.library import for_size, libraries

_int, _pointer = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS = (_int, _pointer, _int, _int, _int, _pointer)


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short messages and for long ones."""
    found = libraries()
    for each in found or ():
        for function in (each.ditto_pack_bits, each.ditto_unpack_bits):
            function.argtypes, function.restype = _ARGUMENTS, None
    return found


def pack_bits(
    flat: npt.NDArray[np.unsignedinteger],
    padded: int,
    width: int,
    out: npt.NDArray[np.uint8],
) -> bool:
    """Pack contiguous words into ``out``; False if there is no library."""
    found = _libraries()
    if found is None:
        return False
    for_size(found, flat.size).ditto_pack_bits(
        flat.itemsize, flat.ctypes.data, flat.size, padded, width, out.ctypes.data
    )
    return True


def unpack_bits(
    data: npt.NDArray[np.uint8],
    padded: int,
    width: int,
    out: npt.NDArray[np.unsignedinteger],
) -> bool:
    """Fill ``out`` with what contiguous bytes hold; False if there is no library."""
    found = _libraries()
    if found is None:
        return False
    for_size(found, out.size).ditto_unpack_bits(
        out.itemsize, data.ctypes.data, out.size, padded, width, out.ctypes.data
    )
    return True
