"""Tables of parabolas, by which ``table_function`` computes 1/x and 1/sqrt(x).

The range of x is cut into cells. Those of one table are of one width, at most an eighth
of the way to the function's pole, so that one parabola is good on two of them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.protocols.recast import Conversion

Number = TypeVar("Number", np.float64, npt.NDArray[np.float64])
Function = Literal["reciprocal", "rsqrt"]

MOST_CELLS = 1 << 14
CELLS_TO_POLE = 8
"""Cells between a function's pole and its range, at least: precision follows."""
BITS = 32
"""Of results."""
SPARE_BITS = 32
"""By which parabolas are computed finer than results, in a ring that is as much wider:
what is shifted where it is rounds by one of two neighbours."""
_OFFSET_BITS = 14
"""Bits of d: its square leaves the coefficients as many of the spare ones."""
FACTORS = (0, 0, 0, 1, 1, 2, 0, 0)
"""By which word of (1, u, u^2) each row of a table is multiplied."""


@dataclass(frozen=True)
class TableFunction:
    """f(factor * x + summand) for integers x of ``source``, with results in ``target``.

    x lies between ``low`` and ``high``, where factor * x + summand is positive. Where
    ``high`` is many times ``low``, cells of two widths take fewer than cells of one.
    """

    function: Function
    source: FxpType
    target: FxpType
    low: int
    high: int
    factor: float = 1.0
    summand: float = 0.0
    widths: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        rings = self.source.bits <= BITS and self.target.bits == BITS
        if not rings or self.function not in ("reciprocal", "rsqrt"):
            raise FixedPointTypeError(
                f"There is no table function {self.function!r} from {self.source} to "
                f"{self.target}."
            )
        limit = 2 * self.source.limit
        sound = -limit <= self.low < self.high <= limit and 0 < self.factor < math.inf
        if (
            not sound
            or self.low - self.pole < CELLS_TO_POLE
            or self.widths not in (1, 2)
        ):
            raise FixedPointTypeError(
                f"A table function from {self.source} cannot start at {self.low} and "
                f"end at {self.high}: its integers lie below {limit}, and start "
                f"{CELLS_TO_POLE} or more above the function's pole."
            )
        if any(s.cut + s.levels > self.source.bits for s in self.scales):
            raise FixedPointTypeError(
                f"A range from {self.low} to {self.high} takes more cells than "
                f"{self.source} has room for."
            )
        if max(scale.cells for scale in self.scales) > MOST_CELLS:
            raise FixedPointTypeError(
                f"A range from {self.low} to {self.high} takes too many cells; there "
                f"are at most {MOST_CELLS}."
            )
        if not self.value(np.float64(self.low)) < self.target.max_value:
            raise FixedPointTypeError(
                f"The {self.function} of {self.low} does not fit {self.target}."
            )

    @property
    def pole(self) -> float:
        """Where f would be infinite."""
        return -math.ldexp(self.summand / self.factor, self.source.frac)

    @property
    def scales(self) -> tuple["Scale", ...]:
        """The tables; the second, if there is one, serves from its ``start`` on."""
        if self.widths == 1:
            return (Scale(self, self.low, self.high),)
        below, above = self.low - self.pole, self.high - self.pole
        wide = Scale(self, round(self.pole + math.sqrt(below * above)), self.high)
        end = min(self.high, wide.start + (2 << wide.cut))
        return Scale(self, self.low, end), wide

    @property
    def error(self) -> float:
        """The largest error, in units of the result's last place."""
        return max(scale.error for scale in self.scales)

    def largest(self, derivative: int, x: float) -> float:
        """The size of a coefficient at x, which is above the pole."""
        y = math.ldexp(self.factor * (x - self.pole), -self.source.frac)
        scale = self.factor**derivative
        if self.function == "reciprocal":
            return float(scale * y ** -(derivative + 1))
        return float(scale * (1.0, 0.5, 0.375)[derivative] * y ** -(derivative + 0.5))

    def value(self, x: Number) -> Number:
        """The function of integers x, by operations that all machines round alike."""
        y = self.factor * (x * self.source.ulp) + self.summand
        value: Number = 1 / (y if self.function == "reciprocal" else np.sqrt(y))
        return value


@dataclass(frozen=True)
class Scale:
    """One table: cells of one width from the function's ``low`` to ``end``.

    Those before ``start`` are never used.
    """

    function: TableFunction
    start: int
    end: int

    @property
    def _above_pole(self) -> float:
        return self.start - self.function.pole

    @property
    def cut(self) -> int:
        """t: cells are at most an eighth of the way to the pole wide."""
        return math.frexp(self._above_pole / CELLS_TO_POLE)[1] - 1

    @property
    def needed(self) -> int:
        """Cells that values in the range are found in."""
        return ((self.end - self.function.low - 1) >> self.cut) + 2

    @property
    def cells(self) -> int:
        """V: a power of two, so that cells count around.

        The table that notes what lies outside has at least as many cells there, or
        all of its ring: else a value a little beyond the range would be found in a cell
        of it.
        """
        needed = max(8, 1 << (self.needed - 1).bit_length())
        if self.end < self.function.high:
            return needed
        seen = 1 << (2 * self.needed - 1).bit_length()
        ring = 1 << max(0, self.function.source.bits - self.cut)
        return max(needed, min(seen, ring, MOST_CELLS))

    @property
    def room(self) -> int:
        """How far beyond the range it is noted that a value left it."""
        if self.cut + self.levels == self.function.source.bits:
            ends = abs(self.function.low), abs(self.end)
            return 4 * self.function.source.limit - max(ends)  # all of the ring
        return (self.cells - self.needed) << self.cut

    @property
    def levels(self) -> int:
        """log2 V: what tells a cell."""
        return self.cells.bit_length() - 1

    @property
    def drop(self) -> int:
        """The bits of x that d leaves out."""
        return max(0, self.cut - _OFFSET_BITS)

    @property
    def offset_frac(self) -> int:
        """Of d."""
        return self.function.source.frac - self.drop

    @property
    def sum(self) -> FxpType:
        """The type of y in step 2."""
        target = self.function.target
        return FxpType(target.bits + SPARE_BITS, target.frac + SPARE_BITS)

    @property
    def conversion(self) -> Conversion:
        """From there to the result's type."""
        return Conversion(self.sum, self.function.target)

    @property
    def coefficient_fracs(self) -> tuple[int, int, int]:
        """Of c0, c1 and c2."""
        offset = self.offset_frac
        return self.sum.frac, self.sum.frac - offset, self.sum.frac - 2 * offset

    @property
    def error(self) -> float:
        """The largest error, in units of the result's last place."""
        step = math.ldexp(1.0, self.cut - self.function.source.frac)
        _, c1, c2 = (math.ldexp(1.0, -frac) for frac in self.coefficient_fracs)
        reach = 1 / (self._above_pole / (1 << self.cut) - 1)
        share = 0.25 if self.function.function == "reciprocal" else 5 / 64
        fit = share * reach**3 * self._largest(0)
        offset = math.ldexp(1.0, -self.offset_frac)
        rounding = step * c1 / 2 + (step + offset) ** 2 * c2 / 2
        rounding += 2.0 * self._largest(1) * offset
        return (fit + rounding) / self.function.target.ulp + 1.5

    def _largest(self, derivative: int) -> float:
        """The largest coefficient: that of a value a little below the first."""
        near = self._above_pole * (1 - 1 / CELLS_TO_POLE)
        return self.function.largest(derivative, self.function.pole + near)


@lru_cache(maxsize=64)
def table_of(scale: Scale) -> npt.NDArray[np.uint64]:
    """The cells that values in the range are found in, (8, needed): c0, c1, c2, then
    c1, c2 and c2 again for what they are multiplied by, one, and whether a cell serves.
    """
    function = scale.function
    middles = function.low + (np.arange(scale.needed, dtype=np.int64) << scale.cut)
    serves = middles - (1 << scale.cut) >= scale.start
    # cells that are never used get what the first of the others has
    x = np.maximum(middles, scale.start).astype(np.float64)
    reach = math.ldexp(math.sqrt(0.75), scale.cut)  # to Chebyshev's nodes
    real = reach * function.source.ulp
    here, left, right = (function.value(x + d) for d in (0.0, -reach, reach))
    coefficients = (
        here,
        (right - left) / (2 * real),
        (right + left - 2 * here) / (2 * real * real),
    )
    columns = [
        np.rint(np.ldexp(c, frac)).astype(np.int64)
        for c, frac in zip(coefficients, scale.coefficient_fracs, strict=True)
    ]
    inside = np.ones_like(middles)
    table = np.stack([*columns, *columns[1:], columns[2], inside, serves])
    return table.astype(np.uint64)
