"""The library of C kernels: found, tried, and the best level that is right here.

Without the library, or on a machine without AVX2, the level is XLA: then whoever calls
computes by XLA. ``DITTO_KERNEL=xla``, ``avx2``, ``vnni`` or ``amx`` sets the highest
level that is tried.
"""

import ctypes
import logging
import os
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ditto.errors import SetupError

LIBRARY = Path(__file__).with_name("libditto.so")
VARIABLE = "DITTO_KERNEL"

_AVX512 = {"avx512f", "avx512bw", "avx512vl"}
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
LONG = 1 << 14
"""Elements, from which on other threads may run meanwhile."""
_NEWEST = "ditto_points_windows"
_log = logging.getLogger("ditto")

Words = npt.NDArray[np.uint32]


class Level(IntEnum):
    """What multiplies; each is faster than those before it."""

    XLA = 0
    AVX2 = 1
    VNNI = 2
    AMX = 3


_int, _pointer = ctypes.c_int64, ctypes.c_void_p


class Product(ctypes.Structure):
    """What ``ditto_multiply`` takes: the same fields in the same order."""

    _fields_ = (
        ("level", _int),
        ("terms", _int),
        ("batch", _int),
        ("rows", _int),
        ("depth", _int),
        ("columns", _int),
        ("x", _pointer * 2),
        ("x_batch", _int),
        ("x_row", _int),
        ("w", _pointer * 2),
        ("w_is_packed", _int),
        ("w_batch", _int),
        ("w_row", _int),
        ("w_column", _int),
        ("z", _pointer),
        ("z_batch", _int),
        ("z_row", _int),
        ("threads", _int),
    )


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The library; None if this installation was built without a C compiler."""
    if not LIBRARY.exists():
        return None
    try:
        return load(LIBRARY)
    except OSError as error:
        _log.warning("The C kernels cannot be loaded, XLA serves: %s", error)
        return None


def load(path: Path) -> ctypes.CDLL:
    """A library with the types of its functions."""
    loaded = ctypes.CDLL(str(path))
    loaded.ditto_packed_bytes.argtypes = [_int] * 3
    loaded.ditto_packed_bytes.restype = _int
    loaded.ditto_pack.argtypes = [_int, _pointer, *[_int] * 4, _pointer]
    loaded.ditto_pack.restype = None
    loaded.ditto_multiply.argtypes = [ctypes.POINTER(Product)]
    loaded.ditto_multiply.restype = ctypes.c_int
    return loaded


@lru_cache(maxsize=1)
def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls, which keep Python's lock, and for long ones, which give it to
    other threads; None if there is none, or one that was built before this version."""
    if library() is None:
        return None
    found = ctypes.PyDLL(str(LIBRARY)), ctypes.CDLL(str(LIBRARY))
    return found if hasattr(found[0], _NEWEST) else None


def for_size(
    pair: tuple[ctypes.CDLL, ctypes.CDLL] | None, elements: int
) -> ctypes.CDLL:
    """That of ``libraries`` for so many, by whoever has seen that they are there."""
    if pair is None:
        raise RuntimeError("The C library was called and is not there.")
    return pair[elements >= LONG]


def kernels() -> ctypes.CDLL:
    """The library, by whoever has seen that it is there."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("The C kernels were called and are not there.")
    return loaded


def carry_out(product: Product) -> None:
    """Multiply."""
    if kernels().ditto_multiply(product):
        raise MemoryError("There was no memory for a product of matrices.")


@lru_cache(maxsize=1)
def level() -> Level:
    """The highest level that this machine has and that multiplies rightly on it."""
    wanted = _wanted()
    if library() is None:
        return Level.XLA
    for each in reversed(levels()):
        if each <= wanted:
            if _is_right(each):
                return each
            _log.warning("%s multiplies wrongly on this machine.", each.name)
    return Level.XLA


def levels() -> list[Level]:
    """All that this machine's processor has and the system allows, slowest first."""
    flags = cpu_flags()
    found = [Level.AVX2] if "avx2" in flags else []
    if found and flags >= _AVX512 | {"avx512_vnni"}:
        found.append(Level.VNNI)
    if found and flags >= _AVX512 | {"amx_tile", "amx_int8"} and _amx_allowed():
        found.append(Level.AMX)
    return found


def _wanted() -> Level:
    name = os.environ.get(VARIABLE, Level.AMX.name).upper()
    if name not in Level.__members__:
        known = ", ".join(each.lower() for each in Level.__members__)
        raise SetupError(f"{VARIABLE} is {name.lower()!r}; it can be {known}.")
    return Level[name]


@lru_cache(maxsize=1)
def cpu_flags() -> set[str]:
    """What Linux says that the processor has."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return set()
    for line in info.read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


def _amx_allowed() -> bool:
    """Linux wants to be asked once in each process; its tiles are large."""
    asked: int = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return asked == 0


def _is_right(tried: Level) -> bool:
    """Whether a product of numbers at all edges is what numpy says it is."""
    edges = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80008000, 0xFFFFFFFF]
    x = np.resize(np.array(edges, np.uint32), (19, 67))
    w = np.resize(np.array([*edges[::-1], 0x12345678], np.uint32), (67, 18))
    z = np.empty((19, 18), np.uint32)
    product = Product(
        level=tried, terms=1, batch=1, rows=19, depth=67, columns=18,
        x_batch=0, x_row=67, w_batch=0, w_row=18, w_column=1,
        z=z.ctypes.data, z_batch=0, z_row=18, threads=1,
    )  # fmt: skip
    product.x[:] = [x.ctypes.data] * 2
    product.w[:] = [w.ctypes.data] * 2
    carry_out(product)
    return bool(np.array_equal(z, x @ w))
