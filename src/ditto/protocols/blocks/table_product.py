"""T0[c] + T1[c] u1 + ... + Tn[c] un: entries of tables at a place that nobody knows.

P0 and P2 know the tables, which may be others for every element, and P1 the factors u.
The place c is a sum modulo V of what P1 knows and of what P0 and P2 know (``one_hot``).

Notation: all is over Z_2^w. P0 and P2 hold XOR shares of 1 << c, words that differ at c
alone: g is 1 if P0's word has the one there, and -1 if P2's has it. S_j is the sum of
T_j where P0's word has a one, S'_j where P2's has one; N and N' are their numbers of
ones. So S_j - S'_j = g T_j[c], and N - N' = g.

Steps
    1. P1 splits 1 << its summand of c between P0 and P2, who rotate their words as in
       ``one_hot``. P1 knows the mask, so it knows g, and in the same message it splits
       the numbers g u_j: p_j at P0, p'_j at P2.
    2. With masks r_j and k_j of P0 and P2, P0 sends S_j - N r_j + k_j to P1, and P2
       sends S'_j - N' r_j + k_j; of j = 0, P0 adds the sum of all r_j p_j, and P2
       subtracts that of r_j p'_j. The last d bits of both messages of j = 0 may be left
       out.
    3. g times their differences are T_j[c] - r_j, and of j = 0
       T_0[c] - r_0 + r_1 u_1 + ... + r_n u_n. P1 adds the others to that, times u_j. It
       knows the result minus r_0, and P0 and P2 know r_0: a sum of two (``two_party``).
       Where bits were left out it is off by e, -2^d < e < 2^d, as the masks fall.

Cost
    V + nw bits per element, and 2(w - d) + 2nw in the next round: 2 rounds.

Security (semi-honest, one corrupted party)
    P0 sees nothing. P2 sees a word and numbers, each hidden by a mask of P0 and P1. P1
    sees two numbers for every j: the one of P0 is hidden by k_j, and their difference
    by r_j, which it does not know and which are used for this alone: N and N' differ by
    one. Without their last bits messages tell less. What P0 and P2 have of the result
    is a mask.

Source
    docs/explanation/protocols.md. Two servers that are asked for an entry by two sets
    that differ in one place are those of Chor et al., "Private Information Retrieval"
    (FOCS 1995); their masks, after which who asks learns a share and no more, make it
    symmetric.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.one_hot import one_hot, rotated, word_ring
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.party import Exchange, Expected, Field, Role, Steps


@dataclass(frozen=True)
class Chosen:
    """What a role has of the places after step 1."""

    words: Words
    """At P0 and P2 shares of the one-hot words, (N, words); at P1 whether P0's word has
    the one, (N,)."""
    factors: Words
    """u at P1, p at P0, p' at P2: (n, N)."""


@dataclass(frozen=True)
class Sums:
    """What P0 or P2 computes of its words and of the tables."""

    entries: Sequence[Words]
    """S or S' of every table, (N,), as words of any type; modulo 2^w they count."""
    ones: Words
    """N or N'."""


def table_product_widths(factors: int, ring: Ring, dropped: int) -> list[int]:
    """The widths of the fields that are sent per element, but for the one-hot word."""
    return [*[ring.bits] * factors, *2 * _widths(factors, ring, dropped)]


def choose(
    role: Role, place: Words, count: int, known: Words, ring: Ring
) -> Steps[Chosen]:
    """Step 1: ``place`` is a role's summand of c, ``count`` is V, and ``known`` is u at
    P1; the others give an array of its shape."""
    word = word_ring(count)
    words = count // word.bits
    widths = [ring.bits] * len(known)
    if role.rank == P2:
        expected = [Expected(place.size * words, word.bits)]
        expected += [Expected(place.size, width) for width in widths]
        inbox = yield Exchange(receive={P1: expected})
        share, *parts = inbox[P1]
    else:
        masks = role.masks_with(P1 if role.rank == P0 else P0)
        share = masks.draw("levels", place.size * words, word)
        parts = [masks.draw(f"factor {j}", place.size, ring) for j in range(len(known))]
    if role.rank == P1:
        value = one_hot(place, count).reshape(-1)
        at_p0 = (share & value).reshape(-1, words).any(axis=-1)
        signed = np.where(at_p0, known, np.negative(known))
        fields = [Field(value ^ share, word.bits)]
        fields += [
            Field(ring.reduce(u - part), ring.bits)
            for u, part in zip(signed, parts, strict=True)
        ]
        yield Exchange(send={P2: fields})
        return Chosen(np.asarray(at_p0, np.uint8), known)
    if role.rank == P0:
        yield Exchange()
    turned = rotated(share.reshape(-1, words), place, count)
    return Chosen(turned, np.asarray(np.stack(parts)))


def table_product(
    role: Role, chosen: Chosen, sums: Sums | None, ring: Ring, *, dropped: int = 0
) -> Steps[Words]:
    """Steps 2 and 3: the result minus r_0 at P1; r_0 at P0 and P2, who give sums."""
    n, count = chosen.factors.shape
    if sums is None:
        expected = [Expected(count, width) for width in _widths(n, ring, dropped)]
        inbox = yield Exchange(receive={P0: expected, P2: expected})
        return _result(chosen, inbox[P0], inbox[P2], ring, dropped)
    masks = masks_of_p0_p2(role)
    own, hiding = (
        [masks.draw(f"{name} {j}", count, ring) for j in range(n + 1)]
        for name in ("entry", "hidden")
    )
    ones = sums.ones.astype(ring.dtype, copy=False)
    sent = [
        total.astype(ring.dtype, copy=False) - ones * r + k
        for total, r, k in zip(sums.entries, own, hiding, strict=True)
    ]
    for r, part in zip(own[1:], chosen.factors, strict=True):
        sent[0] = sent[0] + r * part if role.rank == P0 else sent[0] - r * part
    words = [ring.reduce(each) for each in sent]
    words[0] >>= ring.dtype.type(dropped)
    widths = _widths(n, ring, dropped)
    yield Exchange(send={P1: [*map(Field, words, widths)]})
    return own[0]


def _result(
    chosen: Chosen,
    from_p0: Sequence[Words],
    from_p2: Sequence[Words],
    ring: Ring,
    dropped: int,
) -> Words:
    total = np.zeros(chosen.words.shape, ring.dtype)
    one = np.ones_like(total)
    for j, (ours, theirs) in enumerate(zip(from_p0, from_p2, strict=True)):
        gap = ours.astype(ring.dtype, copy=False) - theirs.astype(
            ring.dtype, copy=False
        )
        factor = chosen.factors[j - 1] if j else one << ring.dtype.type(dropped)
        total += gap * factor
    return ring.reduce(np.where(chosen.words, total, np.negative(total)))


def _widths(factors: int, ring: Ring, dropped: int) -> list[int]:
    return [ring.bits - dropped, *[ring.bits] * factors]
