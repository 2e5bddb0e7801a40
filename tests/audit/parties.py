"""Three parties that multiply and prove it, one of which may deviate."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from ditto.audit.proof import Fault, audit_cost, prove_ledger
from ditto.errors import PeerError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import (
    einsum,
    memory_channels,
    multiply,
    recast_in_place,
    square,
    sum_of_squares,
)
from ditto.protocols.channel import Channel
from ditto.protocols.cost import Cost
from ditto.protocols.ledger import Ledger
from ditto.protocols.multiply import multiply_task
from ditto.protocols.party import Exchange, Field, Inbox, Party
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Shared, deal

from ..conformance.scripted import Name, ScriptedParty

TYPE, WIDE = FxpType(32, 12), FxpType(64, 18)
Protocol = Callable[..., Shared]
Alter = Callable[[int, dict[int, Exchange]], None]
"""Changes what is sent in an exchange, by its number."""


@dataclass(frozen=True)
class Case:
    """A product, and the shapes of what is multiplied."""

    run: Protocol
    shapes: tuple[tuple[int, ...], ...]
    type: FxpType = TYPE

    def deal(self, seed: int) -> list[tuple[Shared, ...]]:
        """Random operands, of each party."""
        rng = np.random.default_rng(seed)
        high = 1 << self.type.bits
        dealt = [
            deal(rng.integers(0, high, shape, self.type.ring.dtype), self.type)
            for shape in self.shapes
        ]
        return list(zip(*dealt, strict=True))


def product(subscripts: str, *rest: object) -> Protocol:
    return lambda party, x, y: einsum(party, subscripts, x, y, *rest)  # type: ignore[arg-type]


def _recast(to: FxpType, *, checked: bool = False) -> Protocol:
    return lambda party, x: recast_in_place(party, x, to, checked=checked)


CASES = {
    "multiply": Case(multiply, ((3, 5), (3, 5))),
    "multiply + recast": Case(lambda p, x, y: multiply(p, x, y, TYPE), ((3, 5),) * 2),
    "multiply + recast in parts": Case(
        lambda p, x, y: multiply(p, x, y, TYPE), ((7, 9),) * 2
    ),
    "rows": Case(lambda p, x, y: multiply(p, x, y, TYPE), ((7, 9), (7, 1))),
    "columns": Case(lambda p, x, y: multiply(p, x, y, TYPE, 1), ((1, 9), (7, 9))),
    "single elements": Case(lambda p, x, y: multiply(p, x, y, TYPE), ((1, 1), ())),
    "scalar": Case(lambda p, x, y: multiply(p, x, y, TYPE), ((3, 5), ())),
    "square": Case(lambda p, x: square(p, x, TYPE), ((3, 5),)),
    "sum of squares": Case(lambda p, x: sum_of_squares(p, x, TYPE), ((4, 8),)),
    "sum of few squares": Case(sum_of_squares, ((7, 3),)),
    "matmul": Case(product("ij,jk->ik"), ((4, 6), (6, 5))),
    "matmul + recast": Case(product("ij,jk->ik", TYPE), ((4, 6), (6, 5))),
    "matmul + recast in parts": Case(product("ij,jk->ik", TYPE), ((7, 3), (3, 11))),
    "matmul turned, in parts": Case(product("ij,jk->ki", TYPE), ((7, 3), (3, 11))),
    "heads in parts": Case(
        product("abcd,adbe->abce", TYPE), ((1, 3, 5, 2), (1, 2, 3, 7))
    ),
    "wide multiply": Case(lambda p, x, y: multiply(p, x, y, WIDE), ((3, 2),) * 2, WIDE),
    "wide matmul": Case(product("ij,jk->ik"), ((3, 4), (4, 2)), WIDE),
}
"""Every kind of product that is audited: with and without a recast, cut in parts."""
RECASTS = {
    "truncate": Case(_recast(TYPE), ((3, 5),), FxpType(32, 20)),
    "upcast": Case(_recast(WIDE), ((3, 5),), TYPE),
    "truncate + upcast": Case(_recast(FxpType(64, 10)), ((2, 3),), FxpType(32, 20)),
    "one bit of carry": Case(_recast(FxpType(32, 11)), ((3, 5),)),
    "wide truncate": Case(_recast(WIDE), ((2, 3),), FxpType(64, 36)),
    "recast in parts": Case(_recast(TYPE), ((7, 9),), FxpType(32, 20)),
    "provable multiply": Case(
        lambda p, x, y: multiply(p, x, y, TYPE, provable=True), ((3, 5),) * 2
    ),
    "provable square": Case(lambda p, x: square(p, x, TYPE, provable=True), ((3, 5),)),
    "provable matmul in parts": Case(
        lambda p, x, y: einsum(p, "ij,jk->ik", x, y, TYPE, provable=True),
        ((7, 3), (3, 11)),
    ),
    "provable sum of squares": Case(
        lambda p, x: sum_of_squares(p, x, TYPE, provable=True), ((4, 8),)
    ),
    "checked truncate": Case(_recast(TYPE, checked=True), ((4, 4),), FxpType(32, 20)),
    "checked upcast": Case(_recast(WIDE, checked=True), ((2, 4),), TYPE),
    "checked wide truncate": Case(
        _recast(WIDE, checked=True), ((2, 4),), FxpType(64, 36)
    ),
    "checked square in parts": Case(
        lambda p, x: p.run_task(multiply_task(x, x, TYPE, checked=True, provable=True)),
        ((9, 8),),
    ),
}
"""Provable recasts, by themselves and after every kind of product, also checked. What
is checked has a multiple of eight elements: no bit of a message is of no use."""
SPLIT_FROM = 48
"""Elements from which a tensor is cut in parts here."""


def masks_from(seed: int, shifts: dict[Name, Words]) -> Callable[..., Words]:
    """Masks that follow from a seed, some of them shifted."""

    def source(name: Name, count: int, ring: Ring) -> Words:
        whose, step, purpose = name
        text = f"{seed} {whose} {step} {purpose}".encode()
        number = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
        rng = np.random.default_rng(number)
        drawn = rng.integers(0, (1 << ring.bits) - 1, count, ring.dtype, endpoint=True)
        return ring.reduce(drawn + shifts[name]) if name in shifts else drawn

    return source


class Trying(ScriptedParty):
    """A party that may change what it sends."""

    def __init__(
        self, channel: Channel, source: Callable[..., Words], alter: Alter | None
    ) -> None:
        super().__init__(channel, source)
        self.alter, self.exchanges = alter, 0
        self.fields: list[int] = []
        """Sent in each exchange."""

    def _exchange(
        self, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        if exchanges:
            sent = (len(f) for e in exchanges.values() for f in e.send.values())
            self.fields.append(sum(sent))
            if self.alter is not None:
                self.alter(self.exchanges, exchanges)
            self.exchanges += 1
        return super()._exchange(exchanges, rotations, tag)


@dataclass
class Outcome:
    """What one party saw."""

    rank: Rank
    fault: Fault | PeerError | None
    cost: Cost
    bytes: int
    rounds: int
    before: int
    """Exchanges before the proof."""
    exchanges: int
    fields: list[int]
    """Sent in each exchange."""
    range_word: int
    """This party's part of the range check."""
    received: list[tuple[int, Words]] = field(default_factory=list)
    """In the proof: bits of an element, and the elements."""

    @property
    def caught(self) -> bool:
        return isinstance(self.fault, Fault)


def audited(
    case: Case,
    operands: Sequence[Sequence[Shared]],
    source: Callable[..., Words],
    *,
    alter: dict[Rank, Alter] | None = None,
    times: int = 1,
) -> list[Outcome]:
    """The product, then the proof, at three parties."""

    def play(channel: Channel) -> Outcome:
        rank = channel.rank
        party = Trying(channel, source, (alter or {}).get(rank))
        ledger = party.ledger = Ledger()
        for _ in range(times):
            case.run(party, *operands[rank])
        before, party.ledger = party.exchanges, None
        party.received.clear()
        channel.restart_clock()
        sent = channel.traffic().bytes
        fault: Fault | PeerError | None = None
        try:
            fault = prove_ledger(party, ledger)
        except PeerError as error:
            fault = error
        if fault is not None:
            channel.close()
        traffic = channel.traffic()
        return Outcome(
            rank,
            fault,
            audit_cost(ledger),
            traffic.bytes - sent,
            traffic.rounds,
            before,
            party.exchanges - before,
            party.fields,
            party.range_word,
            party.received,
        )

    jobs = [partial(play, channel) for channel in memory_channels(timeout=20)]
    return raise_first(run_together(jobs))


def flip(
    at: int,
    rng: np.random.Generator,
    *,
    words: int | None = 1,
    which: int = 0,
    in_place: bool = False,
) -> Alter:
    """Flip a bit of one element, or add to so many, of a field sent in an exchange.

    With ``in_place`` the party goes on with what it has sent.
    """

    def alter(number: int, exchanges: dict[int, Exchange]) -> None:
        if number != at:
            return
        places = [
            (exchange.send[to], k)
            for exchange in exchanges.values()
            for to in exchange.send
            for k in range(len(exchange.send[to]))
        ]
        if not places:
            return
        fields, k = places[which % len(places)]
        changed = spoiled(fields[k], rng, words)
        if in_place:
            fields[k].values[...] = changed.values
        fields[k] = changed

    return alter


def alter_first_words(exchanges: Mapping[int, Exchange], bits: int = 32) -> bool:
    """Change the first message of elements of 32 bits, a whole row of it; whether there
    was one. Where nobody proves products they have fewer: ``bits`` at least."""
    for each in exchanges.values():
        for fields in each.send.values():
            width = fields[0].width
            if width >= bits:
                values = fields[0].values + np.uint32(1 << width - 4)
                fields[0] = replace(fields[0], values=values)
                return True
    return False


def deviate(monkeypatch: pytest.MonkeyPatch, rank: int, bits: int = 32) -> list[bool]:
    """One party changes its first message of elements; true is told when it did."""
    exchange, altered = Party._exchange, list[bool]()

    def deviating(
        party: Party, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        if party.rank == rank and not altered and alter_first_words(exchanges, bits):
            altered.append(True)
        return exchange(party, exchanges, rotations, tag)

    monkeypatch.setattr(Party, "_exchange", deviating)
    return altered


def change_message(monkeypatch: pytest.MonkeyPatch, rank: Rank, at: int) -> list[bool]:
    """One party changes a bit in each element of its message of a round, and goes on
    with what it has sent; true is told when it did."""
    exchange, seen, altered = Party._exchange, list[int](), list[bool]()

    def deviating(
        party: Party, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        if party.rank == rank and exchanges:
            if len(seen) == at:
                for each in exchanges.values():
                    for fields in each.send.values():
                        values = fields[0].values
                        changed = values ^ values.dtype.type(1)
                        if values.flags.writeable:
                            values[...] = changed
                        fields[0] = replace(fields[0], values=changed)
                        altered.append(True)
            seen.append(1)
        return exchange(party, exchanges, rotations, tag)

    monkeypatch.setattr(Party, "_exchange", deviating)
    return altered


def spoiled(sent: Field, rng: np.random.Generator, words: int | None) -> Field:
    values = np.array(sent.values).reshape(-1)
    if words == 1:
        bit = values.dtype.type(1 << int(rng.integers(sent.width)))
        values[rng.integers(values.size)] ^= bit
    else:
        start = 0 if words is None else int(rng.integers(max(1, values.size - words)))
        values[start : None if words is None else start + words] += values.dtype.type(1)
    return replace(sent, values=Ring(sent.width).reduce(values).astype(values.dtype))


def honest(outcomes: Sequence[Outcome], deviating: Rank) -> list[Outcome]:
    return [o for o in outcomes if o.rank != deviating]


__all__ = [
    "CASES",
    "RANKS",
    "RECASTS",
    "Case",
    "Outcome",
    "audited",
    "flip",
    "masks_from",
]
