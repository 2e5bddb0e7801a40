"""The range check: what is noted, by enumeration; how flags become a word."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import (
    Exponential,
    Grid,
    Pieces,
    PiecewiseQuadratic,
    TableFunction,
    coarse_max,
    compute_on_grid,
    memory_channels,
    multiply,
    recast,
    recast_in_place,
    reveal_range_word,
    table_function,
)
from ditto.protocols.blocks import FAR_REACH, Rounds, range_check, wraps
from ditto.protocols.blocks.range_check import VERDICT_BITS, fold
from ditto.protocols.party import Party, Role
from ditto.sharing import RANKS, Rank, Shared, deal
from tests.conformance.scripted import Name, ScriptedParty

Job = Callable[[Party], Words]


def run(job: Job, seed: int = 0) -> tuple[list[Words], int]:
    """What three parties make of a job, and the XOR of their words."""

    def source(name: Name, count: int, ring: Ring) -> Words:
        rng = np.random.default_rng([seed, *repr(name).encode()])
        return ring.reduce(rng.integers(0, 1 << 63, count, np.uint64))

    parties = [ScriptedParty(channel, source) for channel in memory_channels()]
    made: list[Words] = [np.zeros(0, np.uint32)] * 3

    def work(rank: Rank) -> None:
        made[rank] = job(parties[rank])

    threads = [threading.Thread(target=work, args=(rank,)) for rank in RANKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    words = [party.range_word for party in parties]
    return made, words[0] ^ words[1] ^ words[2]


def flags_of(
    monkeypatch: pytest.MonkeyPatch, job: Job, count: int
) -> npt.NDArray[np.bool_]:
    """Which elements are noted, in a job of one instance with flags of each once."""
    shares: list[Words] = []
    for module in (range_check, wraps):
        monkeypatch.setattr(module, "fold", lambda _, flags, __: shares.append(flags))
    run(job)
    one, other = shares
    return np.unpackbits(one ^ other)[:count].astype(np.bool_)


@pytest.mark.parametrize(
    ("bits", "cut", "rounds"), [(8, 3, 2), (9, 4, 1), (10, 7, 2), (9, 3, None)]
)
def test_every_recast_that_comes_out_wrong_is_noted_and_no_legal_one(
    monkeypatch: pytest.MonkeyPatch, bits: int, cut: int, rounds: Rounds | None
) -> None:
    """All values of the ring with all summands of P0 and P2; None is in place."""
    monkeypatch.setattr("ditto.protocols.party.SPLIT_FROM", 1 << 30)
    source, target = FxpType(bits, cut), FxpType(bits, 0)
    size = 1 << bits
    x, x0 = (grid.reshape(-1) for grid in np.mgrid[-size // 2 : size // 2, 0:size])
    ring = source.ring
    rest = ring.reduce(x - x0)
    x1 = np.random.default_rng(1).integers(0, size, x.size)
    shares = [ring.reduce(x0), ring.reduce(x1), ring.reduce(rest - x1)]
    held = [Shared(shares[r], shares[(r + 1) % 3], source) for r in range(3)]
    results: dict[int, Shared] = {}

    def job(party: Party) -> Words:
        mine = held[party.rank]
        results[party.rank] = (
            recast(party, mine, target, rounds=rounds, checked=True)
            if rounds
            else recast_in_place(party, mine, target, checked=True)
        )
        return results[party.rank].first

    noted = flags_of(monkeypatch, job, x.size)
    total = sum(results[r].first.astype(np.int64) for r in range(3))
    got = target.ring.signed(target.ring.reduce(total)).astype(np.int64)
    # centred: only what is off by more than one unit is wrong, or one and a half
    most = (1 << cut) if rounds else 3 * (1 << cut) // 2
    wrong = np.abs((got << cut) - x) > most
    legal = np.abs(x) < source.limit
    assert not (noted & legal).any()
    assert not (wrong & legal).any()
    assert wrong.any()
    assert not (wrong & ~noted).any()


class Fixed:
    """Masks of one draw that is kept."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def draw(self, purpose: str, size: int, ring: Ring) -> Words:
        assert (purpose, ring.bits) == ("fold", 8)
        self.string = self._rng.integers(0, 256, size, np.uint8)
        return self.string


def test_a_word_is_a_product_with_a_random_toeplitz_matrix() -> None:
    """By its definition, bit by bit; so flags that are set show, but for 2^-40."""
    rng = np.random.default_rng(3)
    for count in (1, 7, 8, 64, 200, 4096, 5000):
        masks, noted = Fixed(rng), []
        role = Role(Rank.P0, masks, masks, masks, noted.append)  # type: ignore[arg-type]
        flags = rng.integers(0, 2, count, np.uint8)
        fold(role, np.packbits(flags), masks)  # type: ignore[arg-type]
        bits = np.unpackbits(masks.string)
        due = [
            int(flags @ bits[k : k + count].astype(np.int64)) % 2
            for k in range(VERDICT_BITS)
        ]
        (word,) = noted
        got = [int(bit) for bit in f"{word:0{VERDICT_BITS}b}"]
        order = [8 * start + shift for shift in range(8) for start in range(5)]
        assert got == [due[k] for k in order]


@pytest.mark.parametrize("place", [0, 1, 8, 4095, 12_000, 29_999])
def test_one_value_out_of_range_anywhere_is_seen(place: int) -> None:
    """In a tensor that is worked on in three parts, among values at the limit."""
    kind = FxpType(32, 16)
    values = np.full(30_000, kind.limit - 1)
    values[1::2] = 1 - kind.limit

    def job(given: Words) -> Job:
        shares = deal(kind.ring.reduce(given), kind)
        return lambda party: (
            recast(party, shares[party.rank], FxpType(32, 8), checked=True).first
        )

    assert run(job(values))[1] == 0
    values[place] = int(1.9 * kind.limit) * (1 if place % 2 else -1)
    assert any(run(job(values), seed)[1] for seed in range(12))


def test_what_is_not_checked_notes_nothing() -> None:
    kind = FxpType(32, 12)
    far = deal(kind.ring.reduce(np.full(64, 37_000)), kind)
    for checked in (False, True):
        _, word = run(
            lambda party, checked=checked: (
                multiply(
                    party, far[party.rank], far[party.rank], kind, checked=checked
                ).first
            )
        )
        assert bool(word) == checked


def reached(grid: Grid, x: float, seed: int) -> bool:
    """Whether one score x among others in the grid is noted."""
    rng = np.random.default_rng(seed)
    row = rng.integers(grid.low, grid.high, (4, 9))
    row[2, 5] = x
    shares = deal(grid.type.ring.reduce(row), grid.type)
    _, word = run(
        lambda party: coarse_max(party, shares[party.rank], grid, checked=True).first,
        seed,
    )
    return word != 0


def test_scores_beyond_the_grid_are_noted_near_and_far() -> None:
    kind = FxpType(32, 10)
    grid = Grid(kind, -28 << 10, 27 << 10, 10)  # 56 levels of 64 are needed
    assert (grid.levels, len(grid.legal)) == (64, 56)
    step, width = 1 << grid.cut, grid.levels << grid.cut
    for seed in range(4):
        assert not reached(grid, grid.low, seed)
        assert not reached(grid, grid.high - 1, seed)
        guard = grid.legal.start
        for beyond in (1.01, 2.5, guard - 0.01):  # a level may come out one lower
            assert reached(grid, grid.low - beyond * step, seed)
            assert reached(grid, grid.high + beyond * step, seed)
        for beyond in (0.13, 0.4, 0.8):
            assert reached(grid, grid.base - beyond * width, seed)
            assert reached(grid, grid.base + (1 + beyond) * width, seed)


@pytest.mark.parametrize("words", [1, 2, 3])
def test_values_beyond_pieces_are_noted_near_and_far(words: int) -> None:
    """Further out with every word: between what one sees and what the next does."""
    kind = FxpType(32, 10)
    grid = Grid(kind, -14 << 10, 14 << 10, 9)  # 58 levels of 64 are needed
    pieces = Pieces(0, (0, 1 << 9), (0, 1 << 2), (0, 0), 10, 8, 8)
    function = PiecewiseQuadratic(grid, kind, pieces, words)
    assert (grid.levels, len(grid.legal)) == (64, 57)

    def seen(x: float, seed: int) -> bool:
        shares = deal(kind.ring.reduce(np.array([0, int(x), 5 << 10])), kind)
        _, word = run(
            lambda party: (
                (
                    compute_on_grid(party, shares[party.rank], function, checked=True)
                ).first
            ),
            seed,
        )
        return word != 0

    step, width = 1 << grid.cut, grid.levels << grid.cut
    reach = FAR_REACH[words]
    for seed in range(4):
        assert not seen(grid.low, seed)
        assert not seen(grid.high - 1, seed)
        for beyond in (1.01, 2.5):
            assert seen(grid.low - beyond * step, seed)
            assert seen(grid.high + beyond * step, seed)
        for beyond in (0.13, 0.3 * reach, 0.6 * reach, reach):
            assert seen(grid.base - beyond * width, seed)
            assert seen(grid.base + (1 + beyond) * width, seed)


def test_values_beyond_an_exponential_are_noted_near_and_far() -> None:
    kind = FxpType(32, 8)
    grid = Grid(kind, -50 << 8, 2 << 8, 10)
    function = Exponential(grid, FxpType(32, 15), 16, 10)
    assert (grid.levels, len(grid.legal)) == (16, 14)

    def seen(x: float, seed: int) -> bool:
        shares = deal(kind.ring.reduce(np.array([0, int(x), -5 << 8])), kind)
        _, word = run(
            lambda party: (
                compute_on_grid(party, shares[party.rank], function, checked=True).first
            ),
            seed,
        )
        return word != 0

    step, width = 1 << grid.cut, grid.levels << grid.cut
    for seed in range(4):
        assert not seen(grid.low, seed)
        assert not seen(grid.high - 1, seed)
        assert seen(grid.low - 1.01 * step, seed)
        assert seen(grid.high + 1.01 * step, seed)
        for beyond in (0.13, 0.4, 0.75):
            assert seen(grid.base - beyond * width, seed)
            assert seen(grid.base + (1 + beyond) * width, seed)


def test_values_beyond_a_table_are_noted() -> None:
    source, target = FxpType(32, 16), FxpType(32, 20)
    table = TableFunction("reciprocal", source, target, 1 << 15, 60 << 16)
    (scale,) = table.scales
    spare = scale.cells - scale.needed
    assert spare > 2

    def seen(x: int, seed: int) -> bool:
        shares = deal(source.ring.reduce(np.array([1 << 16, x, 30 << 16])), source)
        _, word = run(
            lambda party: (
                table_function(party, shares[party.rank], table, checked=True).first
            ),
            seed,
        )
        return word != 0

    for seed in range(4):
        assert not seen(table.low, seed)
        assert not seen(table.high - 1, seed)
        assert seen(table.high + (2 << scale.cut), seed)
        assert seen(table.low - (2 << scale.cut), seed)


@pytest.mark.parametrize("bits", [25, 27, 32])
def test_what_leaves_a_table_is_noted_far_beyond_it(bits: int) -> None:
    """Cells count around: a sum a little too large must not be found among others."""
    source, target = FxpType(bits, 14), FxpType(32, 20)
    table = TableFunction("rsqrt", source, target, 50 << 14, 250 << 14)
    (scale,) = table.scales
    assert scale.room >= table.high or scale.cut + scale.levels == bits
    most = min(table.high + scale.room, 2 * source.limit)
    for k, x in enumerate(np.linspace(table.high + (2 << scale.cut), most - 1, 12)):
        values = source.ring.reduce(np.array([int(x)]))
        shares = deal(values, source)
        _, word = run(
            lambda party, held=shares: (
                table_function(party, held[party.rank], table, checked=True).first
            ),
            k,
        )
        assert word != 0


def test_the_client_gets_zero_or_a_word_that_tells_nothing() -> None:
    """Masks cancel; two parties' words are uniform whatever the third's is."""

    def sent(word: int, seed: int) -> list[int]:
        def job(party: Party) -> Words:
            party.range_word = word if party.rank == 1 else 0
            made = reveal_range_word(party)
            assert party.range_word == 0
            return made

        return [int(w[0]) for w in run(job, seed)[0]]

    pairs: Sequence[list[int]] = [sent(0, seed) for seed in range(40)]
    assert all(a ^ b ^ c == 0 for a, b, c in pairs)
    assert len({word for words in pairs for word in words}) == 120
    assert all(0 <= word < 1 << VERDICT_BITS for words in pairs for word in words)
    a, b, c = sent(5, 1)
    assert a ^ b ^ c == 5
