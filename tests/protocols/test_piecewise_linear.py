"""Straight lines: every value of a small ring, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols import (
    Grid,
    Lines,
    Party,
    PiecewiseLinear,
    Rounds,
    compute_on_grid,
)
from ditto.protocols import party as party_module
from ditto.sharing import Shared
from tests.protocols import chosen_shares

SOURCE, TARGET = FxpType(12, 5), FxpType(12, 5)
LINES = Lines(-2, (0, -1, 1, 3, 4), (0, -3, 0, -3, 0), slope_frac=2, intercept_frac=4)
GRID = Grid(SOURCE, -3 << 5, 3 << 5, 4)
FUNCTION = PiecewiseLinear(GRID, TARGET, 5, LINES)


def computed(x: Words, x0: Words, function: PiecewiseLinear, rounds: Rounds) -> Words:
    """The integers of the result, of x with a chosen first share."""

    def protocol(party: Party, x: Shared) -> Shared:
        return compute_on_grid(party, x, function, rounds)

    return chosen_shares.computed(protocol, x, x0, SOURCE)


def on_line(x: Words, cells: Words, lines: Lines) -> Words:
    """What the lines of some cells are at x, as real numbers."""
    i = np.clip(cells - lines.start, 0, len(lines.slopes) - 1)
    slopes = np.ldexp(np.array(lines.slopes, float), -lines.slope_frac)[i]
    return slopes * x + np.ldexp(np.array(lines.intercepts, float)[i], -4)


@pytest.fixture(autouse=True)
def _whole_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles are those of the parties then."""
    monkeypatch.setattr(party_module, "SPLIT_FROM", 1 << 30)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("operand_frac", [3, 5, 6])
def test_every_value_with_every_first_share_is_on_its_line(
    rounds: int, operand_frac: int
) -> None:
    """On that of its own cell if the shares carry there, else on the one before."""
    function = replace(FUNCTION, operand_frac=operand_frac)
    values = np.arange(GRID.low, GRID.high)
    x, x0 = (v.reshape(-1) for v in np.meshgrid(values, np.arange(0, 1 << 12, 3)))
    got = computed(x, x0, function, rounds) * TARGET.ulp
    ring, cut = SOURCE.ring, GRID.cut
    a = ring.reduce(x0 - GRID.base + (1 << cut)).astype(np.int64)
    s = ring.reduce(x - x0).astype(np.int64)
    level = ((a >> cut) + (s >> cut)) % GRID.levels
    expected = on_line(x * SOURCE.ulp, level + (GRID.base >> cut), LINES)
    assert np.abs(got - expected).max() <= function.error * TARGET.ulp
    shifted = (x - GRID.base >> cut) + 1 - level
    assert set(shifted % GRID.levels) == {0, 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"grid": Grid(SOURCE, 1 - (3 << 5), 3 << 5, 4)}, "multiple of 16"),
        ({"operand_frac": 1, "lines": replace(LINES, slope_frac=2)}, "finer than"),
        ({"operand_frac": 9}, "no room"),
        ({"far_words": 4}, "at most 3 words"),
        ({"target": FxpType(64, 20)}, "no piecewise linear function"),
    ],
)
def test_what_the_ring_has_no_room_for_is_refused(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(FixedPointTypeError, match=reason):
        replace(FUNCTION, **change)


def test_lines_that_are_none_are_refused() -> None:
    with pytest.raises(FixedPointTypeError, match="a slope and an intercept each"):
        Lines(0, (1, 2), (1,), 2, 2)
    with pytest.raises(FixedPointTypeError, match="fracs from 0 to 30"):
        Lines(0, (1,), (1,), 31, 2)
    with pytest.raises(FixedPointTypeError, match="at most 31 bits"):
        Lines(0, (0, 1 << 20), (0, 1 << 20), 2, 2)
