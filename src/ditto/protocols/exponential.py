"""exponential: e^x of many values, as a softmax wants it.

A sum of two numbers is a product of two exponentials, and each number is known to
somebody: P1 takes the exponential of its summand, P0 and P2 of theirs. What a sum
modulo a power of two makes of that is put right by a table of a few cells.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them, of which the last n = 4 that x may lie in are live: below
them e^x counts as 0. The result has type (l', f'). It is computed over Z_2^w, where e^x
with frac g + h just fits: what P0 and P2 bring has frac g, what P1 brings frac h.

Steps
    Those of ``grid_function``, without the last d of the bits that ``convert`` cuts.
    With its cell c, x is base + (c - 1) 2^t + u + v, of what is left of both summands:
    0 <= u < 2^t at P1 and 0 <= v < 2^t at P0 and P2. Nothing is lost: u + v may reach
    into the next cell. e^x is T[c] e^u, with T[c] the exponential of the start of cell
    c and of v for a live cell, and 0 for the others: a table that P0 and P2 know, and a
    factor that P1 knows.

Cost
    per element V bits, and 16 for each far word if it is checked; 5w - 2d,
    d = g + h - f' - 2, and ``convert`` from w bits, k = g + h - f' + l' - w.
    2 rounds and those of ``convert``.

Security (semi-honest, one corrupted party)
    All messages are those of blocks, each with masks of its own; what P0 and P2 know of
    the result is a mask. The exponentials are taken of what a party holds, and their
    tables are public; nothing depends on whether x is in its range: beyond it the
    result is wrong, but not revealing. If it is checked that is noted, but for up to
    two cells above the range: there x never is, behind a maximum.

Source
    docs/explanation/protocols.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import Grid, Sums, selected_bits
from ditto.protocols.grid_function import MOST_BITS, GridFunction, Integers, bits_of
from ditto.protocols.recast import Conversion

LIVE = 4
"""Cells in which e^x is not 0."""
_MOST_CUT = 16
"""Both sides look exponentials up in tables of 2^t entries."""


@dataclass(frozen=True)
class Exponential(GridFunction):
    """e^x for integers x on a grid, with results in ``target``."""

    grid: Grid
    target: FxpType
    table_frac: int
    """g: of what P0 and P2 bring, a table with a row for each live cell."""
    factor_frac: int
    """h: of what P1 brings."""
    far_words: int = 1
    factors: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check_types("exponential")
        if self.grid.cut > _MOST_CUT:
            raise FixedPointTypeError(
                f"A cell of an exponential has at most 2^{_MOST_CUT} values, got "
                f"2^{self.grid.cut}."
            )
        if min(self.table_frac, self.factor_frac) < 0 or self._bits > MOST_BITS:
            raise FixedPointTypeError(
                f"An exponential up to {self._largest:.3g} with fracs "
                f"{self.table_frac} and {self.factor_frac} takes {self._bits} bits; "
                f"there are {MOST_BITS}."
            )
        Conversion(self.product, self.target)

    def of_p1(self, rest: Words) -> Integers:
        """e^u."""
        found: Integers = _factors(self)[rest][None]
        return found

    def sums(self, words: Words, rest: Words) -> Sums:
        """Of the table that is zero, and of that of the exponentials."""
        starts = _starts(self)[:, rest]
        bits = selected_bits(words, [1 << level for level in self.live])
        total: Words = np.zeros_like(starts[0])
        one = bits.dtype.type(1)
        for k, start in enumerate(starts):
            total += (bits >> bits.dtype.type(k) & one).astype(total.dtype) * start
        ones = np.bitwise_count(words).sum(axis=1, dtype=np.uint32)
        return Sums([np.zeros_like(total), total], ones)

    @property
    def _largest(self) -> float:
        """A bound of the results, rounded as they are."""
        exact = math.exp(self.grid.high * self.grid.type.ulp)
        return exact + self.rounding

    @property
    def _bits(self) -> int:
        frac = self.table_frac + self.factor_frac
        return bits_of(math.ldexp(self._largest, frac), frac - self.target.frac)

    @property
    def product(self) -> FxpType:
        """The type of e^x before ``convert``: the smallest ring that holds it."""
        return FxpType(self._bits, self.table_frac + self.factor_frac)

    @property
    def live(self) -> range:
        """The levels in which e^x is not 0."""
        last = self.grid.legal.stop
        return range(last - LIVE, last)

    @property
    def ends(self) -> tuple[float, float]:
        """From here on e^x is computed; below this it is 0; between it may be either.

        As real numbers.
        """
        grid = self.grid
        start = grid.base + (self.live.start << grid.cut)
        return start * grid.type.ulp, (start - (1 << grid.cut)) * grid.type.ulp

    @property
    def rounding(self) -> float:
        """How far tables of rounded numbers may be off, without ``convert``."""
        grid = self.grid
        widest = math.exp(math.ldexp(grid.type.ulp, grid.cut))
        of_table = math.ldexp(widest, -self.table_frac - 1)
        largest = math.exp(grid.high * grid.type.ulp)
        of_factor = math.ldexp(largest, -self.factor_frac - 1)
        return of_table * (1 + 2.0**-self.factor_frac) + of_factor

    @property
    def error(self) -> float:
        """How far a result may be off, in units of its last place."""
        before = (self.rounding + math.exp(self.ends[0])) / self.target.ulp
        return before + 1 + self.conversion.blur


@lru_cache(maxsize=64)
def _starts(function: Exponential) -> Words:
    """Of a live cell's start and of what is left at P0 and P2: (4, 2^t)."""
    grid, ring = function.grid, function.product.ring
    start = [grid.base + (c - 1 << grid.cut) for c in function.live]
    x = (np.array(start)[:, None] + np.arange(1 << grid.cut)) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.table_frac)).astype("u8"))


@lru_cache(maxsize=64)
def _factors(function: Exponential) -> Words:
    """The exponential of what is left at P1: 2^t."""
    grid, ring = function.grid, function.product.ring
    x = np.arange(1 << grid.cut) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.factor_frac)).astype("u8"))
