"""What a verifier sees of a proof is uniform, whatever was multiplied.

Every word that a verifier receives in a proof is, over Z_2^32, an affine function of
the masks that it does not know (the pads of prover and other verifier, u* and v*). One
is added to each of those in turn, and what changes in the received words is a row of a
matrix. They are uniform and independent, for every secret, exactly if the matrix has as
many rows that are independent modulo 2 as there are words. The summand of h(r) that the
other verifier shows is no news: f(r) g(r) minus the verifier's own. So it counts as
none, and what is left must have full rank.

The Galois ring is a small one here, and rows are short: the argument does not depend on
its degree, nor on how many words are folded at once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ditto.audit import products, proof, rows
from ditto.audit.folding import SENT_LAST
from ditto.fixedpoint import Ring, Words
from ditto.sharing import RANKS, Rank, Shared

from ..conformance.scripted import Name, knows
from .parties import CASES, RECASTS, Case, audited, masks_from

DEGREE, FIRST = 2, 8
SENT_FIRST = 2 * FIRST - 2
"""As many at least."""
ALL = CASES | RECASTS
COVERED = ["matmul", "sum of few squares", "truncate", "checked truncate"]


@pytest.fixture(autouse=True)
def _small_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """And few words in a row: as many as there are in a group at most."""
    monkeypatch.setattr(proof, "DEGREE", DEGREE)
    for module in (products, rows):
        for name in ("FIRST", "WORDS"):
            monkeypatch.setattr(module, name, FIRST)


Operands = list[tuple[Shared, ...]]


def views(case: Case, operands: Operands, shifts: dict[Name, Words]) -> list[Words]:
    """The words that each party receives in its proofs; only the masks differ."""
    outcomes = audited(case, operands, masks_from(3, shifts))
    assert [o.fault for o in outcomes] == [None] * 3
    return [
        np.concatenate([words for bits, words in o.received if bits == 32])
        for o in outcomes
    ]


def masks_of_the_proof(case: Case) -> dict[Name, int]:
    """The masks of words that are drawn in the proof, and how many words each has."""
    drawn: dict[Name, int] = {}
    source = masks_from(3, {})

    def noting(name: Name, count: int, ring: Ring) -> Words:
        if name[2].endswith("of 32 bits") and ring.bits == 32:
            drawn[name] = count
        return source(name, count, ring)

    audited(case, case.deal(3), noting)
    return drawn


def rank_of(rows: list[Words]) -> int:
    """Modulo 2."""
    numbers = [int("".join(map(str, row % 2)), 2) for row in rows]
    rank = 0
    while numbers:
        pivot = max(numbers)
        if not pivot:
            break
        rank += 1
        high = pivot.bit_length()
        numbers = [n ^ pivot if n.bit_length() == high else n for n in numbers]
    return rank


def hidden_words(case: Case, rank: Rank) -> tuple[int, int]:
    """How many independent words a party receives, and how many there should be."""
    drawn = masks_of_the_proof(case)
    operands = case.deal(3)
    before = views(case, operands, {})
    assert (views(case, operands, {})[rank] == before[rank]).all()
    rows = []
    for name, count in drawn.items():
        if knows(rank, name):
            continue
        for j in range(count):
            shift = np.zeros(count, np.uint32)
            shift[j] = 1
            rows.append(views(case, operands, {name: shift})[rank] - before[rank])
    shown = 4 * DEGREE  # by the other verifier, in the two proofs of the others
    assert len(before[rank]) % DEGREE == 0
    coefficients = len(before[rank]) - shown
    assert coefficients >= (SENT_FIRST + SENT_LAST) * DEGREE
    return rank_of(rows), coefficients + shown // 2


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", COVERED)
def test_all_that_a_verifier_receives_is_hidden(name: str, rank: Rank) -> None:
    found, expected = hidden_words(ALL[name], rank)
    assert found == expected


PADS, ELEMENT = proof._pads, proof._element


def no_pads(*arguments: Any) -> list[Words]:
    return [0 * pad for pad in PADS(*arguments)]


def one_pad(*arguments: Any) -> list[Words]:
    pads = PADS(*arguments)
    return [pads[0][: len(pad)] for pad in pads]


def no_mask(*arguments: Any) -> Words:
    return 0 * ELEMENT(*arguments)


@pytest.mark.parametrize(
    ("place", "leak"), [("_pads", no_pads), ("_pads", one_pad), ("_element", no_mask)]
)
def test_a_planted_leak_is_found(
    place: str, leak: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pads, one pad for all folds, no masking elements."""
    monkeypatch.setattr(proof, place, leak)
    found, expected = hidden_words(CASES["matmul"], Rank.P1)
    assert found < expected


def test_views_of_two_secrets_are_the_same_when_masks_make_up_for_them() -> None:
    """Other shares that the verifier does not know: the view can be the same one.

    The difference of what P1 receives is taken out of the pads, which P1 does not know,
    for another secret. That such masks exist for any two secrets is what the rank says.
    """
    case = CASES["matmul"]
    pads = {
        name: count
        for name, count in masks_of_the_proof(case).items()
        if name[0] == "P2-P0" and name[2].startswith("pad")
    }
    operands = case.deal(3)
    other = [list(each) for each in operands]
    x = operands[0][0]
    changed = x.first + np.uint32(12345)  # share 0, which P1 does not hold
    other[0][0] = type(x)(changed, x.second, x.type)
    last = operands[2][0]
    other[2][0] = type(x)(last.first, changed, x.type)

    def seen(which: object, shifts: dict[Name, Words]) -> Words:
        outcomes = audited(case, which, masks_from(3, shifts))  # type: ignore[arg-type]
        assert [o.fault for o in outcomes] == [None] * 3
        words = [w for bits, w in outcomes[1].received if bits == 32]
        return np.concatenate(words)

    total = sum(pads.values())
    difference = (seen(other, {}) - seen(operands, {}))[:total]
    assert difference.any()
    cut = np.cumsum([pads[name] for name in sorted(pads)])[:-1]
    shifts = dict(zip(sorted(pads), np.split(difference, cut), strict=True))
    again = seen(other, shifts)
    assert (again[:total] == seen(operands, {})[:total]).all()
