"""Sums over rows in a Galois ring of words of 32 bits by the C library, if ``there``.

Elements are (..., d) words, d up to 64. The weight of a row is a coin, d bits, highest
first, in ``coin_bytes(d)`` bytes with zeros after them, times a power of two.
"""

import ctypes
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.native.library import for_size, libraries

Words = npt.NDArray[np.unsignedinteger]
Bytes = npt.NDArray[np.uint8]
Weights = tuple[Bytes, Bytes]
"""Coins (rows, bytes), and the powers of two they are multiplied by (rows,)."""

_LANES, _MOST_LANES = 16, 64
_int, _pointer = ctypes.c_int64, ctypes.c_void_p
_ARGUMENTS = {
    "sums": "pippiip",
    "combined": "piipiip",
    "pairs": "ppiiippiip",
    "picked": "ppiiippiip",
    "looked_up": "piipiiip",
    "times": "ppppiiipip",
}


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """For short calls and for long ones."""
    found = libraries()
    for each in found or ():
        for name, kinds in _ARGUMENTS.items():
            function = getattr(each, f"ditto_ring_{name}")
            function.argtypes = [_int if k == "i" else _pointer for k in kinds]
            function.restype = None
    return found


def there(bits: int, degree: int) -> bool:
    """Whether the other functions can be called for this ring."""
    return bits == 32 and degree <= _MOST_LANES and _libraries() is not None


def coin_bytes(degree: int) -> int:
    """Of a coin, with zeros behind it."""
    return 2 * _vectors(degree)


def sums(words: Words, weights: Weights, degree: int) -> Words:
    """(A, d): of each column of words (rows, A) the sum, times the weights of rows."""
    words, count = np.ascontiguousarray(words, np.uint32), words.shape[1]
    out = _zeros(degree, count)
    _call("sums", words, count, *_with(words, weights, degree), out)
    return out[..., :degree]


def combined(words: Words, coins: Bytes, degree: int) -> Words:
    """(R, d): of each row of words (R, C) the sum, times the coins of columns."""
    if words.strides[1] != words.itemsize or words.dtype != np.uint32:
        words = np.ascontiguousarray(words, np.uint32)
    (coins, _), (rows, columns) = (
        _checked((coins, np.zeros(len(coins), np.uint8)), words.shape[1], degree),
        words.shape,
    )
    out, stride = _zeros(degree, rows), words.strides[0] // words.itemsize
    _call("combined", words, stride, rows, coins, columns, _vectors(degree), out)
    return out[..., :degree]


def pairs(
    u: Bytes, v: Bytes, values: tuple[int, int], weights: Weights, degree: int
) -> Words:
    """(n, n, values of u, values of v, d): of rows of n cells of u and n of v the sum
    of the weights of those that have these values at these two places."""
    u, v, n = np.ascontiguousarray(u), np.ascontiguousarray(v), u.shape[1]
    if u.shape != v.shape:
        raise ValueError("Both have as many cells in as many rows.")
    _demand(u, values[0])
    _demand(v, values[1])
    out = _zeros(degree, n, n, *values)
    _call("pairs", u, v, n, *values, *_with(u, weights, degree), out)
    return out[..., :degree]


def picked(
    words: Words, cells: Bytes, values: int, weights: Weights, degree: int
) -> Words:
    """(n, m, values, 2, d): of words (rows, n, 2) the sums, times their weights, over
    the rows that have this value at this one of m cells."""
    words, cells = np.ascontiguousarray(words, np.uint32), np.ascontiguousarray(cells)
    n, m = words.shape[1], cells.shape[1]
    if words.shape[2] != 2 or len(words) != len(cells):
        raise ValueError("Two words of each row are picked at a time.")
    _demand(cells, values)
    out = _zeros(degree, n, m, values, 2)
    _call("picked", words, cells, n, m, values, *_with(cells, weights, degree), out)
    return out[..., :degree]


def looked_up(table: Words, cells: Bytes) -> Words:
    """(rows, d): the sum over k of table[k, cells[row, k]]."""
    n, values, degree = table.shape
    if cells.shape[1:] != (n,):
        raise ValueError(f"There are {n} tables, and cells {cells.shape}.")
    _demand(cells, values)
    padded, cells = _zeros(degree, n, values), np.ascontiguousarray(cells)
    padded[..., :degree] = table
    out: Words = np.empty((len(cells), degree), np.uint32)
    vectors, rows = _vectors(degree), len(cells)
    _call("looked_up", padded, n, values, cells, rows, vectors, degree, out)
    return out


def times(x: Words, y: Words, modulus: tuple[int, ...]) -> Words:
    """x * y for (rows, d), modulo a polynomial with these exponents."""
    return _times(x, np.ascontiguousarray(y, np.uint32), None, modulus)


def weighted(x: Words, weights: Weights, modulus: tuple[int, ...]) -> Words:
    """Elements (rows, d) times the weights of their rows."""
    return _times(x, None, weights, modulus)


def _times(
    x: Words, y: Words | None, weights: Weights | None, modulus: tuple[int, ...]
) -> Words:
    x, degree = np.ascontiguousarray(x, np.uint32), modulus[-1]
    if x.shape[1:] != (degree,) or (y is not None and y.shape != x.shape):
        raise ValueError(f"Elements have {degree} words, and as many rows.")
    lower = np.array(modulus[:-1], np.int64)
    out: Words = np.empty(x.shape, np.uint32)
    coins, shifts = (None, None)
    if weights is not None:
        coins, shifts = _checked(weights, len(x), degree)
    where = len(x), _vectors(degree), degree, lower, len(lower), out
    _call("times", x, y, coins, shifts, *where)
    return out


def _with(rows: Words, weights: Weights, degree: int) -> tuple[object, ...]:
    """The weights of rows as arguments."""
    return *_checked(weights, len(rows), degree), len(rows), _vectors(degree)


def _checked(weights: Weights, rows: int, degree: int) -> Weights:
    coins, shifts = (np.ascontiguousarray(each) for each in weights)
    if coins.shape != (rows, coin_bytes(degree)) or shifts.shape != (rows,):
        raise ValueError(f"{rows} rows have as many coins of {degree} bits.")
    return coins, shifts


def _call(name: str, *arguments: object) -> None:
    rows = max(a.size for a in arguments if isinstance(a, np.ndarray))
    found = getattr(for_size(_libraries(), rows), f"ditto_ring_{name}")
    found(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments))


def _demand(cells: Bytes, values: int) -> None:
    """No cell may lead out of a table."""
    if cells.size and int(cells.max()) >= values:
        raise ValueError(f"A cell is {int(cells.max())}, there are {values} values.")


def _zeros(degree: int, *shape: int) -> Words:
    """Where vectors begin where the machine's do: across two lines they are slow."""
    made = *shape, _LANES * _vectors(degree)
    room = np.zeros(prod(made) + _LANES, np.uint32)
    start = -room.ctypes.data // room.itemsize % _LANES
    return room[start : start + prod(made)].reshape(made)


def _vectors(degree: int) -> int:
    return -(-degree // _LANES)
