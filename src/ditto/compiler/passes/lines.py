"""Straight lines for functions of one variable, on cells of one width.

The protocol finds x in its cell or in the one before, so a line is fitted on two cells.
Slopes and intercepts have few bits, since every bit of theirs is paid for: what a width
of cells and so many bits come to is what the protocol declares, and the cheapest that
keep the error are taken.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ditto.compiler.passes.fit import SHAPES, Reals
from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.protocols import Grid, Lines, PiecewiseLinear, piecewise_linear_cost

_BITS = 32
_POINTS = 17
"""Where a line is looked at on its cells: between, a function of ours bends by less
than 2^-8 of the error."""
_WIDTHS = range(1, 7)
"""Cells are 2^-1 to 2^-6 wide."""
_GUARD = 32
"""The part of all levels that is left on either side of the range: what comes to lie
there is noted for certain."""
_SLOPE_FRACS, _INTERCEPT_FRACS, _OPERAND_FRACS = range(2, 9), range(5, 14), range(8, 15)
_USUAL = FxpType(_BITS, 12)
"""A type of results, to compare prices."""
_PRICED = 8
"""Elements that a price is asked for: none is padded."""


@dataclass(frozen=True)
class FittedLines:
    """Lines for x between ``low`` and ``high``, which are whole cells."""

    lines: Lines
    low: float
    high: float
    width: float
    operand_frac: int
    error: float
    """The largest, with what x loses to its frac."""
    bits: float
    """Bits an element that they send."""
    most_frac: int
    """The frac that x may have."""
    product_frac: int
    """Of results before their recast: finer is not worth it."""


@lru_cache(maxsize=256)
def fit_lines(name: str, reach: float, error: float) -> FittedLines | None:
    """The cheapest lines within the error for |x| up to ``reach``, if there are any."""
    found: FittedLines | None = None
    for exponent in _WIDTHS:
        for each in _candidates(name, reach, error, exponent):
            if found is None or (each.bits, each.error) < (found.bits, found.error):
                found = each
    return found


def _candidates(
    name: str, reach: float, error: float, exponent: int
) -> Iterator[FittedLines]:
    """All lines within the error, on cells of one width."""
    width = 2.0**-exponent
    half = _half_range(reach, width)
    if _least_error(name, half, exponent) > error:
        return
    for slope_frac in _SLOPE_FRACS:
        for intercept_frac in _INTERCEPT_FRACS:
            lines, largest = _rounded_lines(
                name, half, exponent, slope_frac, intercept_frac
            )
            needed = _operand_frac(lines, error - largest)
            if needed is None:
                continue
            total = largest + _operand_error(lines, needed)
            priced = _priced(lines, half * width, width, needed, total)
            if priced is not None:
                yield priced
                if needed == _operand_frac(lines, error):
                    break  # finer intercepts cost more, and leave x no coarser


def _operand_frac(lines: Lines, error: float) -> int | None:
    """The least frac of x that loses no more than an error: a finer one costs more."""
    fracs = (f for f in _OPERAND_FRACS if _operand_error(lines, f) <= error)
    return next(fracs, None)


def _operand_error(lines: Lines, frac: int) -> float:
    return 1.5 * math.ldexp(lines.steepest, -frac)


def _half_range(reach: float, width: float) -> int:
    """Cells on either side of zero: as many as the levels leave room for, while results
    take no more bits than those of the reach do."""
    cells = math.ceil(reach / width)
    levels = 8
    while levels - 2 * _guard(levels) - 1 < 2 * cells:
        levels *= 2
    room = (levels - 2 * _guard(levels) - 1) // 2
    below = math.ceil(2.0 ** math.frexp(reach)[1] / width) - 1
    return max(cells, min(room, below))


def _guard(levels: int) -> int:
    return max(1, levels // _GUARD)


@lru_cache(maxsize=256)
def _least_error(name: str, half: int, exponent: int) -> float:
    """Below which no line with any bits comes, on cells of this width: half of how far
    the function is from its chord at the middle of two cells."""
    _, y = _points(name, half, exponent)
    chord = (y[:, 0] + y[:, -1]) / 2
    return float(np.abs(chord - y[:, _POINTS // 2]).max()) / 2


@lru_cache(maxsize=4096)
def _rounded_lines(
    name: str, half: int, exponent: int, slope_frac: int, intercept_frac: int
) -> tuple[Lines, float]:
    """The best lines with these fracs, and their largest error."""
    width, middles = 2.0**-exponent, np.arange(-half - 1, half + 2)
    x, y = _points(name, half, exponent)
    secant = np.rint(np.ldexp((y[:, -1] - y[:, 0]) / (2 * width), slope_frac))
    tried: list[tuple[Reals, Reals, Reals]] = []
    for slopes in (secant, secant - 1, secant + 1):  # may meet a better intercept
        rest = y - np.ldexp(slopes, -slope_frac)[:, None] * x
        middle = (rest.max(axis=1) + rest.min(axis=1)) / 2
        intercepts = np.rint(np.ldexp(middle, intercept_frac))
        gaps = np.abs(rest - np.ldexp(intercepts, -intercept_frac)[:, None])
        errors = gaps.max(axis=1)
        tried.append((slopes, intercepts, errors))
    chosen = np.argmin([errors for _, _, errors in tried], axis=0)
    slopes, intercepts, errors = (
        np.choose(chosen, [each[k] for each in tried]) for k in range(3)
    )
    first, last = _bent(slopes, intercepts)
    kept = slice(first, last + 1)
    return Lines(
        int(middles[first]),
        tuple(int(m) for m in slopes[kept]),
        tuple(int(d) for d in intercepts[kept]),
        slope_frac,
        intercept_frac,
    ), float(errors.max())


@lru_cache(maxsize=64)
def _points(name: str, half: int, exponent: int) -> tuple[Reals, Reals]:
    """Where lines are looked at, (cells, points), and the function there."""
    middles = np.arange(-half - 1, half + 2, dtype=np.float64)
    x = (middles[:, None] + np.linspace(-1, 1, _POINTS)) * 2.0**-exponent
    return x, SHAPES[name].function(x)


def _bent(slopes: Reals, intercepts: Reals) -> tuple[int, int]:
    """The last of the equal lines at the start, and the first of those at the end."""
    differs = (np.diff(slopes) != 0) | (np.diff(intercepts) != 0)
    places = np.flatnonzero(differs)
    if places.size == 0:
        return 0, 0
    return int(places[0]), int(places[-1]) + 1


def _priced(
    lines: Lines, half: float, width: float, operand_frac: int, error: float
) -> FittedLines | None:
    """Lines with what they cost, if the ring has room for them."""
    source = FxpType(_BITS, operand_frac)
    high = round(math.ldexp(half, operand_frac))
    cut = operand_frac + round(math.log2(width))
    try:
        grid = Grid(source, -high, high, cut)
        function = PiecewiseLinear(grid, _USUAL, operand_frac, lines)
    except FixedPointTypeError:
        return None
    cost = piecewise_linear_cost(_PRICED, function, checked=True)
    return FittedLines(
        lines,
        -half,
        half,
        width,
        operand_frac,
        error,
        cost.bits / _PRICED,
        _BITS - function.product.bits + operand_frac,
        function.product.frac,
    )
