"""Provable recasts: right for every sharing, and whoever deviates is caught."""

import numpy as np
import pytest

from ditto.audit import relations, rows
from ditto.audit.proof import Fault
from ditto.fixedpoint import FxpType, Words
from ditto.protocols import party, recast_in_place
from ditto.protocols.blocks import wraps
from ditto.protocols.ledger import Message, Relation
from ditto.protocols.party import Exchange
from ditto.sharing import RANKS, Rank, Shared

from .parties import (
    RECASTS,
    SPLIT_FROM,
    TYPE,
    Case,
    audited,
    flip,
    honest,
    masks_from,
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party, "SPLIT_FROM", SPLIT_FROM)


BITS = 8


def every_sharing(x: int) -> tuple[Words, Words, Words]:
    """All shares of the biased value of x, modulo 2^BITS."""
    size = 1 << BITS
    x0, x1 = np.divmod(np.arange(size * size), size)
    x2 = (x + size // 4 - x0 - x1) % size
    return x0.astype(np.uint8), x1.astype(np.uint8), x2.astype(np.uint8)


def cells(share: Words, bits: int) -> np.ndarray:
    return (share >> np.uint8(BITS - bits)).astype(np.intp)


def test_wraps_are_right_and_what_is_wrong_is_noted_for_every_sharing() -> None:
    size, alarms = 1 << BITS, 0
    for x in range(-size // 2, size // 2):
        x0, x1, x2 = every_sharing(x)
        total = x0.astype(np.intp) + x1 + x2
        w = wraps._WRAPS[cells(x2, 3) // 3, cells(x0, 3), cells(x1, 3)]
        flags = wraps.FLAGGED[cells(x2, 3), cells(x0, 3), cells(x1, 3)]
        right = total - w.astype(np.intp) * size == x + size // 4
        if abs(x) < size // 4:
            assert right.all()
            assert not flags.any()
        assert (right | flags).all()
        alarms += int(flags.sum())
    assert alarms


@pytest.mark.parametrize("name", RECASTS)
def test_honest_parties_are_believed_at_the_declared_price(name: str) -> None:
    case = RECASTS[name]
    outcomes = audited(case, case.deal(1), masks_from(1, {}))
    assert [o.fault for o in outcomes] == [None] * 3
    cost = outcomes[0].cost
    assert sum(o.bytes for o in outcomes) * 8 == cost.bits
    assert {o.rounds for o in outcomes} == {cost.rounds}


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", RECASTS)
def test_every_message_that_is_changed_is_caught(name: str, rank: Rank) -> None:
    """A bit, an element, all of a message, in any round: both others stop, and name who
    sent it, who goes on with what it has sent."""
    case, rng = RECASTS[name], np.random.default_rng(rank)
    operands, source = case.deal(1), masks_from(1, {})
    reference = audited(case, operands, source)
    deviations = 0
    for at in range(reference[rank].before):
        fields = reference[rank].fields[at]
        for which in range(fields):
            words = (1, 2, None)[(at + which) % 3]
            alter = flip(at, rng, words=words, which=which, in_place=True)
            operands = case.deal(1)
            outcomes = audited(case, operands, source, alter={rank: alter})
            faults = [o.fault for o in honest(outcomes, rank)]
            assert all(isinstance(f, Fault) and f.prover == rank for f in faults)
            deviations += 1
    assert deviations


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("which", ["first", "second"])
def test_a_wrong_share_that_is_used_is_caught(rank: Rank, which: str) -> None:
    """Cells and classes of another share than was dealt: nothing is answered. The party
    itself may be the first to say that shares are different."""
    kind = FxpType(32, 20)

    def run(player: party.Party, x: Shared) -> Shared:
        if player.rank == rank:
            shares = {"first": x.first, "second": x.second}
            changed = shares[which].copy()
            changed[1:2] += np.uint32(3 << 29)  # always another class
            x = Shared(**(shares | {which: changed}), type=kind)
        return recast_in_place(player, x, TYPE)

    case = Case(run, ((3, 5),), kind)
    outcomes = audited(case, case.deal(1), masks_from(1, {}))
    assert all(o.fault is not None for o in outcomes)
    assert any(o.caught for o in outcomes)


@pytest.mark.parametrize("case_of_x2", range(wraps.FLAG_CLASSES))
def test_flags_of_one_class_that_are_changed_are_caught(case_of_x2: int) -> None:
    """Else the client would be alarmed only if a share is of that class, which who
    changed them does not know: one bit of a secret, if the client asks again."""
    case, source = RECASTS["checked truncate"], masks_from(1, {})
    x1 = np.random.default_rng(2).integers(0, 1 << 32, 8, np.uint32)
    x2 = np.arange(8, dtype=np.uint32) << 28  # of which the top three bits are 0 to 3
    shares = [-x1 - x2, x1, x2]  # of zero
    operands = [(Shared(shares[i], shares[(i + 1) % 3], case.type),) for i in range(3)]
    sender = Rank.P0  # of the first instance

    def alter(number: int, exchanges: dict[int, Exchange]) -> None:
        if number == 0:
            flags = exchanges[0].send[Rank.P2][-1].values
            flags ^= np.uint8(1 << case_of_x2)

    outcomes = audited(case, operands, source, alter={sender: alter})
    word = np.bitwise_xor.reduce([outcome.range_word for outcome in outcomes])
    assert (word != 0) == (case_of_x2 < 4)
    faults = [o.fault for o in honest(outcomes, sender)]
    assert all(isinstance(f, Fault) and f.prover == sender for f in faults)


def words_of(known: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """Of cells, or of differences."""
    return known if codes is None else codes[known[:, 0]]


@pytest.mark.parametrize(
    "message", ["counts", "elements before", "elements after", "flags"]
)
def test_what_a_party_knows_adds_up(message: str) -> None:
    """u B v of both sides is the sum of both summands, as ``relations`` says."""
    galois = rows.GaloisRing(32, 3)
    rng = np.random.default_rng(2)
    i0, i1 = (rng.integers(0, 8, 100, np.uint8) for _ in range(2))
    r, k1 = rng.integers(0, 1 << 5, (3, 100), np.uint8), rng.integers(0, 32, 100)
    m = (wraps._WRAPS[:, i0, i1] - r) & np.uint8(31)
    which = i0 % np.uint8(3)
    picked = (wraps._chosen(r, which) - k1) & 31
    bits = rng.integers(0, 256, 100, np.uint8)
    flags = wraps._FLAGS[i0, i1] ^ bits
    counts, choice = Message.COUNTS, Message.CHOICE
    sides = {
        "counts": (Relation(counts, i0, None, m), Relation(counts, None, i1, r)),
        "elements before": (
            Relation(choice, r, None, picked),
            Relation(choice, None, which, k1),
        ),
        "elements after": (
            Relation(choice, which, None, k1),
            Relation(choice, None, r, picked),
        ),
        "flags": (
            Relation(Message.FLAGS, i0, None, flags),
            Relation(Message.FLAGS, None, i1, bits),
        ),
    }[message]
    width = 1 if message == "flags" else 5
    before, after = (relations.KnownRelation(width, relation) for relation in sides)
    assert before.kind is after.kind
    kind, u, v = before.kind, before.known("u", galois), after.known("v", galois)
    assert u is not None
    assert v is not None
    own = before.own(galois) + after.own(galois)
    for c in range(kind.claims):
        block = kind.between[c].astype(np.uint32)
        left, right = words_of(u, kind.u), words_of(v, kind.v)
        product = np.einsum("na,ab,nb->n", left, block, right, dtype=np.uint32)
        assert ((product - own[:, c]) % (1 << width) == 0).all()


def test_shares_of_honest_parties_agree_whatever_the_third_sends() -> None:
    """So a deviating party cannot make an audit depend on what it does not know."""
    x_type = FxpType(32, 20)
    rng = np.random.default_rng(3)
    for rank in RANKS:
        results: dict[Rank, Shared] = {}

        def run(
            player: party.Party, x: Shared, results: dict[Rank, Shared] = results
        ) -> Shared:
            results[player.rank] = recast_in_place(player, x, TYPE)
            return results[player.rank]

        case = Case(run, ((3, 5),), x_type)
        for at in range(2):
            alter = {rank: flip(at, rng, words=None)}
            audited(case, case.deal(1), masks_from(1, {}), alter=alter)
            one, other = results[rank.next], results[rank.previous]
            assert (one.second == other.first).all()
