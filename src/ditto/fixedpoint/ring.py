"""Integers modulo 2^bits, held in the smallest unsigned machine word."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError

Array = npt.NDArray[Any]
"""Of elements of any type."""
Words = npt.NDArray[np.unsignedinteger]
"""Of elements of a ring."""

MAX_BITS = 64

_DTYPES = [
    np.dtype(f"uint{next(word for word in (8, 16, 32, 64) if word >= bits)}")
    for bits in range(MAX_BITS + 1)
]

_LARGEST = [dtype.type((1 << bits) - 1) for bits, dtype in enumerate(_DTYPES)]


@dataclass(frozen=True)
class Ring:
    """Z_2^bits for 1 <= bits <= 64.

    An array of the ring is an unsigned array whose elements are below 2^bits. Machine
    arithmetic keeps that by itself when bits is 8, 16, 32 or 64; for the rings between,
    ``reduce`` restores it.
    """

    bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise FixedPointTypeError(
                f"A ring has 1 to {MAX_BITS} bits, got bits={self.bits}."
            )

    @cached_property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type with room for an element."""
        return _DTYPES[self.bits]

    @cached_property
    def fills_word(self) -> bool:
        """Whether machine arithmetic is arithmetic of this ring."""
        return self.bits in (8, 16, 32, 64)

    @cached_property
    def pattern(self) -> int:
        """The bits of 64 that elements have, side by side in their words."""
        width = 8 * self.dtype.itemsize
        return sum(((1 << self.bits) - 1) << at for at in range(0, MAX_BITS, width))

    def reduce(self, values: Array) -> Words:
        """Integers of any machine type, modulo 2^bits."""
        words: Words = values.astype(self.dtype, copy=False)
        return words if self.fills_word else words & _LARGEST[self.bits]

    def scalar(self, value: int) -> np.unsignedinteger:
        """One element from a Python integer of any size or sign."""
        word: np.unsignedinteger = self.dtype.type(value % (1 << self.bits))
        return word

    def signed(self, values: Words) -> npt.NDArray[np.int64]:
        """Elements as the integers in [-2^(bits-1), 2^(bits-1))."""
        unused = np.int64(MAX_BITS - self.bits)
        wide = values.astype(np.uint64).view(np.int64)
        result: npt.NDArray[np.int64] = (wide << unused) >> unused
        return result


RINGS = [Ring(bits) for bits in range(1, MAX_BITS + 1)]
"""Of 1 bit and more: to look one up is quicker than to make it."""
