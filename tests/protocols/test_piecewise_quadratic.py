"""Parabolas on cells: every value of a small ring, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols import (
    Grid,
    Party,
    Pieces,
    PiecewiseQuadratic,
    Rounds,
    compute_on_grid,
)
from ditto.protocols import party as party_module
from ditto.sharing import Shared
from tests.protocols import chosen_shares

SOURCE, TARGET = FxpType(12, 5), FxpType(12, 5)
PIECES = Pieces(
    -2,
    constants=(192, 100, -7, 40, 256),
    slopes=(-20, -9, 1, 13, 30),
    curvatures=(0, 9, 14, -6, 0),
    frac=8,
    offset_frac=5,
    square_frac=4,
)
MUCH_BENT = replace(PIECES, curvatures=(0, *[3 << 28] * 3, 0), square_frac=0)
GRID = Grid(SOURCE, -3 << 5, 3 << 5, 4)
FUNCTION = PiecewiseQuadratic(GRID, TARGET, PIECES)


def computed(
    x: Words, x0: Words, function: PiecewiseQuadratic, rounds: Rounds
) -> Words:
    """The integers of the result, of x with a chosen first share."""

    def protocol(party: Party, x: Shared) -> Shared:
        return compute_on_grid(party, x, function, rounds)

    return chosen_shares.computed(protocol, x, x0, SOURCE)


def on_piece(x: Words, cells: Words, pieces: Pieces, width: float) -> Words:
    """What the pieces of some cells are at x, as real numbers."""
    i = np.clip(cells - pieces.start, 0, len(pieces.slopes) - 1)
    c0, c1, c2 = (each[i] for each in pieces.real())
    d = x - (i + pieces.start) * width
    return c0 + c1 * d + c2 * d * d


@pytest.fixture(autouse=True)
def _whole_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles are those of the parties then."""
    monkeypatch.setattr(party_module, "SPLIT_FROM", 1 << 30)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("fracs", [(8, 5, 4), (8, 3, 2), (9, 7, 7)])
def test_every_value_with_every_first_share_is_on_its_piece(
    rounds: int, fracs: tuple[int, int, int]
) -> None:
    """On that of its own cell if the shares carry there, else on the one before: with
    distances as fine as x, coarser and finer ones."""
    frac, offset, square = fracs
    pieces = replace(PIECES, frac=frac, offset_frac=offset, square_frac=square)
    function = replace(FUNCTION, pieces=pieces)
    values = np.arange(GRID.low, GRID.high)
    x, x0 = (v.reshape(-1) for v in np.meshgrid(values, np.arange(0, 1 << 12, 3)))
    got = computed(x, x0, function, rounds) * TARGET.ulp
    ring, cut = SOURCE.ring, GRID.cut
    a = ring.reduce(x0 - GRID.base + (1 << cut)).astype(np.int64)
    s = ring.reduce(x - x0).astype(np.int64)
    level = ((a >> cut) + (s >> cut)) % GRID.levels
    width = 2.0**-function.cell_frac
    cells = level + (GRID.base >> cut)
    expected = on_piece(x * SOURCE.ulp, cells, pieces, width)
    assert np.abs(got - expected).max() <= function.error * TARGET.ulp
    # what is cut off of distances is put back but for an ulp of x, as in a recast
    put_back = SOURCE.ulp if offset < SOURCE.frac else 0.0
    moved = on_piece(x * SOURCE.ulp + put_back, cells, pieces, width)
    of_recast = 2.0**-function.conversion.cut
    assert abs((got - moved).mean() / TARGET.ulp - of_recast) < 1 / 16
    shifted = (x - GRID.base >> cut) + 1 - level
    assert set(shifted % GRID.levels) == {0, 1}


@pytest.mark.parametrize("frac", [1, 3])
def test_what_fills_its_ring_is_not_cut_into_the_next(frac: int) -> None:
    """With the bits that are left out, a sum goes further than the result."""
    flat = Pieces(-2, (8177,) * 5, (0,) * 5, (0,) * 5, 12, 5, 4)
    target = FxpType(20, frac)
    function = PiecewiseQuadratic(GRID, target, flat)
    x0 = np.arange(0, 1 << 12)
    for x in (GRID.low, 0, GRID.high - 1):
        got = computed(np.full_like(x0, x), x0, function, 2) * target.ulp
        assert np.abs(got - 8177 / 4096).max() <= function.error * target.ulp


def test_the_first_and_the_last_piece_hold_beyond() -> None:
    cells = np.arange(-9, 9)
    c0, c1, c2 = PIECES.at(cells, 1)
    middles = cells * 0.5
    expected = on_piece(middles, cells, PIECES, 0.5)
    assert np.allclose(np.ldexp(c0, -PIECES.frac), expected)
    assert np.array_equal(c1[:8], [-20] * 8)
    assert not c2[[0, 1, -2, -1]].any()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"grid": Grid(SOURCE, 1 - (3 << 5), 3 << 5, 4)}, "multiple of 16"),
        ({"pieces": replace(PIECES, offset_frac=1, square_frac=1)}, "have 0 bits"),
        ({"pieces": replace(PIECES, constants=(1 << 31,) * 5)}, "there are 32"),
        ({"pieces": MUCH_BENT}, "take 32 bits"),
        ({"far_words": 4}, "at most 3 words"),
        ({"target": FxpType(64, 20)}, "no piecewise quadratic function"),
    ],
)
def test_what_the_ring_has_no_room_for_is_refused(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(FixedPointTypeError, match=reason):
        replace(FUNCTION, **change)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"slopes": (1, 2)}, "three coefficients each"),
        ({"curvatures": (1, 0, 0, 0, 0)}, "straight lines"),
        ({"offset_frac": 9}, "cannot have distances"),
        ({"square_frac": 11, "frac": 12}, "cannot have distances"),
        ({"square_frac": 0, "offset_frac": 16, "frac": 16}, "cannot have distances"),
    ],
)
def test_pieces_that_are_none_are_refused(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(FixedPointTypeError, match=reason):
        replace(PIECES, **change)
