"""Sums of a table's entries by the C library, if ``there`` is one."""

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ditto.native.library import for_size, libraries

Words = npt.NDArray[np.unsignedinteger]

_int, _pointer = ctypes.c_int64, ctypes.c_void_p


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls and for long ones."""
    found = libraries()
    for each in found or ():
        arguments = _pointer, _int, _int, _pointer, _pointer
        each.ditto_summed_entries.argtypes = arguments
        each.ditto_summed_entries.restype = None
    return found


def there() -> bool:
    """Whether the other function can be called."""
    return _libraries() is not None


def summed(octets: npt.NDArray[np.uint8], sums: Words) -> Words:
    """Of words (N, bytes) and the sums of every byte's values, (bytes, 256, 4): the
    sums of all bytes, (4, N)."""
    count, size = octets.shape
    out: Words = np.empty((4, count), np.uint32)
    where = octets.ctypes.data, count, size, sums.ctypes.data, out.ctypes.data
    for_size(_libraries(), count).ditto_summed_entries(*where)
    return out
