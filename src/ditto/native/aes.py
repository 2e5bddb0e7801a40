"""AES by the C library: masks, and the trees of point functions.

``schedule`` says whether there is such a library and the processor computes AES; what
it gives is for the other functions. Without it ``sharing`` calls ``cryptography``, and
computes the same bits.
"""

import ctypes
import logging
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ditto.native.library import cpu_flags, libraries

Blocks = npt.NDArray[np.uint64]

_LONG = 1 << 16
"""Bytes of masks, from which on other threads may run meanwhile."""
_ROUND_KEYS = 176
_KNOWN_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
_KNOWN_NAME = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9")
_KNOWN_STREAM = bytes.fromhex("4857f63cbfcd2852574d4afe9000a4a9")
_int, _pointer, _bytes = ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
_log = logging.getLogger("ditto")


class _Tree(ctypes.Structure):
    """``Tree`` of the library: the same fields in the same order."""

    _fields_ = (
        ("leaves", _int),
        ("levels", _int),
        ("bits", _int),
        ("side", _int),
        ("left", _pointer),
        ("right", _pointer),
        ("leaf", _pointer),
        ("second", _pointer),
        ("third", _pointer),
    )


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls and for long ones."""
    found = libraries()
    if found is None or not cpu_flags() >= {"aes", "avx2"}:
        return None
    for each in found:
        each.ditto_aes_schedule.argtypes = (_bytes, _pointer)
        each.ditto_aes_stream.argtypes = (
            *(_pointer, _bytes, ctypes.c_uint64),
            *(_int, _pointer),
        )
        keys = (
            ctypes.POINTER(_Tree),
            _int,
            _int,
            _pointer,
            _pointer,
            _pointer,
            _pointer,
        )
        each.ditto_points_expand.argtypes = (*keys, _pointer)
        each.ditto_points_windows.argtypes = (
            *(*keys, _int, _pointer, _int, _int),
            *(_pointer, _pointer, _pointer),
        )
        for function in (each.ditto_aes_schedule, each.ditto_aes_stream):
            function.restype = None
    if _is_right(found[0]):
        return found
    _log.warning("The C library computes AES wrongly on this machine; it is not used.")
    return None


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether one block of a stream is what it is elsewhere."""
    keys, block = np.empty(_ROUND_KEYS, np.uint8), np.empty(16, np.uint8)
    library.ditto_aes_schedule(_KNOWN_KEY, keys.ctypes.data)
    every = (1 << 64) - 1
    library.ditto_aes_stream(
        keys.ctypes.data, _KNOWN_NAME, every, block.size, block.ctypes.data
    )
    return block.tobytes() == _KNOWN_STREAM


class Schedule:
    """The round keys of one key."""

    def __init__(self, key: bytes, libraries: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
        self.keys = np.empty(_ROUND_KEYS, np.uint8)
        self.address: int = self.keys.ctypes.data
        self._short, self._long = (each.ditto_aes_stream for each in libraries)
        libraries[0].ditto_aes_schedule(key, self.address)

    def stream(self, name: bytes, kept: int, out: npt.NDArray[np.generic]) -> None:
        """Fill ``out`` with the stream at a name of 10 bytes, each 8 bytes of it AND
        ``kept``."""
        size = out.nbytes
        function = self._short if size < _LONG else self._long
        function(self.address, name, kept, size, out.ctypes.data)


def schedule(key: bytes) -> Schedule | None:
    """Of a key of 16 bytes; None if nothing here can use it."""
    found = _libraries()
    return None if found is None else Schedule(key, found)


class Points:
    """Keys of point functions, ready to be expanded by one side."""

    def __init__(
        self,
        schedules: tuple[Schedule, ...],
        roots: Blocks,
        corrections: tuple[Blocks, Blocks, Blocks],
        *,
        leaves: int,
        bits: int,
        side: int,
    ) -> None:
        """Of N points: roots (N, 2); seeds (N, levels, 2), rights (N, levels) and last
        ones (N, 2), or (N, 6) of payloads, which have five schedules."""
        arrays = (roots, *corrections)
        self._arrays = [np.ascontiguousarray(array, np.uint64) for array in arrays]
        self._schedules = schedules  # in memory for as long as this is
        addresses = [each.address for each in schedules]
        levels = corrections[1].shape[1]
        self._tree = _Tree(leaves, levels, bits, side, *addresses)

    def expand(self, depth: int, out: npt.NDArray[np.unsignedinteger]) -> None:
        """All vectors, into (N, depth) elements."""
        self._call("ditto_points_expand", depth, out.ctypes.data)

    def products(
        self,
        table: npt.NDArray[np.uint64],
        words: tuple[int, ...],
        turns: npt.NDArray[np.uint32],
        depth: int,
        out: npt.NDArray[np.uint64],
    ) -> None:
        """Every vector of ``depth`` payloads times a table (K, columns), row k by word
        ``words[k]`` and read from ``turns``, one for each point: (N, K)."""
        rows, columns = table.shape
        if columns > depth or (turns.size and turns.max() >= depth):
            raise ValueError("A table is turned by less than its depth, and no wider.")
        # what is expanded beside the columns is multiplied by zeros
        padded = np.pad(table, ((0, 0), (1, 2)))
        wide = cpu_flags() >= {"avx512f", "avx512dq", "avx512vl"}
        chosen = np.array(words, np.int64)
        at = (chosen.ctypes.data, turns.ctypes.data, out.ctypes.data)
        name = "ditto_points_windows"
        self._call(name, depth, wide, padded.ctypes.data, rows, columns, *at)

    def _call(self, name: str, depth: int, *arguments: int) -> None:
        found = _libraries()
        count = len(self._arrays[0])
        keys = [array.ctypes.data for array in self._arrays]
        if found is None or getattr(found[1], name)(
            ctypes.byref(self._tree), count, depth, *keys, *arguments
        ):
            raise MemoryError("There was no memory for a tree of points.")
