"""Straight lines for functions of one variable, on cells of one width.

The protocol finds x in its cell or in the one before, as the shares fall: the nearer x
is to the middle of a line's two cells, the more often it lies on that line. A line is
fitted to that: where it is used it is off by nothing on average, and by the least
square. Its error is sqrt(2) times the root of that square, so that the error of a
polynomial, which swings between two ends, means the same. At the ends of its cells,
where it is hardly used, it may be off by three times as much.

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
from ditto.protocols import Grid, Lines, PiecewiseLinear

_BITS = 32
_POINTS = 17
"""Where a line is looked at on its cells."""
_USE = 1 - np.abs(np.linspace(-1, 1, _POINTS))
_USE /= _USE.sum()
"""How often a line is used, at these points."""
_SWING = math.sqrt(2)
"""The largest value of a wave beside the root of its mean square."""
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
    """That of the worst line, with what x loses to its frac."""
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
        if found is not None and _least_bits(name, reach, exponent) > found.bits:
            continue
        for each in _candidates(name, reach, error, exponent):
            if found is None or (each.bits, each.error) < (found.bits, found.error):
                found = each
    return found


def _least_bits(name: str, reach: float, exponent: int) -> float:
    """What the coarsest lines cost on cells of this width, however wrong they are;
    infinity if the ring has no room for them, so for none."""
    width = 2.0**-exponent
    half = _half_range(reach, width)
    lines, _ = _rounded_lines(
        name, half, exponent, _SLOPE_FRACS.start, _INTERCEPT_FRACS.start
    )
    frac = _OPERAND_FRACS.start
    priced = _priced(lines, half * width, width, frac, math.inf)
    return math.inf if priced is None else priced.bits


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
            needed = _operand_frac(lines, math.sqrt(max(0, error**2 - largest**2)))
            if needed is None:
                continue
            total = math.hypot(largest, _operand_error(lines, needed))
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
    """Three shares are rounded: their square is a quarter of an ulp's."""
    return _SWING * 0.5 * math.ldexp(lines.steepest, -frac)


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
    """Of the worst line on cells of this width, with as many bits as it takes."""
    x, y = _points(name, half, exponent)
    rest = y - _slopes(x, y)[:, None] * x
    return float(_errors(rest, _means(rest)).max())


def _slopes(x: Reals, y: Reals) -> Reals:
    """Of the lines with the least square."""
    centred = x - _means(x)[:, None]
    slopes: Reals = _means(centred * y) / _means(centred**2)
    return slopes


def _means(values: Reals) -> Reals:
    """Of every line, where it is used."""
    means: Reals = values @ _USE
    return means


def _errors(rest: Reals, intercepts: Reals) -> Reals:
    errors: Reals = _SWING * np.sqrt(_means((rest - intercepts[:, None]) ** 2))
    return errors


@lru_cache(maxsize=4096)
def _rounded_lines(
    name: str, half: int, exponent: int, slope_frac: int, intercept_frac: int
) -> tuple[Lines, float]:
    """The best lines with these fracs, and the error of the worst."""
    middles = np.arange(-half - 1, half + 2)
    x, y = _points(name, half, exponent)
    nearest = np.rint(np.ldexp(_slopes(x, y), slope_frac))
    tried: list[tuple[Reals, Reals, Reals]] = []
    for slopes in (nearest, nearest - 1, nearest + 1):  # may meet a better intercept
        rest = y - np.ldexp(slopes, -slope_frac)[:, None] * x
        intercepts = np.rint(np.ldexp(_means(rest), intercept_frac))
        errors = _errors(rest, np.ldexp(intercepts, -intercept_frac))
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
    cost = function.cost(_PRICED, checked=True)
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
