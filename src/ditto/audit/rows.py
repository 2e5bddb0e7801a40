"""Claims of few words each, side by side in rows that are folded at once.

Of a claim the party before the prover knows a group of words, u, the party after it
one, v, and the claim is u B v = a sum of two numbers, with B known to all. Of a product
element by element a group is one word; of a message of a recast
(``protocols.blocks.wraps``) it is 4 or 8:

- a choice: u B v is the element of the class, one of the two groups has three elements
  and the other which of them it is, as bits; B is one;
- counts: of cells i0 and i1 and c = 0, 1, 2 the claims are
  (i0 + i1 + 3c + 4) >> 3 = a + [i0 >= 8 - b] with 8a + b = i1 + 3c + 4. Then u has the
  bits [i0 >= n] for n from 1 to 8, v has which i1 is, and B has, for a row n and a
  column i1, the sum over all c of the weight of c if n = 8 - b.

Messages of k bits are right modulo 2^k: their claims are multiplied by 2^(l-k), as all
the rest is modulo 2^l.

FIRST words are a row, whose weight is a product of two coins: one of GROUP neighbours,
and one of its place among them, so that most of the work is by few factors. The claims
of a row are further multiplied by 1, g, g^2 and so on, and those of one c by the weight
of c.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ditto.audit.coins import Expander
from ditto.audit.galois import GaloisRing
from ditto.audit.soundness import FIRST
from ditto.fixedpoint import Words
from ditto.protocols.ledger import Message, Relation, WrapClaim

GROUP = 64
"""Rows whose weights have a coin in common."""
_CELLS, _COUNTS = 8, 3
_GROUPS = {Message.COUNTS: _CELLS, Message.CHOICE: 4}
"""Words of a claim."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Words, FIRST in a row, and a weight for some rows at a time."""

    words: Words
    """(C, FIRST)."""
    weights: Words
    """(R, d)."""
    counts: npt.NDArray[np.intp]
    """(R,): how many rows have each weight, one after the other."""


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Words, FIRST in a row; row GROUP i + j has the weight outer_i inner_j.

    There are ``terms`` runs of such rows, one after the other, of the same weights.
    """

    words: Words
    """(C, FIRST)."""
    outer: Words
    """(ceil(C / terms / GROUP), d)."""
    inner: Words
    """(GROUP, d)."""
    terms: int
    between: Words
    """(FIRST, FIRST, d): what stands between u and v."""

    def times_weights(self, elements: Words, galois: GaloisRing) -> Words:
        """Elements, one for each row of all runs or of one, times their weights."""
        runs = len(elements) // max(1, len(self.words) // self.terms)
        size, d = len(self.outer) * GROUP, galois.degree
        if not len(elements):
            return elements
        blocks = elements.reshape(runs, -1, d)
        padded = np.pad(blocks, [(0, 0), (0, size - blocks.shape[1]), (0, 0)])
        by_place = padded.reshape(runs, -1, GROUP, d).transpose(2, 0, 1, 3)
        moved = galois.multiply_words(
            "jkd,jde->jke", by_place.reshape(GROUP, -1, d), galois.matrix(self.inner)
        )
        grouped = moved.reshape(GROUP, runs, -1, d).transpose(2, 1, 0, 3)
        weighted = galois.multiply_words(
            "ikd,ide->ike",
            np.ascontiguousarray(grouped).reshape(len(self.outer), -1, d),
            galois.matrix(self.outer),
        )
        back = weighted.reshape(-1, runs, GROUP, d).transpose(1, 0, 2, 3)
        trimmed = back.reshape(runs, size, d)[:, : blocks.shape[1]]
        return np.ascontiguousarray(trimmed).reshape(-1, d)

    def weights(self, galois: GaloisRing) -> Words:
        """Of the rows of one run, (C / terms, d)."""
        count = len(self.words) // self.terms
        products = galois.multiply_words(
            "ikd,ide->ike",
            np.repeat(self.inner[None], len(self.outer), axis=0),
            galois.matrix(self.outer),
        )
        return products.reshape(-1, galois.degree)[:count]


@dataclass(frozen=True, eq=False)
class KnownRelation:
    """A message of a recast, as a party on one side of a proof sees it."""

    width: int
    relation: Relation

    @property
    def count(self) -> int:
        """Elements."""
        for known in (self.relation.before, self.relation.after):
            if known is not None:
                return int(known.shape[-1])
        raise TypeError("A relation that nobody knows anything of.")

    def words(self, which: str, galois: GaloisRing) -> Words | None:
        """(N, group): the words of u or of v, if they are known."""
        known = self.relation.before if which == "u" else self.relation.after
        if known is None:
            return None
        if which == "u" and self.relation.message is Message.COUNTS:
            cells = np.arange(1, _CELLS + 1, dtype=np.uint8)
            return np.asarray(known[:, None] >= cells, galois.dtype)
        size = _GROUPS[self.relation.message]
        words = np.zeros((self.count, size), galois.dtype)
        if known.ndim == 1:
            words[np.arange(self.count), known] = 1
        else:
            words[:, : len(known)] = known.T
        return words * self._scale(galois) if which == "v" else words

    def own(self, galois: GaloisRing) -> Words:
        """(N, claims): this party's summands; the party after knows more of counts."""
        relation = self.relation
        if relation.own is None:
            return np.zeros((self.count, self.claims), galois.dtype)
        own = np.atleast_2d(relation.own).T.astype(galois.dtype)
        if relation.message is Message.COUNTS and relation.after is not None:
            own = own - _sums()[relation.after].astype(galois.dtype) // _CELLS
        return np.asarray(own * self._scale(galois))

    @property
    def claims(self) -> int:
        """For each element."""
        return _COUNTS if self.relation.message is Message.COUNTS else 1

    def raw(self, which: str) -> Words | None:
        """What u or v is made of."""
        return self.relation.before if which == "u" else self.relation.after

    def _scale(self, galois: GaloisRing) -> np.unsignedinteger:
        return galois.ring.scalar(1 << galois.bits - self.width)


def relations_of(claims: Iterable[WrapClaim], side: str) -> list[KnownRelation]:
    """Of each claim what it says on a side: "proves", "ahead" or "behind"."""
    return [KnownRelation(claim.width, getattr(claim, side)) for claim in claims]


def _sums() -> npt.NDArray[np.intp]:
    """i1 + 3c + 4, (8, 3)."""
    return np.arange(_CELLS)[:, None] + 3 * np.arange(_COUNTS) + _CELLS // 2


@dataclass
class Batch:
    """All claims of one kind in a proof, as a party on one side of it sees them."""

    message: Message | None
    """None: products, element by element."""
    u: list[list[Words]] = field(default_factory=lambda: [[], []])
    v: list[list[Words]] = field(default_factory=lambda: [[], []])
    """Of both terms of a claim, (N, group); the second is of products alone."""
    own: list[Words] = field(default_factory=list)
    """(N, claims)."""

    def add(self, relation: KnownRelation, galois: GaloisRing) -> None:
        """One message."""
        for which, parts in (("u", self.u), ("v", self.v)):
            words = relation.words(which, galois)
            if words is not None:
                parts[0].append(words)
        self.own.append(relation.own(galois))

    def rows(
        self, seed: Expander, ratio: Words, galois: GaloisRing
    ) -> tuple[dict[str, GroupedRows], Words]:
        """Rows of u and v, and the party's summand of the claim."""
        size = 1 if self.message is None else _GROUPS[self.message]
        claims = _COUNTS if self.message is Message.COUNTS else 1
        per_row, of_each = FIRST // size, galois.embed(np.ones(1, galois.dtype))
        block = galois.embed(np.eye(size, dtype=galois.dtype))
        if self.message is Message.COUNTS:
            of_each = seed.coins(claims, galois)
            block = _of_counts(of_each, galois)
        own = np.concatenate([np.zeros((0, claims), galois.dtype), *self.own])
        count = -(-len(own) // per_row)
        outer, inner = seed.coins(-(-count // GROUP), galois), seed.coins(GROUP, galois)
        powers = galois.powers(ratio, per_row)
        of_claims = galois.times(powers[:, None], of_each).reshape(-1, galois.degree)
        weighted = galois.multiply_words(
            "ca,ad->cd", in_rows(own.reshape(-1), per_row * claims), of_claims
        )
        between = galois.zeros(FIRST, FIRST)
        for j in range(per_row):
            part = slice(j * size, (j + 1) * size)
            between[part, part] = galois.times(block, powers[j])
        terms = 2 if self.message is None else 1
        rows = {}
        for which, parts in (("u", self.u), ("v", self.v)):
            words = [
                in_rows(
                    np.concatenate([np.zeros(0, galois.dtype), *_flat(part)]), FIRST
                )
                for part in parts[:terms]
            ]
            rows[which] = GroupedRows(
                np.concatenate(words), outer, inner, terms, between
            )
        of_rows = GroupedRows(weighted, outer, inner, 1, between).weights(galois)
        return rows, galois.dot(of_rows, weighted)


def _of_counts(weights: Words, galois: GaloisRing) -> Words:
    """B of counts, from the weights of the three c."""
    block = galois.zeros(_CELLS, _CELLS)
    for cell, sums in enumerate(_sums()):
        for c, total in enumerate(sums):
            block[_CELLS - 1 - total % _CELLS, cell] += weights[c]
    return block


def length_of_batches(relations: Sequence[KnownRelation]) -> int:
    """Rows of all messages of recasts in a proof."""
    counts = dict.fromkeys(Message, 0)
    for relation in relations:
        counts[relation.relation.message] += relation.count
    return sum(-(-n * _GROUPS[message] // FIRST) for message, n in counts.items())


def in_rows(words: Words, size: int) -> Words:
    """Words in rows, the last axis filled up with zeros."""
    short = -words.shape[-1] % size
    padded = np.pad(words, [(0, 0)] * (words.ndim - 1) + [(0, short)])
    return padded.reshape(-1, size)


def _flat(parts: Iterable[Words]) -> list[Words]:
    return [part.reshape(-1) for part in parts]
