"""piecewise_linear: a function of many values, from a table of straight lines.

A GeLU is wanted for every element of a wide tensor, so bits matter. The range of x is
cut into cells of one width, and on each the function is a line whose slope and
intercept have few bits. Which line x lies on stays secret.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them. A line is m x + d: a slope m of frac g, counted in n bits
from the lowest, and an intercept d of frac g', likewise in n' bits. These n + n' bits
are the line's code. m x + d is computed over Z_2^w, where it just fits, with frac
f' + g: x is taken with frac f'.

Steps
    0. x, cut to frac f' and taken modulo 2^w: the three shares are shifted where they
       are (``recast``, a downcast with room). The cell c of x is a sum modulo V of what
       P1 and what P0 and P2 know (``blocks.grid``): that of x or the one before. So
       line c is fitted on two cells, around their middle base + c * 2^t.
    1. P0 and P2 get XOR shares of 1 << c (``blocks.one_hot``): every bit of the code of
       line c is linear in them, so they have XOR shares of the code. In the same
       message P1 deals random bits (``blocks.masked_bits``).
    2. The bits of the code are opened under these (``blocks.masked_bits``): P0 and P2
       hold summands of every bit, so of the slope m = m0 + m2 and of the intercept
       d = d0 + d2 over Z_2^w; what is counted from is public.
    3. P0 holds m0 x0 + d0 and x1, P2 holds m2 x0 + d2 and x2, P1 knows x1 + x2: with
       the product of m and x1 + x2 (``blocks.known_product``) that is m x + d, a
       summand of which is known to P0 and P2 and one to P1.
    4. From there ``convert`` goes on to the type of the result (``recast``).
    5. If it is checked, one more column of the table says that no x in the range has
       the cell, and cells far beyond the grid are looked at (``blocks.grid``): P0 and
       P2 note both (``blocks.range_check``).

Cost
    per element V bits, and 16 for each far word if it is checked; w - j for bit j of a
    slope, and f' + g - g' less for bit j of an intercept; 2 for each bit of the code;
    4w, and ``convert`` from w bits: l' + 3k or l' + 4k, k = f' + g - f'' + l' - w for a
    result of type (l', f'').
    3 rounds and those of ``convert``.
    Of the lines, the result is off by an ulp, and by the slope times 1.5 ulp of x with
    frac f' if x has a larger one.

Security (semi-honest, one corrupted party)
    All messages are those of blocks, each with masks of its own. What P0 and P2 know of
    the line at x is a sum of masks, so it is independent of the data. The table is
    public; which line is used nobody learns.
    Nothing depends on whether x is in its range: beyond it the result is wrong, and
    noted if it is checked, but not revealing.

Source
    docs/explanation/protocols.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    BitMasks,
    Grid,
    Rounds,
    deal_bit_masks,
    far_flags,
    known_product,
    level_summand,
    note_flags,
    open_bits,
    selected_bits,
    shared_one_hot,
    together,
    two_party_summand,
)
from ditto.protocols.grid_function import GridFunction
from ditto.protocols.party import (
    Pair,
    PairSteps,
    Role,
    Steps,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
    recast_for_free,
)
from ditto.sharing import Shared

_MOST_CODE_BITS = 31
"""Of a line; with the column of the range check they fill a word."""


@dataclass(frozen=True)
class Lines:
    """Straight lines with few bits, of cells that follow each other.

    Line i is slopes[i] * 2^-slope_frac * x + intercepts[i] * 2^-intercept_frac. The
    middle of its two cells is ``start`` + i, counted in cells from zero. The first
    line holds for all cells before it too, the last one for all after it.
    """

    start: int
    slopes: tuple[int, ...]
    intercepts: tuple[int, ...]
    slope_frac: int
    intercept_frac: int

    def __post_init__(self) -> None:
        if not self.slopes or len(self.slopes) != len(self.intercepts):
            raise FixedPointTypeError(
                f"Lines have a slope and an intercept each, got {len(self.slopes)} "
                f"slopes and {len(self.intercepts)} intercepts."
            )
        fracs = (self.slope_frac, self.intercept_frac)
        if not all(0 <= frac <= 30 for frac in fracs):
            raise FixedPointTypeError(f"Lines have fracs from 0 to 30, got {fracs}.")
        if self.slope_bits + self.intercept_bits > _MOST_CODE_BITS:
            raise FixedPointTypeError(
                f"A line has at most {_MOST_CODE_BITS} bits, got {self.slope_bits} of "
                f"slopes and {self.intercept_bits} of intercepts."
            )

    @cached_property
    def slope_bits(self) -> int:
        """n: what tells a slope from the lowest; one at least."""
        return max(1, (max(self.slopes) - min(self.slopes)).bit_length())

    @cached_property
    def intercept_bits(self) -> int:
        """n': the same of an intercept."""
        return max(1, (max(self.intercepts) - min(self.intercepts)).bit_length())

    @cached_property
    def steepest(self) -> float:
        """The largest slope, whatever its sign."""
        return math.ldexp(max(abs(m) for m in self.slopes), -self.slope_frac)

    def at(self, cell: int) -> int:
        """The line of a cell."""
        return min(max(cell - self.start, 0), len(self.slopes) - 1)


@dataclass(frozen=True)
class PiecewiseLinear(GridFunction):
    """Lines for integers x on a grid, with results in ``target``.

    The grid starts at a multiple of a cell. x is taken with ``operand_frac``.
    """

    grid: Grid
    target: FxpType
    operand_frac: int
    lines: Lines
    far_words: int = 1

    def __post_init__(self) -> None:
        grid, source = self.grid, self.grid.type
        self.check_types("piecewise linear function")
        if grid.low % (1 << grid.cut):
            raise FixedPointTypeError(
                f"The grid of a piecewise linear function starts at a multiple of "
                f"{1 << grid.cut}, got {grid.low}."
            )
        if self._raised < 0:
            raise FixedPointTypeError(
                f"Intercepts of frac {self.lines.intercept_frac} are finer than a "
                f"product of frac {self.product.frac}."
            )
        room = max(0, source.frac - self.operand_frac) + self.product.bits
        if room > source.bits or min(self.widths) < 1:
            raise FixedPointTypeError(
                f"Lines at {source} take {self.product.bits} bits with frac "
                f"{self.product.frac}: x has no room for them. Give it fewer fraction "
                f"bits."
            )
        Conversion(self.product, self.target)

    @property
    def _raised(self) -> int:
        """Bits of the product below those of an intercept."""
        frac = self.operand_frac + self.lines.slope_frac
        return frac - self.lines.intercept_frac

    @cached_property
    def product(self) -> FxpType:
        """The type of m x + d: the smallest ring that holds it."""
        frac = self.operand_frac + self.lines.slope_frac
        slack = 2.0 * math.ldexp(self.lines.steepest, -self.operand_frac)
        integer = math.ldexp(_largest(self.grid, self.lines) + slack, frac)
        return FxpType(max(3, math.frexp(integer)[1] + 2), frac)

    @property
    def narrow(self) -> FxpType:
        """The type of x in the product."""
        return FxpType(self.product.bits, self.operand_frac)

    @property
    def widths(self) -> list[int]:
        """Modulo which power of two every bit of a code is wanted."""
        ring, lines = self.product.bits, self.lines
        slopes = [ring - j for j in range(lines.slope_bits)]
        ring -= self._raised
        return [*slopes, *(ring - j for j in range(lines.intercept_bits))]

    @property
    def shifts(self) -> list[int]:
        """The places of the bits of a code, in a slope or in an intercept."""
        return [self.product.bits - width for width in self.widths]

    @property
    def lowest_intercept(self) -> int:
        """At the frac of the product."""
        return min(self.lines.intercepts) << self._raised

    @property
    def sent(self) -> list[int]:
        """Random bits, delta, and what P1 is sent."""
        code = len(self.widths)
        ring = self.product.bits
        rest = ring - self.conversion.unseen
        return [*self.widths, code, code, ring, ring, rest, rest]

    def steps(self, role: Role, x: Pair, rounds: Rounds, checked: bool) -> PairSteps:
        """See the module's text."""
        return _steps(role, x, self, rounds, checked)

    @property
    def error(self) -> float:
        """How far a result may be off its line, in units of its last place."""
        cut = self.grid.type.frac > self.operand_frac
        of_x = 1.5 * math.ldexp(self.lines.steepest, -self.operand_frac) if cut else 0.0
        return of_x / self.target.ulp + 1 + self.conversion.blur


def _steps(
    role: Role, x: Pair, function: PiecewiseLinear, rounds: Rounds, checked: bool
) -> PairSteps:
    narrow = recast_for_free(Shared(*x, function.grid.type), function.narrow)
    code, masks = yield from _find_code(role, x, function, checked)
    bits = yield from open_bits(role, code, masks)
    summand = yield from _line(role, bits, (narrow.first, narrow.second), function)
    return (yield from convert(role, summand, function.conversion, rounds, False))


def _find_code(
    role: Role, x: Pair, function: PiecewiseLinear, checked: bool
) -> Steps[tuple[Words | None, BitMasks | None]]:
    """Step 1, and 5: shares of the code of every element's line, at P0 and P2."""
    grid, count = function.grid, x[0].size
    level = level_summand(role, x, grid)
    blocks: list[Steps[Any]] = [
        shared_one_hot(role, level, grid.levels, "levels"),
        deal_bit_masks(role, count, function.widths),
    ]
    if checked:
        blocks.append(far_flags(role, x, grid, function.far_words))
    words, masks, *far = yield from together(*blocks)
    if role.rank == P1:
        return None, None
    columns = _columns(grid, function.lines)
    found = selected_bits(words, columns if checked else columns[:-1])
    if checked:
        top = (found >> found.dtype.type(len(columns) - 1)).astype(np.uint8)
        note_flags(role, np.concatenate([top, *far]))
    return Ring(len(function.widths)).reduce(found), masks


def _line(
    role: Role, bits: list[Words] | None, x: Pair, function: PiecewiseLinear
) -> Steps[Words]:
    """Steps 2 and 3: m x + d as two summands, biased for ``convert``."""
    ring, (first, second) = function.product.ring, x
    if bits is None:
        factors, rest, known = None, None, first + second
    else:
        n, lowest = function.lines.slope_bits, min(function.lines.slopes)
        slope, intercept = (
            _weighted(bits[part], function.shifts[part])
            for part in (slice(n), slice(n, None))
        )
        x0, known = x if role.rank == P0 else (second, first)
        rest = slope * x0 + ring.scalar(lowest) * known + intercept
        if role.rank == P0:
            first_line = ring.scalar(function.lowest_intercept)
            rest = rest + ring.scalar(lowest) * x0 + first_line
        factors = slope[None]
    conversion = function.conversion
    pair, own = yield from known_product(
        role, known[None], factors, rest, ring, dropped=conversion.unseen
    )
    summand = two_party_summand(role, pair, ring, conversion.bias)
    return ring.reduce(summand + own)


def _weighted(bits: Sequence[Words], shifts: Sequence[int]) -> Words:
    """The sum of bits at their places."""
    total: Words = np.zeros_like(bits[0])
    for bit, shift in zip(bits, shifts, strict=True):
        total = total + (bit << np.uint32(shift))
    return total


@lru_cache(maxsize=64)
def _largest(grid: Grid, lines: Lines) -> float:
    """A bound of the lines wherever they are used."""
    middles = grid.base + (np.asarray(grid.legal) << grid.cut)
    places = np.clip((middles >> grid.cut) - lines.start, 0, len(lines.slopes) - 1)
    slopes = np.ldexp(np.asarray(lines.slopes, np.float64), -lines.slope_frac)
    intercepts = np.ldexp(
        np.asarray(lines.intercepts, np.float64), -lines.intercept_frac
    )
    ends = np.stack([middles - (1 << grid.cut), middles + (1 << grid.cut)])
    x = np.clip(ends, grid.low, grid.high) * grid.type.ulp
    return float(np.abs(slopes[places] * x + intercepts[places]).max())


@lru_cache(maxsize=64)
def _columns(grid: Grid, lines: Lines) -> list[int]:
    """Of every bit of a code the levels that have it, and last those out of range."""
    n, columns = lines.slope_bits, [0] * (lines.slope_bits + lines.intercept_bits)
    first = grid.base >> grid.cut
    for level in range(grid.levels):
        i = lines.at(first + level)
        slope = lines.slopes[i] - min(lines.slopes)
        intercept = lines.intercepts[i] - min(lines.intercepts)
        code = slope | intercept << n
        for j in range(len(columns)):
            columns[j] |= (code >> j & 1) << level
    outside = sum(1 << v for v in range(grid.levels) if v not in grid.legal)
    return [*columns, outside]
