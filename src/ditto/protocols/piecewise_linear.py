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
    3. With masks k0, k2, h0, h2 of P0 and P2 and k = k0 + k2, P0 sends m0 - k0 and
       z0 - h0 to P1, z0 = m0 x0 + k x1 + d0; P2 sends m2 - k2 and z2 - h2,
       z2 = m2 x0 + k x2 + d2. P1 computes z1 = (m - k)(x1 + x2). Now
       z0 + z1 + z2 = m x + d; a = h0 + h2 is known to P0 and P2 and
       s = z1 + (z0 - h0) + (z2 - h2) to P1.
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
    The messages of steps 1, 2 and 4 are those of blocks. In step 3 P1 sees four
    numbers, hidden by four masks that it does not know; a is a sum of masks, so it is
    independent of the data. The table is public; which line is used nobody learns.
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
    FAR_CELLS,
    MOST_FAR_WORDS,
    P0,
    P1,
    P2,
    BitMasks,
    Grid,
    Group,
    Rounds,
    deal_bit_masks,
    far_flags,
    level_summand,
    masks_of_p0_p2,
    note_flags,
    open_bits,
    selected_bits,
    shared_one_hot,
    together,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairInstance,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    in_parts,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
    convert_rounds,
    convert_widths,
    lifted,
    recast_task,
)
from ditto.sharing import Shared

_MOST_BITS = 32
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
class PiecewiseLinear:
    """Lines for integers x on a grid, with results in ``target``.

    The grid starts at a multiple of a cell. x is taken with ``operand_frac``. If it is
    checked, ``far_words`` say how far beyond the grid.
    """

    grid: Grid
    target: FxpType
    operand_frac: int
    lines: Lines
    far_words: int = 1

    def __post_init__(self) -> None:
        grid, source = self.grid, self.grid.type
        if source.bits > _MOST_BITS or self.target.bits > _MOST_BITS:
            raise FixedPointTypeError(
                f"There is no piecewise linear function from {source} to {self.target}."
            )
        if not 0 <= self.far_words <= MOST_FAR_WORDS:
            raise FixedPointTypeError(
                f"There are at most {MOST_FAR_WORDS} words of cells beyond a grid, got "
                f"{self.far_words}."
            )
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
    def error(self) -> float:
        """How far a result may be off its line, in units of its last place."""
        cut = self.grid.type.frac > self.operand_frac
        of_x = 1.5 * math.ldexp(self.lines.steepest, -self.operand_frac) if cut else 0.0
        return of_x / self.target.ulp + 1


def piecewise_linear(
    party: Party,
    x: Shared,
    function: PiecewiseLinear,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The function of every element of x. See the module's text."""
    return party.run_task(piecewise_linear_task(x, function, rounds, checked=checked))


def piecewise_linear_task(
    x: Shared, function: PiecewiseLinear, rounds: Rounds = 2, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``piecewise_linear``."""
    flat = x.map(lambda share: share.reshape(-1))
    cut = recast_task(flat, function.narrow).finish((flat.first[:0], flat.second[:0]))
    wide, narrow = ((shared.first, shared.second) for shared in (flat, cut))

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            x_pair, cut_pair = ((a[part], b[part]) for a, b in (wide, narrow))
            return _steps(role, x_pair, cut_pair, function, rounds, checked)

        return instance

    conversion = Conversion(function.product, function.target)
    return in_parts(x.size, instance_of, lambda p: lifted(*p, conversion, x.shape))


def piecewise_linear_cost(
    count: int, function: PiecewiseLinear, rounds: Rounds = 2, *, checked: bool = False
) -> Cost:
    """Of ``count`` values."""
    grid, ring = function.grid, function.product.bits
    conversion = Conversion(function.product, function.target)
    far = [FAR_CELLS for _ in grid.far_cells(function.far_words) if checked]
    words = [grid.word.bits] * grid.words
    code = len(function.widths)
    sent = [*words, *far, *function.widths, code, code, *[ring] * 4]
    widths = [*sent, *convert_widths(conversion, rounds, False)]
    return Cost.of(count, widths, 3 + convert_rounds(conversion, rounds))


def _steps(
    role: Role,
    x: Pair,
    narrow: Pair,
    function: PiecewiseLinear,
    rounds: Rounds,
    checked: bool,
) -> PairSteps:
    code, masks = yield from _find_code(role, x, function, checked)
    bits = yield from open_bits(role, code, masks)
    summand = yield from _line(role, bits, narrow, function)
    conversion = Conversion(function.product, function.target)
    return (yield from convert(role, summand, conversion, rounds, False))


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
    group, count = Group(ring), first.size
    if bits is None:
        slopes, products = yield from together(
            _send_slope(None, count, ring),
            two_to_three(role, None, count, group),
        )
        (m0, m2), (z0, z2) = slopes, products
        return ring.reduce((m0 + m2) * (first + second) + z0 + z2)
    n, lines = function.lines.slope_bits, function.lines
    slope, intercept = (
        _weighted(bits[part], function.shifts[part])
        for part in (slice(n), slice(n, None))
    )
    drawn = masks_of_p0_p2(role)
    k0, k2 = (drawn.draw(name, count, ring) for name in ("slope 0", "slope 2"))
    lowest = ring.scalar(min(lines.slopes))
    x0, other = x if role.rank == P0 else (second, first)
    z = slope * x0 + (k0 + k2 + lowest) * other + intercept
    if role.rank == P0:
        z = z + lowest * x0 + ring.scalar(function.lowest_intercept)
    hidden = ring.reduce(slope - (k0 if role.rank == P0 else k2))
    _, pair = yield from together(
        _send_slope(hidden, count, ring),
        two_to_three(role, ring.reduce(z), count, group),
    )
    masks = pair[0] if role.rank == P0 else pair[1]
    bias = Conversion(function.product, function.target).bias
    return ring.reduce(masks + ring.scalar(bias))


def _send_slope(hidden: Words | None, count: int, ring: Ring) -> PairSteps:
    """At P1 both halves of the slopes without their masks."""
    if hidden is not None:
        yield Exchange(send={P1: [Field(hidden, ring.bits)]})
        return hidden, hidden
    expected = [Expected(count, ring.bits)]
    inbox = yield Exchange(receive={P0: expected, P2: expected})
    return inbox[P0][0], inbox[P2][0]


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
