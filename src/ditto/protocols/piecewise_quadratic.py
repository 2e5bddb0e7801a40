"""piecewise_quadratic: a function of many values, from a table of parabolas.

A GeLU is wanted for every element of a wide tensor, so bits matter. The range of x is
cut into cells of one width, and on each the function is a parabola. Which one x lies
on stays secret.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them. A piece is c0 + c1 d + c2 d^2, with d what x lies off the
middle of its cells. d is taken with frac g, d^2 with frac h; all is computed over
Z_2^w, where the result just fits with frac f'.

Steps
    0. The cell c of x is a sum modulo V of what P1 and what P0 and P2 know
       (``blocks.grid``): that of x or the one before. So piece c is fitted on two
       cells, around their middle base + c 2^t. What x lies off it is d = p + u with
       -2^(t-1) <= p, u < 2^(t-1), without any carry: p at P0 and P2, u at P1.
    1. The piece is (c0 + c1 p + c2 p^2) + (c1 + 2 c2 p) u + c2 u^2: three tables that
       P0 and P2 know, since p is theirs and a table's entries are public, and two
       factors that P1 knows. So it is their product at c (``blocks.table_product``),
       as a sum of what is known to P0 and P2 and of what is known to P1.
    2. From there ``convert`` goes on to the type of the result (``recast``), without
       the last e of the bits that it cuts.
    3. If it is checked, one column of the one-hot words says that no x in the range has
       the cell, and cells far beyond the grid are looked at (``blocks.grid``): P0 and
       P2 note both (``blocks.range_check``).

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
from typing import Any

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import (
    P1,
    Chosen,
    Grid,
    Rounds,
    Sums,
    byte_sums,
    cell_index,
    choose,
    far_flags,
    note_flags,
    selected_bits,
    summed_entries,
    table_product,
    table_product_widths,
    together,
    two_party_summand,
)
from ditto.protocols.grid_function import MOST_BITS, GridFunction, bits_of
from ditto.protocols.party import Pair, PairSteps, Role, Steps
from ditto.protocols.recast import Conversion, convert

Reals = npt.NDArray[np.float64]

_FACTORS = 2
"""u and u^2."""


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
            and 2 * self.offset_frac - self.square_frac < MOST_BITS - 1
        ):
            raise FixedPointTypeError(
                f"Pieces with frac {self.frac} cannot have distances and squares with "
                f"fracs {fracs}."
            )

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

    @property
    def _bits(self) -> int:
        frac = self.pieces.frac
        integer = math.ldexp(self._largest + self._rounding, frac)
        return bits_of(integer, frac - self.target.frac)

    @property
    def product(self) -> FxpType:
        """The type of a piece before ``convert``: the smallest ring that holds it."""
        return FxpType(self._bits, self.pieces.frac)

    @property
    def sent(self) -> list[int]:
        """What table_product sends."""
        ring, dropped = self.product.ring, self.conversion.unseen
        return table_product_widths(_FACTORS, ring, dropped)

    def steps(self, role: Role, x: Pair, rounds: Rounds, checked: bool) -> PairSteps:
        """See the module's text."""
        return _steps(role, x, self, rounds, checked)

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


def _steps(
    role: Role, x: Pair, function: PiecewiseQuadratic, rounds: Rounds, checked: bool
) -> PairSteps:
    grid, conversion = function.grid, function.conversion
    ring = function.product.ring
    summand = two_party_summand(role, x, grid.type.ring, (1 << grid.cut) - grid.base)
    place = cell_index(summand, grid.cut, grid.levels)
    offset = _offset(role, summand, function)
    square = _square(offset, function)
    known = np.stack([ring.reduce(offset), ring.reduce(square)])
    blocks: list[Steps[Any]] = [choose(role, place, grid.levels, known, ring)]
    if checked:
        blocks.append(far_flags(role, x, grid, function.far_words))
    chosen, *far = yield from together(*blocks)
    sums = None
    if role.rank != P1:
        sums = _sums(chosen, offset, square, function)
        if checked:
            beyond = selected_bits(chosen.words, [_outside(grid)])
            note_flags(role, np.concatenate([beyond, *far]))
    total = yield from table_product(
        role, chosen, sums, ring, dropped=conversion.unseen
    )
    if role.rank != P1:
        total = ring.reduce(total + ring.scalar(conversion.bias))
    return (yield from convert(role, total, conversion, rounds, False))


def _offset(
    role: Role, summand: Words, function: PiecewiseQuadratic
) -> npt.NDArray[np.int32]:
    """p at P0 and P2, u at P1. Bits that d does not have are cut off; on average both
    sides lose half of a place; P0 and P2 put that back, but for an ulp of x."""
    rest = cell_index(summand, 0, 1 << function.grid.cut).astype(np.uint32)
    up = function.pieces.offset_frac - function.grid.type.frac
    kept = rest << np.uint32(up) if up >= 0 else rest >> np.uint32(-up)
    middle = (1 << function.offset_bits - 1) - (up < 0 and role.rank != P1)
    return kept.astype(np.int32) - np.int32(middle)


def _square(
    offset: npt.NDArray[np.int32], function: PiecewiseQuadratic
) -> npt.NDArray[np.int32]:
    """Its square with the frac of squares, rounded."""
    rough = 2 * function.pieces.offset_frac - function.pieces.square_frac
    return (offset * offset + np.int32(1 << rough >> 1)) >> np.int32(rough)


def _sums(
    chosen: Chosen,
    p: npt.NDArray[np.int32],
    squared: npt.NDArray[np.int32],
    function: PiecewiseQuadratic,
) -> Sums:
    """Of the three tables, where the words of P0 or P2 have ones."""
    pieces = function.pieces
    found = summed_entries(chosen.words, _table(function.grid, pieces))
    c0, c1, c2, ones = found
    rough = 2 * pieces.offset_frac - pieces.square_frac
    doubled = c2.view(np.int32) * (2 * p.astype(np.int64)) >> rough
    slopes = c1 + doubled.astype(np.uint32)
    constants = c0 + c1 * p.view(np.uint32) + c2 * squared.view(np.uint32)
    return Sums([constants, slopes, c2], ones)


@lru_cache(maxsize=64)
def _table(grid: Grid, pieces: Pieces) -> Words:
    """The coefficients of every level, and ones, as ``summed_entries`` takes them."""
    cells = (grid.base >> grid.cut) + np.arange(grid.levels)
    table = pieces.at(cells, grid.type.frac - grid.cut)
    return byte_sums(np.concatenate([table, np.ones_like(table[:1])]))


@lru_cache(maxsize=64)
def _outside(grid: Grid) -> int:
    """The levels that no x in the range has, as bits."""
    return sum(1 << v for v in range(grid.levels) if v not in grid.legal)


@lru_cache(maxsize=64)
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
