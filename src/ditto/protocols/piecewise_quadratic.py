"""piecewise_quadratic: a function of many values, from a table of parabolas.

A GeLU is wanted for every element of a wide tensor, so bits matter. The range of x is
cut into cells of one width, and on each the function is a parabola. Which one x lies
on stays secret.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them. A piece is c0 + c1 d + c2 d^2, with d what x lies off the
middle of its cells. d is taken with frac g, d^2 with frac h; all is computed over
Z_2^w, where the result just fits with frac f'.

Steps
    Those of ``grid_function``, without the last e of the bits that ``convert`` cuts.
    The cell c is that of x or the one before. So piece c is fitted on two cells, around
    their middle base + c 2^t. What x lies off it is d = p + u with
    -2^(t-1) <= p, u < 2^(t-1), without any carry: p at P0 and P2, u at P1. The piece is
    (c0 + c1 p + c2 p^2) + (c1 + 2 c2 p) u + c2 u^2: three tables that P0 and P2 know,
    since p is theirs and a table's entries are public, and two factors that P1 knows.

Cost
    per element V bits, and 16 for each far word if it is checked; 8w - 2e with e the
    bits left out; and ``convert`` from w bits: l' + 3k, l' + 4k or l' + 2k + 1,
    k = max(0, f' - f'' + l' - w) for a result of type (l', f'').
    2 rounds and those of ``convert``.
    Of the pieces, the result is off by what ``convert`` rounds, by half a cell times an
    ulp of the slopes, and by a curvature times an ulp of the squares; and by the slope
    times an ulp of d if x has a larger frac.

Security (semi-honest, one corrupted party)
    All messages are those of blocks, each with masks of its own; what P0 and P2 know of
    the result is a mask. The pieces are public; which one is used no party learns.
    Whoever learns x, the result and what a role holds may learn which of two pieces it
    was, as with the carry of a recast.
    Nothing depends on whether x is in its range: beyond it the result is wrong, and
    noted if it is checked, but not revealing.

Source
    docs/explanation/protocols.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import Grid, Sums, byte_sums, summed_entries
from ditto.protocols.grid_function import MOST_BITS, GridFunction, Integers, bits_of
from ditto.protocols.recast import Conversion

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pieces:
    """Parabolas with integer coefficients, on cells that follow each other.

    The middle of piece i lies at ``start`` + i, counted in cells from zero; at a
    distance d of it the piece is c0 + c1 d + c2 d^2. Results have ``frac``, d has
    ``offset_frac`` and d^2 has ``square_frac``: the fracs of the coefficients are what
    is left. The first and the last piece are straight lines, and hold for all cells
    before and after them, too.
    """

    start: int
    constants: tuple[int, ...]
    slopes: tuple[int, ...]
    curvatures: tuple[int, ...]
    frac: int
    offset_frac: int
    square_frac: int

    def __post_init__(self) -> None:
        sizes = {len(self.constants), len(self.slopes), len(self.curvatures)}
        if len(sizes) > 1 or 0 in sizes:
            raise FixedPointTypeError(
                f"Pieces have three coefficients each, got {sorted(sizes)} of them."
            )
        if self.curvatures[0] or self.curvatures[-1]:
            raise FixedPointTypeError(
                "The first and the last piece are straight lines; give the pieces "
                "before and after the curved ones."
            )
        fracs = self.offset_frac, self.square_frac
        if not (
            0 <= self.offset_frac <= self.frac <= MOST_BITS
            and 0 <= self.square_frac <= min(self.frac, 2 * self.offset_frac)
            and self.rough < MOST_BITS - 1
        ):
            raise FixedPointTypeError(
                f"Pieces with frac {self.frac} cannot have distances and squares with "
                f"fracs {fracs}."
            )

    @property
    def rough(self) -> int:
        """The bits of squares that are rounded off."""
        return 2 * self.offset_frac - self.square_frac

    def real(self) -> tuple[Reals, Reals, Reals]:
        """All coefficients."""
        fracs = (self.frac, self.frac - self.offset_frac, self.frac - self.square_frac)
        each = (self.constants, self.slopes, self.curvatures)
        c0, c1, c2 = (
            np.ldexp(np.array(c, np.float64), -frac)
            for c, frac in zip(each, fracs, strict=True)
        )
        return c0, c1, c2

    def at(self, cells: npt.NDArray[np.int64], cell_frac: int) -> npt.NDArray[np.int64]:
        """The coefficients of some cells, 2^-cell_frac wide: (3, cells)."""
        i = np.clip(cells - self.start, 0, len(self.slopes) - 1)
        c0, c1, c2 = (
            np.array(c, np.int64)[i]
            for c in (self.constants, self.slopes, self.curvatures)
        )
        beyond = cells - self.start - i
        return np.stack([c0 + c1 * (beyond << self.offset_frac - cell_frac), c1, c2])


@dataclass(frozen=True)
class PiecewiseQuadratic(GridFunction):
    """Pieces for integers x on a grid, with results in ``target``.

    The grid starts at a multiple of a cell.
    """

    grid: Grid
    target: FxpType
    pieces: Pieces
    far_words: int = 1
    factors: ClassVar[int] = 2

    def __post_init__(self) -> None:
        grid = self.grid
        self.check_types("piecewise quadratic function")
        if grid.low % (1 << grid.cut):
            raise FixedPointTypeError(
                f"The grid of a piecewise quadratic function starts at a multiple of "
                f"{1 << grid.cut}, got {grid.low}."
            )
        if self.offset_bits < 1 or self.offset_bits > MOST_BITS // 2:
            raise FixedPointTypeError(
                f"Distances of frac {self.pieces.offset_frac} have {self.offset_bits} "
                f"bits in a cell of {2.0**-self.cell_frac:g}; they can have 1 to "
                f"{MOST_BITS // 2}."
            )
        pieces = self.pieces
        if self._bits > MOST_BITS or _added_curvatures(grid, pieces) >= 1 << 31:
            raise FixedPointTypeError(
                f"Pieces up to {self._largest:.4g} with frac {pieces.frac} take "
                f"{self._bits} bits; there are {MOST_BITS}, and their curvatures "
                f"together have to be below 2^31."
            )
        Conversion(self.product, self.target)

    @property
    def cell_frac(self) -> int:
        """log2 of how many cells make up one."""
        return self.grid.type.frac - self.grid.cut

    @property
    def offset_bits(self) -> int:
        """Of what one side knows of d."""
        return self.pieces.offset_frac - self.cell_frac

    @cached_property
    def _largest(self) -> float:
        return _largest(self.grid, self.pieces)

    @cached_property
    def _bits(self) -> int:
        frac = self.pieces.frac
        integer = math.ldexp(self._largest + self._rounding, frac)
        return bits_of(integer, frac - self.target.frac)

    @property
    def product(self) -> FxpType:
        """The type of a piece before ``convert``: the smallest ring that holds it."""
        return FxpType(self._bits, self.pieces.frac)

    def of_p1(self, rest: Words) -> Integers:
        """u and its square."""
        return self._offsets(rest, 0)

    def sums(self, words: Words, rest: Words) -> Sums:
        """Of the three tables, which depend on p."""
        c0, c1, c2, ones = summed_entries(words, _table(self.grid, self.pieces))
        p, square = self._offsets(rest, 1)
        doubled = c2.view(np.int32) * (2 * p.astype(np.int64)) >> self.pieces.rough
        slopes = c1 + doubled.astype(np.uint32)
        constants = c0 + c1 * p.view(np.uint32) + c2 * square.view(np.uint32)
        return Sums([constants, slopes, c2], ones)

    def _offsets(self, rest: Words, lost: int) -> Integers:
        """What one side knows of d, and its square with the frac of squares, rounded.

        Bits that d does not have are cut off: on average both sides lose half of a
        place, and the one that is given what is ``lost`` puts that back, but for an ulp
        of x.
        """
        up = self.pieces.offset_frac - self.grid.type.frac
        rest = rest.astype(np.uint32)
        kept = rest << np.uint32(up) if up >= 0 else rest >> np.uint32(-up)
        middle = (1 << self.offset_bits - 1) - (lost if up < 0 else 0)
        offset = kept.astype(np.int32) - np.int32(middle)
        rough = self.pieces.rough
        square = (offset * offset + np.int32(1 << rough >> 1)) >> np.int32(rough)
        return np.stack([offset, square])

    @property
    def steepest(self) -> float:
        """The largest slope, whatever its sign, where pieces are used."""
        _, c1, c2 = self.pieces.real()
        width = 2.0**-self.cell_frac
        return float((np.abs(c1) + 2 * np.abs(c2) * width).max())

    @property
    def error(self) -> float:
        """How far a result may be off its piece, in units of its last place."""
        return self._rounding / self.target.ulp + 1 + self.conversion.blur

    @property
    def _rounding(self) -> float:
        """How far it may be off before ``convert``."""
        pieces, half = self.pieces, 2.0 ** -(self.cell_frac + 1)
        c2 = float(np.abs(pieces.real()[2]).max())
        rounding = 2.0 ** -(pieces.frac - pieces.offset_frac) * half
        rounding += c2 * 2.0**-pieces.square_frac
        if self.grid.type.frac > pieces.offset_frac:
            rounding += self.steepest * 2.0**-pieces.offset_frac
        return rounding


@lru_cache(maxsize=64)
def _table(grid: Grid, pieces: Pieces) -> Words:
    """The coefficients of every level, and ones, as ``summed_entries`` takes them."""
    cells = (grid.base >> grid.cut) + np.arange(grid.levels)
    table = pieces.at(cells, grid.type.frac - grid.cut)
    return byte_sums(np.concatenate([table, np.ones_like(table[:1])]))


def _largest(grid: Grid, pieces: Pieces) -> float:
    """A bound of the pieces wherever they are used."""
    cells = (grid.base >> grid.cut) + np.asarray(grid.legal, np.int64)
    cell_frac = grid.type.frac - grid.cut
    fracs = (pieces.frac, pieces.offset_frac, pieces.square_frac)
    c0, c1, c2 = (
        np.ldexp(c.astype(np.float64), down - pieces.frac)
        for c, down in zip(pieces.at(cells, cell_frac), (0, *fracs[1:]), strict=True)
    )
    width = 2.0**-cell_frac
    flat = np.divide(-c1, 2 * c2, out=np.zeros_like(c1), where=c2 != 0)
    d = np.stack([-width + 0 * c1, width + 0 * c1, np.clip(flat, -width, width)])
    return float(np.abs(c0 + c1 * d + c2 * d * d).max())


def _added_curvatures(grid: Grid, pieces: Pieces) -> int:
    """The size of all cells' together: a set of them is added up in 32 bits."""
    cells = (grid.base >> grid.cut) + np.arange(grid.levels)
    return int(np.abs(pieces.at(cells, grid.type.frac - grid.cut)[2]).sum())
