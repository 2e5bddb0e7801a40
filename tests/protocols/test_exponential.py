"""Exponentials: every value of a small ring, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols import Exponential, Grid, Party, Rounds, compute_on_grid
from ditto.protocols import party as party_module
from ditto.sharing import Shared
from tests.protocols import chosen_shares

SOURCE, TARGET = FxpType(12, 3), FxpType(20, 10)
GRID = Grid(SOURCE, -22 << 3, 1 << 3, 4)
"""Twelve cells of two; live are those from -7 on."""
FUNCTION = Exponential(GRID, TARGET, 9, 7)


def computed(x: Words, x0: Words, function: Exponential, rounds: Rounds) -> Words:
    """The integers of the result, of x with a chosen first share."""

    def protocol(party: Party, x: Shared) -> Shared:
        return compute_on_grid(party, x, function, rounds)

    return chosen_shares.computed(protocol, x, x0, SOURCE)


@pytest.fixture(autouse=True)
def _whole_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles are those of the parties then."""
    monkeypatch.setattr(party_module, "SPLIT_FROM", 1 << 30)


@pytest.mark.parametrize(("source", "reach", "bits"), [(20, 59, 222), (24, 440, 334)])
def test_what_a_softmax_of_a_plan_pays(source: int, reach: int, bits: int) -> None:
    """Bits of an element in four rounds, and in three."""
    kind = FxpType(source, 12)
    grid = Grid(kind, -reach << 12, 1 << 12, 14)
    function = Exponential(grid, FxpType(32, 12), 16, 10, far_words=0)
    slow, fast = (function.cost(1024, rounds, checked=True) for rounds in (2, 1))
    assert (slow.bits / 1024, slow.rounds) == (bits, 4)
    assert (fast.bits / 1024, fast.rounds) == (bits + 16, 3)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("high", [-3, 1, 2])
def test_every_value_with_every_first_share_is_its_exponential(
    rounds: int, high: int
) -> None:
    """Or nothing where its cell is none of the live ones."""
    grid = Grid(SOURCE, -22 << 3, high << 3, 4)
    function = replace(FUNCTION, grid=grid)
    values = np.arange(grid.low, grid.high)
    x, x0 = (v.reshape(-1) for v in np.meshgrid(values, np.arange(0, 1 << 12, 3)))
    got = computed(x, x0, function, rounds)
    ring, cut = SOURCE.ring, grid.cut
    a = ring.reduce(x0 - grid.base + (1 << cut)).astype(np.int64)
    s = ring.reduce(x - x0).astype(np.int64)
    level = ((a >> cut) + (s >> cut)) % grid.levels
    live = (level >= function.live.start) & (level < function.live.stop)
    exact = np.exp(x * SOURCE.ulp) / TARGET.ulp
    close = function.rounding / TARGET.ulp + 1
    assert np.abs(got - np.where(live, exact, 0.0)).max() <= close
    certain, nothing = function.ends
    assert live[x * SOURCE.ulp >= certain].all()
    assert not live[x * SOURCE.ulp < nothing].any()
    assert np.abs(got - exact).max() <= function.error


def test_on_a_range_of_few_cells_all_of_them_are_live() -> None:
    grid = Grid(SOURCE, -1 << 3, 1 << 3, 4)
    function = replace(FUNCTION, grid=grid)
    x = np.arange(grid.low, grid.high).repeat(64)
    x0 = np.resize(np.arange(0, 1 << 12, 67), x.shape)
    exact = np.exp(x * SOURCE.ulp) / TARGET.ulp
    bound = function.rounding / TARGET.ulp + 1
    assert np.abs(computed(x, x0, function, 2) - exact).max() <= bound


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"table_frac": 25}, "there are 32"),
        ({"factor_frac": -1}, "fracs 9 and -1"),
        ({"far_words": 4}, "at most 3 words"),
        ({"target": FxpType(64, 20)}, "no exponential from"),
        ({"grid": Grid(FxpType(32, 20), -8 << 20, 1 << 20, 18)}, "at most 2\\^16"),
    ],
)
def test_what_the_ring_has_no_room_for_is_refused(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(FixedPointTypeError, match=reason):
        replace(FUNCTION, **change)
