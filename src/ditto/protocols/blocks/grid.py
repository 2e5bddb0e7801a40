"""A grid of levels that values lie on, and how those beyond it are seen.

Notation: x has type (l, f) and low <= x < high as integers; t bits are cut off; the
grid has V = 2^b levels. Levels that the range does not need lie below and above it
alike, so the grid starts at base <= low.

Steps
    level: a = x0 - base + 2^t at P0 and P2, s = x1 + x2 at P1. The level of an element
    is c = (a >> t) + (s >> t) mod V: the floor of (x - base) / 2^t + 1, or one less.
    far: levels that no x in the range has tell that x is out of it, but further out
    levels count around. So P1 also splits a word of 16 bits that says where s lies
    among as many cells, each an eighth of the grid (``one_hot``): P0 and P2 hold shares
    of whether the cell is one that the grid does not meet. Another word, with cells
    four times as wide, sees what lies further out still.

Cost
    level: 0; far: 16 bits per element and word, one round.

Security
    That of ``one_hot``.

Source
    docs/explanation/protocols.md.
"""

from dataclasses import dataclass

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.lockstep import together
from ditto.protocols.blocks.one_hot import selected_bits, shared_one_hot, word_ring
from ditto.protocols.blocks.two_party import P1, cell_index, two_party_summand
from ditto.protocols.party import Exchange, Pair, Role, Steps

MOST_LEVELS = 1 << 10
FAR_CELLS, CELLS_OF_GRID = 16, 8
"""Cells by which values far beyond a grid are seen, and how many make up the grid."""
FAR_REACH = (0.0, 0.75, 6.0, 28.0)
"""How far beside a grid, in its widths, so many words see for certain, but for what
lies next to it: there levels that nothing in the range has tell."""
MOST_FAR_WORDS = len(FAR_REACH) - 1


@dataclass(frozen=True)
class Grid:
    """Where values lie, and how coarsely they are told apart: integers of ``type``."""

    type: FxpType
    low: int
    high: int
    cut: int

    def __post_init__(self) -> None:
        limit, span = self.type.limit, self.high - self.low
        if not (-limit <= self.low < self.high <= limit and 0 <= self.cut < 30):
            raise FixedPointTypeError(
                f"Values of {self.type} cannot lie between {self.low} and {self.high}, "
                f"or not be compared without their last {self.cut} bits."
            )
        if self.levels << self.cut > 1 << self.type.bits:
            raise FixedPointTypeError(
                f"{self.levels} levels of {1 << self.cut} are more than {self.type} "
                f"has values."
            )
        if self.levels > MOST_LEVELS:
            raise FixedPointTypeError(
                f"A range of {span} in steps of {1 << self.cut} has more than "
                f"{MOST_LEVELS} levels. Cut more bits."
            )

    @property
    def _needed(self) -> int:
        """Levels that values in the range have."""
        return ((self.high - self.low - 1) >> self.cut) + 2

    @property
    def levels(self) -> int:
        """V: a power of two, so that levels count around."""
        return max(8, 1 << (self._needed - 1).bit_length())

    @property
    def legal(self) -> range:
        """The levels that values in the range have."""
        first = (self.levels - self._needed) // 2
        return range(first, first + self._needed)

    @property
    def outside(self) -> int:
        """The other levels, as bits of a word."""
        inside = (1 << len(self.legal)) - 1 << self.legal.start
        return ((1 << self.levels) - 1) ^ inside

    @property
    def base(self) -> int:
        """Where the grid starts: values from here on have level 1, or 0."""
        return self.low - (self.legal.start << self.cut)

    @property
    def far_cut(self) -> int | None:
        """log2 of a far cell's width; None if the ring has no room beyond the grid."""
        width = self.cut + (self.levels // CELLS_OF_GRID - 1).bit_length()
        return width if 1 << self.type.bits - width >= FAR_CELLS else None

    def far_cells(self, words: int) -> list[tuple[int, int]]:
        """For every word log2 of a far cell's width, and how many cells x on the grid
        may be found in: the first ones."""
        if self.far_cut is None:
            return []
        widest = self.type.bits - (FAR_CELLS - 1).bit_length()
        cuts = [min(self.far_cut + 2 * k, widest) for k in range(words)]
        span = self.levels << self.cut
        return [(cut, 1 - (-span >> cut)) for cut in cuts]

    @property
    def words_of_ring(self) -> int:
        """As many far words as see all of the ring, or one if that is too many: then a
        recast before has to see what is far out."""
        beyond = (1 << self.type.bits - 1) - min(self.high, -self.low)
        widths = beyond / (self.levels << self.cut)
        enough = (k for k, reach in enumerate(FAR_REACH) if k and widths <= reach)
        return next(enough, 1)

    @property
    def word(self) -> Ring:
        """What a row of bits, one for each level, is held in; wide ones in several."""
        return word_ring(self.levels)

    @property
    def words(self) -> int:
        """How many."""
        return self.levels // self.word.bits

    @property
    def group(self) -> Group:
        """How shares of those words add up."""
        return Group(self.word, xor=True)


def level_summand(role: Role, shares: Pair, grid: Grid) -> Words:
    """What a role knows of the levels: they add up to c modulo V."""
    return cell_index(grid_summand(role, shares, grid), grid.cut, grid.levels)


def grid_summand(role: Role, shares: Pair, grid: Grid) -> Words:
    """What a role knows of x, counted from below the grid: the level, and what is left
    of it in its last t bits."""
    above_base = (1 << grid.cut) - grid.base
    return two_party_summand(role, shares, grid.type.ring, above_base)


def far_flags(
    role: Role, shares: Pair, grid: Grid, words: int = 1
) -> Steps[Words | None]:
    """Shares of whether x lies far beyond the grid, as lowest bits, at P0 and P2."""
    blocks = [
        _flags(role, shares, grid, k, *cells)
        for k, cells in enumerate(grid.far_cells(words))
    ]
    if not blocks:
        yield Exchange()
    flags = yield from together(*blocks)
    if role.rank == P1:
        return None
    return np.concatenate([np.zeros(0, np.uint8), *(f for f in flags if f is not None)])


def _flags(
    role: Role, shares: Pair, grid: Grid, word: int, cut: int, legal: int
) -> Steps[Words | None]:
    """Of one word, in whose first cells values on the grid are found."""
    above_base = (1 << cut) - grid.base
    summand = two_party_summand(role, shares, grid.type.ring, above_base).reshape(-1)
    cell = cell_index(summand, cut, FAR_CELLS)
    words = yield from shared_one_hot(role, cell, FAR_CELLS, f"far {word}")
    outside = sum(1 << c for c in range(legal, FAR_CELLS))
    return None if words is None else selected_bits(words, [outside])
