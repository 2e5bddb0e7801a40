"""Parabolas for functions of one variable, on cells of one width.

The protocol finds x in its cell or in the one before, as the shares fall: the nearer x
is to the middle of a piece's two cells, the more often it lies on that piece. A piece
is fitted to that: where it is used it is off by nothing on average, and by the least
square. Its error is sqrt(2) times the root of that square: the height of a wave with
the same. At the ends of its cells, where it is hardly used, it may be off by four and a
half times as much.

What is sent depends on the number of cells and on the ring, so on the frac of results.
For every width of cells the least frac that keeps the error is taken, and of the widths
the cheapest. How the frac is shared between coefficients and distances costs nothing:
it is what leaves the least error.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from ditto.compiler.passes.shapes import SHAPES, Reals
from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.protocols import Grid, Pieces, PiecewiseQuadratic
from ditto.protocols.blocks import MOST_LEVELS

_BITS = 32
_POINTS = 33
"""Where a piece is looked at on its cells."""
_PLACES = np.linspace(-1, 1, _POINTS)
_USE = 1 - np.abs(_PLACES)
_USE /= _USE.sum()
"""How often a piece is used, at these points."""
_SWING = math.sqrt(2)
"""The largest value of a wave beside the root of its mean square."""
_WIDTHS = range(-1, 6)
"""Cells are 2 to 2^-5 wide."""
_GUARD = 32
"""The part of all levels that is left on either side of the range: what comes to lie
there is noted for certain."""
_FRACS, _OFFSET_FRACS, _SQUARE_FRACS = range(8, 25), range(3, 15), range(2, 17)
Fracs = tuple[int, int, int]
"""Of results, of distances and of squares."""
_MOST_OFFSET_BITS = 14
"""Of a distance that one side knows: its square fits a word."""
_USUAL = FxpType(_BITS, 12)
"""A type of results, to compare prices."""
_PRICED = 8
"""Elements that a price is asked for: none is padded."""


@dataclass(frozen=True)
class FittedPieces:
    """Pieces for x between ``low`` and ``high``, which are whole cells."""

    pieces: Pieces
    low: float
    high: float
    width: float
    error: float
    """That of the worst piece, with what x loses to the frac of distances."""
    bits: float
    """Bits an element that they send."""


def nearest_pieces(
    name: str, reach: float, error: float, coarse: float
) -> FittedPieces | None:
    """Within the error; or, if there are none, within the next that has any, up to a
    coarse one."""
    while (found := fit_pieces(name, reach, error)) is None and error < coarse:
        error = min(coarse, error * math.sqrt(2))
    return found


@lru_cache(maxsize=256)
def fit_pieces(name: str, reach: float, error: float) -> FittedPieces | None:
    """The cheapest pieces within the error for |x| up to ``reach``, if any are."""
    found = [
        fitted
        for exponent in _WIDTHS
        if (fitted := _on_cells(name, reach, error, exponent)) is not None
    ]
    return min(found, key=lambda each: (each.bits, each.error), default=None)


def _on_cells(
    name: str, reach: float, error: float, exponent: int
) -> FittedPieces | None:
    """Of cells 2^-exponent wide: those with the least frac."""
    width = 2.0**-exponent
    if 2 * reach > MOST_LEVELS * width:
        return None
    half = _half_range(reach, width)
    squared, steepest, bent = _shape(name, half, exponent)
    if _SWING * math.sqrt(squared) > error:
        return None
    for frac in _FRACS:
        fracs = _best_fracs(frac, exponent, steepest, bent)
        if fracs is None:
            continue
        added = _added(fracs, exponent, steepest, bent)
        if _SWING * math.sqrt(squared + added) > error:
            continue
        pieces, largest = _rounded(name, half, exponent, fracs)
        total = _SWING * math.sqrt(largest + added)
        if total <= error:
            return _priced(pieces, half * width, width, total)
    return None


def _best_fracs(frac: int, exponent: int, steepest: float, bent: float) -> Fracs | None:
    """That of results, and those of distances and of squares by which rounding does
    the least harm."""
    tried = [
        (frac, offset, square)
        for offset, square in product(_OFFSET_FRACS, _SQUARE_FRACS)
        if exponent < offset <= min(frac, exponent + _MOST_OFFSET_BITS)
        and square <= min(frac, 2 * offset)
    ]
    if not tried:
        return None
    return min(
        tried,
        key=lambda fracs: (
            _added(fracs, exponent, steepest, bent) + _of_coefficients(fracs, exponent)
        ),
    )


def _of_coefficients(fracs: Fracs, exponent: int) -> float:
    """The mean square of what is off by coefficients with so few bits, about: what the
    others cannot put right on cells as a piece uses them."""
    (frac, offset, square), width = fracs, 2.0**-exponent
    of_slope = 4.0 ** (offset - frac) / 12 * width**2 / 6
    of_curvature = 4.0 ** (square - frac) / 12 * width**4 * 7 / 180
    return of_slope + of_curvature


def _added(fracs: Fracs, exponent: int, steepest: float, bent: float) -> float:
    """The mean square of what is off by distances and squares with so many bits: a
    rounded number is off by a twelfth of a place squared, the sum of two that are cut
    off by a sixth."""
    frac, offset, square = fracs
    width, slope_ulp = 2.0**-exponent, 2.0 ** (offset - frac)
    of_distance = (steepest * 2.0**-offset) ** 2 / 6
    of_squares = (bent * 2.0**-square) ** 2 / 6
    of_slope = slope_ulp**2 / 6 * width**2 / 12
    return of_distance + of_squares + of_slope


def _half_range(reach: float, width: float) -> int:
    """Cells on either side of zero: as many as the levels leave room for, while results
    take no more bits than those of the reach do."""
    cells = math.ceil(reach / width)
    levels = 8
    while levels - 2 * _guard(levels) - 1 < 2 * cells:
        levels *= 2
    room = (levels - 2 * _guard(levels) - 1) // 2
    below = math.ceil(2.0 ** math.frexp(reach)[1] / width) - 2
    return max(cells, min(room, below))


def _guard(levels: int) -> int:
    return max(1, levels // _GUARD)


@lru_cache(maxsize=256)
def _shape(name: str, half: int, exponent: int) -> tuple[float, float, float]:
    """The mean square of the worst piece's error, with as many bits as it takes; the
    largest slope and the largest curvature."""
    d, y = _points(name, half, exponent)
    c2 = _curvatures(d, y)
    c1 = _slopes(d, y - c2[:, None] * d * d)
    rest = y - c2[:, None] * d * d - c1[:, None] * d
    squares = _means((rest - _means(rest)[:, None]) ** 2)
    return float(squares.max()), float(np.abs(c1).max()), float(np.abs(c2).max())


def _curvatures(d: Reals, y: Reals) -> Reals:
    """Of the parabolas with the least square."""
    centred = d * d - _means(d * d)
    found: Reals = _means(centred * y) / _means(centred**2)
    return found


def _slopes(d: Reals, y: Reals) -> Reals:
    """Of the straight lines with the least square."""
    found: Reals = _means(d * y) / _means(d * d)
    return found


def _means(values: Reals) -> Reals:
    """Of every piece, where it is used."""
    means: Reals = values @ _USE
    return means


@lru_cache(maxsize=1024)
def _rounded(name: str, half: int, exponent: int, fracs: Fracs) -> tuple[Pieces, float]:
    """The best pieces with these fracs of results, distances and squares, and the mean
    square of the worst one's error."""
    frac, offset, square = fracs
    d, y = _points(name, half, exponent)

    def rounded(values: Reals, bits: int) -> tuple[Reals, Reals]:
        integers = np.rint(np.ldexp(values, bits))
        return integers, np.ldexp(integers, -bits)[:, None]

    curvatures, c2 = rounded(_curvatures(d, y), frac - square)
    rest = y - c2 * d * d
    slopes, c1 = rounded(_slopes(d, rest), frac - offset)
    rest -= c1 * d
    constants, c0 = rounded(_means(rest), frac)
    squares = _means((rest - c0) ** 2)
    first, last = _curved(constants, slopes, curvatures, offset - exponent)
    kept = slice(first, last + 1)

    def integers(values: Reals) -> tuple[int, ...]:
        return tuple(int(c) for c in values[kept])

    pieces = Pieces(
        start=first - half - 1,
        constants=integers(constants),
        slopes=integers(slopes),
        curvatures=integers(curvatures),
        frac=frac,
        offset_frac=offset,
        square_frac=square,
    )
    return pieces, float(squares.max())


@lru_cache(maxsize=64)
def _points(name: str, half: int, exponent: int) -> tuple[Reals, Reals]:
    """Distances at which pieces are looked at, and the function there,
    (cells, points)."""
    middles = np.arange(-half - 1, half + 2, dtype=np.float64) * 2.0**-exponent
    d = _PLACES * 2.0**-exponent
    return d, SHAPES[name].function(middles[:, None] + d)


def _curved(
    constants: Reals, slopes: Reals, curvatures: Reals, cell: int
) -> tuple[int, int]:
    """The last of the pieces at the start that are one straight line, and the first of
    those at the end. The outermost are made straight, whatever they are: nothing that
    is in the range lies there."""
    curvatures[0] = curvatures[-1] = 0
    straight = curvatures == 0
    goes_on = (np.diff(constants) == np.ldexp(slopes[:-1], cell)) & (
        np.diff(slopes) == 0
    )
    before = goes_on & straight[:-1] & straight[1:]
    places = np.flatnonzero(~before)
    if places.size == 0:
        return 0, 0
    return int(places[0]), int(places[-1]) + 1


def _priced(
    pieces: Pieces, half: float, width: float, error: float
) -> FittedPieces | None:
    """Pieces with what they cost, if the ring has room for them."""
    source = FxpType(_BITS, pieces.offset_frac)
    high = round(math.ldexp(half, source.frac))
    try:
        grid = Grid(source, -high, high, source.frac + round(math.log2(width)))
        function = PiecewiseQuadratic(grid, _USUAL, pieces)
    except FixedPointTypeError:
        return None
    bits = function.cost(_PRICED, checked=True).bits / _PRICED
    return FittedPieces(pieces, -half, half, width, error, bits)
