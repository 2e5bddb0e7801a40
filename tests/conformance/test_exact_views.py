"""Views by exact enumeration: all masks, all shares, small rings, every secret.

A protocol works element by element, so one run on a tensor that holds every
combination of input shares and masks gives the exact joint distribution of what each
party sees. It must be the same for every secret, whether in the legal range or not.
"""

import threading
from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import (
    Party,
    memory_channels,
    multiply,
    recast,
    square,
    upcast_paper,
)
from ditto.protocols import party as party_module
from ditto.protocols.party import Exchange, Expected, Field, Inbox, Role, Steps
from ditto.sharing import RANKS, Rank, Shared, Stream

Draws = dict[tuple[str, str], Words]
"""(whose mask, purpose) -> values."""


class Table:
    """Masks that are looked up; notes what it was asked for."""

    def __init__(self, whose: str, draws: Draws, asked: dict) -> None:
        self._whose, self._draws, self._asked = whose, draws, asked

    def draw(self, purpose: str, count: int, ring: Ring) -> Words:
        self._asked[self._whose, purpose] = ring.bits
        values = self._draws.get((self._whose, purpose))
        return np.zeros(count, ring.dtype) if values is None else values


class TablePlayer(Party):
    """A party that draws from a table and writes its view down."""

    def __init__(self, channel, draws: Draws, asked: dict) -> None:
        super().__init__(
            channel, with_next=Stream.private(), with_previous=Stream.private()
        )
        self._draws, self._asked = draws, asked
        self.view: list[Words] = []

    def _role(self, rotation: int) -> Role:
        super()._role(rotation)
        ends = (self.rank, self.rank.previous)
        pairs = [f"P{end:d}-P{end.next:d}" for end in ends]
        mine = [*pairs, f"P{self.rank:d}"]
        self.view += [v for (whose, _), v in sorted_items(self._draws) if whose in mine]
        tables = [Table(whose, self._draws, self._asked) for whose in mine]
        return Role(self.rank.rotated(-rotation), *tables)

    def _exchange(
        self, exchanges: dict[int, Exchange], running: dict[int, tuple[Steps, int]], tag
    ) -> dict[int, Inbox | None]:
        inboxes = super()._exchange(exchanges, running, tag)
        for inbox in inboxes.values():
            for _, fields in sorted_items(inbox or {}):
                self.view += fields
        return inboxes


def sorted_items(table: dict) -> list:
    return sorted(table.items(), key=lambda item: item[0])


def play(run: Callable, operands: list[list[Shared]], draws: Draws):
    """Three threads; their views and what masks they asked for."""
    asked: dict[tuple[str, str], int] = {}
    channels = memory_channels(timeout=20)
    players = [TablePlayer(channel, draws, asked) for channel in channels]

    def work(rank: Rank) -> None:
        run(players[rank], *(held[rank] for held in operands))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in RANKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [player.view for player in players], asked


def share_grid(secret: int, x0: Words, x1: Words, kind: FxpType) -> list[Shared]:
    reduce = kind.ring.reduce
    shares = [reduce(x0), reduce(x1), reduce(np.uint64(secret) - x0 - x1)]
    return [Shared(shares[r], shares[(r + 1) % 3], kind) for r in range(3)]


def distributions(run: Callable, kinds: list[FxpType], secrets: list[int]) -> list:
    """For each party, how often each view occurs over all shares and masks."""
    ones = [
        share_grid(0, np.zeros(1, np.uint64), np.zeros(1, np.uint64), k) for k in kinds
    ]
    _, asked = play(run, ones, {})
    sizes = [2**k.bits for k in kinds for _ in range(2)] + [
        2**b for b in asked.values()
    ]
    assert prod(sizes) <= 1 << 19, "too many combinations to enumerate"
    grid = np.indices(sizes, np.uint64).reshape(len(sizes), -1)
    given, masks = grid[: 2 * len(kinds)], grid[2 * len(kinds) :]
    operands = [
        share_grid(secret, given[2 * i], given[2 * i + 1], kind)
        for i, (secret, kind) in enumerate(zip(secrets, kinds, strict=True))
    ]
    draws = {
        name: Ring(bits).reduce(values)
        for (name, bits), values in zip(asked.items(), masks, strict=True)
    }
    views, _ = play(run, operands, draws)
    found = []
    for rank, view in enumerate(views):
        held = [s[rank] for s in operands]
        columns = [half for x in held for half in (x.first, x.second)] + view
        assert len(columns) <= 15
        assert all(column.max() < 16 for column in columns)
        keys = np.zeros(grid.shape[1], np.int64)
        for column in columns:  # a view as one number, four bits a field
            keys = keys * 16 + column.astype(np.int64)
        found.append(np.unique(keys, return_counts=True))
    return found


def fxp(bits: int, frac: int) -> FxpType:
    return FxpType(bits=bits, frac=frac)


CASES = {
    "truncate in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(4, 1)]),
    "truncate in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(4, 1)]),
    "upcast in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(3, 0)]),
    "upcast in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(3, 0)]),
    "both in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(3, 1)]),
    "both in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(3, 1)]),
    "downcast with carry": (lambda p, x: recast(p, x, fxp(3, 0)), [fxp(4, 2)]),
    "multiply": (multiply, [fxp(2, 0), fxp(2, 0)]),
    "fused multiply in two": (
        lambda p, x, y: multiply(p, x, y, fxp(3, 0)),
        [fxp(2, 0), fxp(2, 0)],
    ),
    "fused multiply in one": (
        lambda p, x, y: multiply(p, x, y, fxp(3, 0), 1),
        [fxp(2, 0), fxp(2, 0)],
    ),
    "fused square, no carry": (lambda p, x: square(p, x, fxp(2, 0)), [fxp(4, 1)]),
    "the paper's upcast": (lambda p, x: upcast_paper(p, x, fxp(3, 0)), [fxp(2, 0)]),
}


def tells(run: Callable, kinds: list[FxpType]) -> list[str]:
    """Which party can tell which secret from zero."""
    reference = distributions(run, kinds, [0] * len(kinds))
    found = []
    for secret in range(1, 2 ** kinds[0].bits):
        seen = distributions(run, kinds, [secret] * len(kinds))
        for rank, (now, before) in enumerate(zip(seen, reference, strict=True)):
            if not all(map(np.array_equal, now, before)):
                found.append(f"P{rank} tells {secret} from 0")
    return found


@pytest.fixture(autouse=True)
def _whole_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party_module, "SPLIT_FROM", 1 << 30)


@pytest.mark.parametrize("case", CASES)
def test_every_secret_looks_the_same(case: str) -> None:
    assert tells(*CASES[case]) == []


def test_a_protocol_that_leaks_one_bit_is_caught() -> None:
    def leaky(party: Party, x: Shared) -> None:
        def instance(role: Role) -> Steps[None]:
            if role.rank == Rank.P0:
                yield Exchange(send={Rank.P1: [Field(x.first, 1)]})
            elif role.rank == Rank.P1:
                yield Exchange(receive={Rank.P0: [Expected(x.size, 1)]})

        party.run(instance, rotation=0)

    caught = tells(leaky, [fxp(3, 0)])
    assert caught == [f"P1 tells {odd} from 0" for odd in (1, 3, 5, 7)]
