"""Views by exact enumeration: all masks, all shares, small rings, every secret.

A protocol works element by element, so one run on a tensor that holds every
combination of input shares and masks gives the exact joint distribution of what each
party sees. It must be the same for every secret, whether in the legal range or not.
Where an element needs several masks of one name, as in a dot product, all of them are
enumerated, and so is a view of several numbers.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
import pytest

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import (
    Party,
    memory_channels,
    multiply,
    recast,
    recast_in_place,
    square,
    upcast_paper,
)
from ditto.protocols import party as party_module
from ditto.protocols.blocks import (
    Group,
    Sums,
    bit_product,
    choose,
    known_bits,
    replicate,
    replicate_two_party,
    shared_one_hot,
    split_of_p1,
    summed_conjunctions,
    table_product,
    together,
    two_party_product,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.party import Exchange, Expected, Field, Pair, Role, Steps
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Shared

from .scripted import Name, ScriptedParty, knows

Draws = dict[Name, Words]


def play(run: Callable, operands: list[list[Shared]], draws: Draws):
    """What three parties see, and what masks they asked for."""
    asked: dict[Name, tuple[int, int]] = {}

    def source(name: Name, count: int, ring: Ring) -> Words:
        asked[name] = (ring.bits, count)
        values = draws.get(name)
        return np.zeros(count, ring.dtype) if values is None else values

    players = [
        ScriptedParty(channel, source) for channel in memory_channels(timeout=20)
    ]

    def work(rank: Rank) -> None:
        run(players[rank], *(held[rank] for held in operands))

    raise_first(run_together([partial(work, rank) for rank in RANKS]))
    views = [
        [values for name, values in sorted(draws.items()) if knows(rank, name)]
        + [values for _, values in players[rank].received]
        for rank in RANKS
    ]
    return views, asked


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
        2**bits for bits, count in asked.values() for _ in range(count)
    ]
    assert prod(sizes) <= 1 << 19, "too many combinations to enumerate"
    grid = np.indices(sizes, np.uint64).reshape(len(sizes), -1)
    given, masks = grid[: 2 * len(kinds)], iter(grid[2 * len(kinds) :])
    operands = [
        share_grid(secret, given[2 * i], given[2 * i + 1], kind)
        for i, (secret, kind) in enumerate(zip(secrets, kinds, strict=True))
    ]
    draws = {
        name: Ring(bits).reduce(
            np.stack([next(masks) for _ in range(count)], axis=1).reshape(-1)
        )
        for name, (bits, count) in asked.items()
    }
    views, _ = play(run, operands, draws)
    found = []
    for rank, view in enumerate(views):
        held = [s[rank] for s in operands]
        columns = [half for x in held for half in (x.first, x.second)]
        for values in view:  # (N,) or (N, numbers of an element)
            columns += list(values.reshape(grid.shape[1], -1).T)
        assert len(columns) <= 15
        assert all(column.max() < 16 for column in columns)
        keys = np.zeros(grid.shape[1], np.int64)
        for column in columns:  # a view as one number, four bits a field
            keys = keys * 16 + column.astype(np.int64)
        found.append(np.unique(keys, return_counts=True))
    return found


def fxp(bits: int, frac: int) -> FxpType:
    return FxpType(bits=bits, frac=frac)


def dot_product(rounds: int) -> Callable:
    """The product of a vector of P1 and one of P0 and P2: two bits of each summand."""

    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[Pair]:
        summand = two_party_summand(role, shares, ring, 0)
        bits = np.stack([summand & 1, summand >> 1], axis=1)
        return two_party_product(role, bits.astype(ring.dtype), ring, rounds)

    return steps


def both_to_p1(*, xor: bool, dropped: int = 0) -> Callable:
    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[Pair]:
        first = None if role.rank == Rank.P1 else shares[0]
        group = Group(ring, xor=xor)
        return two_to_three(role, first, shares[0].size, group, dropped=dropped)

    return steps


def bit_times_bit(bits: int) -> Callable:
    """The product of the lowest bits of both summands, modulo 2^bits."""

    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[Words]:
        summand = two_party_summand(role, shares, ring, 0)
        return bit_product(role, summand & summand.dtype.type(1), Ring(bits))

    return steps


def conjunction(role: Role, shares: Pair, ring: Ring) -> Steps[Pair]:
    """The AND of x with itself, as ``and_words`` does it on words of whole bytes."""
    first, second = shares
    z = (first & (first ^ second)) ^ (second & first)
    return replicate(role, z, Group(ring, xor=True))


def conjunctions(bits: int, rounds: int) -> Callable:
    """The AND of both bits of a word, as an integer."""

    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[Pair]:
        known = known_bits(role, shares)
        both = np.stack([known & 1, known >> 1 & 1], axis=1)[:, None]
        return summed_conjunctions(role, both, Ring(bits), rounds)

    return steps


def split(role: Role, shares: Pair, ring: Ring) -> Steps[tuple]:
    value = shares[0] ^ shares[1] if role.rank == Rank.P1 else None
    return split_of_p1(role, value, shares[0].size, Group(ring, xor=True), "s")


def one_hot(role: Role, shares: Pair, ring: Ring) -> Steps[Words | None]:
    """A word of as many bits as x has: the lowest bits of x say which."""
    summand = two_party_summand(role, shares, ring, 0)
    return shared_one_hot(role, summand & summand.dtype.type(3), 4, "one-hot")


def product_with_table(*, dropped: int) -> Callable:
    """T0[c] + T1[c] u over Z_4, c and u the last bit of both summands and its twice."""

    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[Words]:
        summand = two_party_summand(role, shares, ring, 0)
        place = summand & summand.dtype.type(1)
        known = ring.reduce(2 * place + 1)[None]
        chosen = yield from choose(role, place, 2, known, ring)
        sums = None
        if role.rank != Rank.P1:
            first, second = (chosen.words[:, 0] >> k & 1 for k in (0, 1))
            entries = [first + 2 * second, 3 * first + (place + 1) * second]
            sums = Sums([ring.reduce(e) for e in entries], first + second)
        return (yield from table_product(role, chosen, sums, ring, dropped=dropped))

    return steps


def side_by_side(role: Role, shares: Pair, ring: Ring) -> Steps[list]:
    """Two blocks in the same messages."""
    summand = two_party_summand(role, shares, ring, 0)
    return together(
        two_party_product(role, summand, ring, 1),
        replicate_two_party(role, summand, ring),
    )


def alone(steps: Callable) -> Callable:
    """A block as a protocol of its own."""

    def run(party: Party, x: Shared) -> None:
        party.run(lambda role: steps(role, (x.first, x.second), x.ring), rotation=0)

    return run


CASES = {
    "truncate in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(4, 1)]),
    "truncate in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(4, 1)]),
    "truncate in three": (lambda p, x: recast(p, x, fxp(3, 0), rounds=3), [fxp(3, 1)]),
    "upcast in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(3, 0)]),
    "upcast in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(3, 0)]),
    "both in two": (lambda p, x: recast(p, x, fxp(4, 0)), [fxp(3, 1)]),
    "both in one": (lambda p, x: recast(p, x, fxp(4, 0), rounds=1), [fxp(3, 1)]),
    "downcast with carry": (lambda p, x: recast(p, x, fxp(3, 0)), [fxp(4, 2)]),
    "truncate in place": (lambda p, x: recast_in_place(p, x, fxp(4, 1)), [fxp(4, 3)]),
    "upcast in place": (lambda p, x: recast_in_place(p, x, fxp(4, 0)), [fxp(3, 0)]),
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
    "dot product in two": (alone(dot_product(2)), [fxp(2, 0)]),
    "dot product in one": (alone(dot_product(1)), [fxp(2, 0)]),
    "both to P1": (alone(both_to_p1(xor=False)), [fxp(3, 0)]),
    "both to P1 but two bits": (alone(both_to_p1(xor=False, dropped=2)), [fxp(3, 0)]),
    "bit times bit": (alone(bit_times_bit(2)), [fxp(2, 0)]),
    "both to P1 by XOR": (alone(both_to_p1(xor=True)), [fxp(3, 0)]),
    "conjunction": (alone(conjunction), [fxp(2, 0)]),
    "several bits in two": (alone(conjunctions(2, 2)), [fxp(2, 0)]),
    "several bits in one": (alone(conjunctions(1, 1)), [fxp(2, 0)]),
    "split of P1": (alone(split), [fxp(3, 0)]),
    "one-hot": (alone(one_hot), [fxp(2, 0)]),
    "product with a table": (alone(product_with_table(dropped=0)), [fxp(2, 0)]),
    "the same but a bit": (alone(product_with_table(dropped=1)), [fxp(2, 0)]),
    "blocks side by side": (alone(side_by_side), [fxp(2, 0)]),
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


def test_one_mask_for_two_messages_is_caught() -> None:
    """``two_to_three`` as it must not be done."""

    def steps(role: Role, shares: Pair, ring: Ring) -> Steps[None]:
        count = shares[0].size
        if role.rank == Rank.P1:
            due = [Expected(count, ring.bits)]
            yield Exchange(receive={Rank.P0: due, Rank.P2: due})
            return
        masks = role.masks_with(Rank.P2 if role.rank == Rank.P0 else Rank.P0)
        hidden = shares[0] - masks.draw("k", count, ring)
        yield Exchange(send={Rank.P1: [Field(hidden, ring.bits)]})

    caught = tells(alone(steps), [fxp(2, 0)])
    assert {who[:2] for who in caught} == {"P1"}
