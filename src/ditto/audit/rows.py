"""Claims of few words each, side by side in rows that are folded at once.

Of a claim the party before the prover knows a group of words, u, the party after it
one, v, and the claim is u B v = a sum of two numbers, with B known to all. Of a product
element by element a group is one word; of a message of a recast it is what follows from
a cell or a class (``relations``).

Words that follow from a cell are never written down: what they are multiplied by is
looked up, and sums over all rows are sums over those that have a cell.

A row has one element of products for each of WORDS, one of recasts for each of FIRST
words of u. It has a coin as its weight. The claims of a row are further multiplied by
1, g, g^2 and so on, and those of one c by the weight of c. Messages of k bits are right
modulo 2^k: the weight of their rows is multiplied by 2^(l-k), as all the rest is modulo
2^l. No row has messages of two widths.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ditto.audit.coins import Expander
from ditto.audit.galois import GaloisRing, modulus
from ditto.audit.relations import SINGLE, Kind, KnownRelation
from ditto.audit.soundness import FIRST, WORDS
from ditto.fixedpoint import Words
from ditto.native import galois as native
from ditto.sharing.packing import Bytes

_CHUNK = 1 << 10
"""Rows whose products of words are in memory at one time."""


def dots() -> Kind:
    """WORDS words, of whose products there is one claim, or a part of one."""
    return Kind(None, None, np.eye(WORDS, dtype=np.bool_)[None])


@dataclass(frozen=True, eq=False)
class RowWeights:
    """A coin for each row, times a power of two."""

    coins: Bytes
    """(C, bytes): their bits."""
    shifts: Bytes
    """(C,)."""

    @classmethod
    def draw(cls, seed: Expander, shifts: Bytes, galois: GaloisRing) -> "RowWeights":
        """From the seed of all weights."""
        return cls(seed.packed(len(shifts), galois), shifts)

    @classmethod
    def draw_coins(cls, seed: Expander, count: int, galois: GaloisRing) -> "RowWeights":
        """Times one."""
        return cls.draw(seed, np.zeros(count, np.uint8), galois)

    @classmethod
    def of(cls, runs: Sequence["RowWeights"]) -> "RowWeights":
        """Of runs of rows, one after the other."""
        coins, shifts = [w.coins for w in runs], [w.shifts for w in runs]
        return cls(np.concatenate(coins), np.concatenate(shifts))

    def for_rows(self, count: int) -> "RowWeights":
        """Each for so many rows."""
        of_rows = np.repeat(self.coins, count, axis=0), np.repeat(self.shifts, count)
        return RowWeights(*of_rows)

    def elements(self, galois: GaloisRing, part: slice = slice(None)) -> Words:
        """(C, d)."""
        bits = np.unpackbits(self.coins[part], axis=1)[:, : galois.degree]
        shifts = self.shifts[part, None].astype(galois.dtype)
        return np.asarray(bits.astype(galois.dtype) << shifts)

    def sums(self, words: Words, galois: GaloisRing) -> Words:
        """(A, d): of (C, A) the sum of all rows, each times its weight."""
        d = galois.degree
        if native.there(galois.bits, d):
            return native.sums(words, (self.coins, self.shifts), d)
        total = galois.zeros(words.shape[1])
        for part in _parts(len(words)):
            weights = self.elements(galois, part)
            total += galois.multiply_words("ca,cd->ad", words[part], weights)
        return total

    def combined(self, words: Words, galois: GaloisRing) -> Words:
        """(R, d): of (R, C) the sum of all columns, each times its coin."""
        if native.there(galois.bits, galois.degree):
            return native.combined(words, self.coins, galois.degree)
        return galois.multiply_words("rc,cd->rd", words, self.elements(galois))

    def some(self, which: "slice | npt.NDArray[np.intp]") -> "RowWeights":
        """Of these rows."""
        return RowWeights(self.coins[which], self.shifts[which])

    def times(self, elements: Words, galois: GaloisRing) -> Words:
        """Elements, one for each row, times their weights."""
        if native.there(galois.bits, galois.degree):
            weights = self.coins, self.shifts
            return native.weighted(elements, weights, modulus(galois.degree))
        weighted = np.empty_like(elements)
        for part in _parts(len(elements)):
            of_part = self.elements(galois, part)
            weighted[part] = galois.times(elements[part], of_part)
        return weighted


@dataclass(frozen=True, eq=False)
class Rows:
    """One side of the claims of one kind."""

    kind: Kind
    is_u: bool
    known: Words
    """Cells (C, n), or words (C, n * words)."""
    weights: RowWeights
    of_claims: Words
    """(n, claims, d): what the claims of a row are multiplied by."""

    @property
    def codes(self) -> Words | None:
        """The words that follow from a cell."""
        return self.kind.u if self.is_u else self.kind.v

    @property
    def places(self) -> int:
        """Elements in a row."""
        return len(self.of_claims)

    def words(self, galois: GaloisRing, part: slice = slice(None)) -> Words:
        """(C, n * words), of all or some rows."""
        known = self.known[part]
        if self.codes is None:
            return known
        size = known.shape[1] * self.codes.shape[1]
        return self.codes[known].reshape(-1, size).astype(galois.dtype)

    def folded(self, powers: Words, galois: GaloisRing) -> Words:
        """r f(r) or g(r) of each row, (C, d), from the powers of r up to FIRST: a word
        of u at a is multiplied by r^(a + 1), one of v by what stands between it and u
        at b, times r^(FIRST - 1 - b)."""
        n, size, d = self.places, self.kind.size, galois.degree
        own = powers[1:] if self.is_u else powers[-2::-1]
        factors = own[: n * size].reshape(n, size, d)
        if not self.is_u:
            factors = self._between(factors, galois)
        if self.codes is None:
            x = factors.reshape(-1, d)
            folded = galois.multiply_words("ca,ad->cd", self.known, x)
        else:
            codes = self.codes.astype(galois.dtype)
            table = np.einsum("va,nad->nvd", codes, factors).astype(galois.dtype)
            folded = _looked_up(table, self.known, galois)
        return self.weights.times(folded, galois) if self.is_u else folded

    def _between(self, factors: Words, galois: GaloisRing) -> Words:
        """Factors (n, words of u, d) as those of v."""
        of_v = galois.zeros(self.places, self.kind.between.shape[2])
        for c in range(self.kind.claims):
            scaled = galois.times(factors, self.of_claims[:, c, None])
            for a, b in np.argwhere(self.kind.between[c]):
                of_v[:, b] += scaled[:, a]
        return of_v


def products(u: Rows, v: Rows, galois: GaloisRing, first: int) -> Words:
    """(2 FIRST - 1, d): the coefficients of h in the first fold.

    Of each place of u and place and word of v the sum over all rows of their products
    is multiplied by what stands between that word of v and a word of u at b: it belongs
    to X^(a + FIRST - 1 - b).
    """
    kind, n, d = u.kind, u.places, galois.degree
    if n == 1 and u.codes is None and v.codes is None:
        return _diagonals(u, v, galois, first)
    summed = _pairs(u, v, galois).reshape(n * kind.size, n, -1, d)
    by_claim = galois.zeros(2 * first - 1, n, kind.claims)
    for c, b, word in np.argwhere(kind.between):
        for j in range(n):
            start = first - 1 - (j * kind.size + b)
            by_claim[start : start + len(summed), j, c] += summed[:, j, word]
    factors = galois.matrix(u.of_claims).reshape(-1, d)
    return galois.multiply_words(
        "ti,id->td", by_claim.reshape(len(by_claim), -1), factors
    )


def _diagonals(u: Rows, v: Rows, galois: GaloisRing, first: int) -> Words:
    """Of rows with one claim: the products of their own words."""
    size = u.kind.size
    h = galois.zeros(2 * first - 1)
    for part in _parts(len(u.known), 16 * _CHUNK):
        left, right = u.known[part], v.known[part]
        sums = np.zeros((len(left), 2 * size - 1), galois.dtype)
        for b in range(size):
            sums[:, size - 1 - b : 2 * size - 1 - b] += left * right[:, b : b + 1]
        h[first - size : first + size - 1] += u.weights.some(part).sums(sums, galois)
    return h


def _pairs(u: Rows, v: Rows, galois: GaloisRing) -> Words:
    """(n, words of u, n, words of v, d): of all products of words the sums over all
    rows, times their weights."""
    n, d, weights = u.places, galois.degree, (u.weights.coins, u.weights.shifts)
    if native.there(galois.bits, d):
        if u.codes is not None and v.codes is not None:
            values = len(u.codes), len(v.codes)
            found = native.pairs(u.known, v.known, values, weights, d)
            by_word = np.einsum("jkxyd,xa->jkayd", found, u.codes)
            return np.asarray(np.einsum("jkayd,yb->jakbd", by_word, v.codes))
        if u.codes is not None:
            return _picked(v, u, u.codes, galois).transpose(2, 3, 0, 1, 4)
        if v.codes is not None:
            return _picked(u, v, v.codes, galois)
    of_u, of_v = (x.words(galois, slice(0, 0)).shape[1] for x in (u, v))
    total = galois.zeros(of_u * of_v)
    for part in _parts(len(u.known)):
        left, right = u.words(galois, part), v.words(galois, part)
        both = (left[:, :, None] * right[:, None]).reshape(len(left), -1)
        total += u.weights.some(part).sums(both, galois)
    return total.reshape(n, of_u // n, n, of_v // n, d)


def _picked(elements: Rows, cells: Rows, codes: Words, galois: GaloisRing) -> Words:
    """(n, words, n, words of cells, d). Two cells are looked at as one."""
    n, values, d = elements.places, len(codes), galois.degree
    known = np.pad(cells.known, [(0, 0), (0, n % 2)])
    two = known[:, 0::2] * known.dtype.type(values) + known[:, 1::2]
    words = elements.known.reshape(len(two), n, -1)
    weights = elements.weights.coins, elements.weights.shifts
    found = native.picked(words, two, values**2, weights, d)
    by_cell = found.reshape(n, -1, values, values, *found.shape[3:])
    halves = [by_cell.sum(axis=axis, dtype=found.dtype) for axis in (3, 2)]
    each = np.stack(halves, axis=2).reshape(n, -1, values, *found.shape[3:])[:, :n]
    return np.asarray(np.einsum("jkysd,yb->jskbd", each, codes))


def _looked_up(table: Words, cells: Words, galois: GaloisRing) -> Words:
    """The sum over k of table[k, cells[:, k]]."""
    if native.there(galois.bits, galois.degree):
        return native.looked_up(table, cells)
    total = galois.zeros(len(cells))
    for k, values in enumerate(table):
        total += values[cells[:, k]]
    return total


def _parts(count: int, size: int = _CHUNK) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


@dataclass
class Batch:
    """All claims of one kind in a proof, as a party on one side of it sees them."""

    kind: Kind
    u: list[list[Words]] = field(default_factory=lambda: [[], []])
    v: list[list[Words]] = field(default_factory=lambda: [[], []])
    """Rows of both terms of a claim, what is known of a row's elements side by side.
    Products alone have a second term."""
    own: list[Words] = field(default_factory=list)
    """Rows of the party's summands."""
    shifts: list[Bytes] = field(default_factory=list)
    """Of the rows."""

    @property
    def places(self) -> int:
        """Elements in a row."""
        return places(self.kind)

    def add(self, relation: KnownRelation, galois: GaloisRing) -> None:
        """One message."""
        for which, terms in (("u", self.u), ("v", self.v)):
            known = relation.known(which, galois)
            if known is not None:
                terms[0].append(in_rows(known, self.places))
        self._add_own(relation.own(galois), galois.bits - relation.width)

    def add_products(self, u: Sequence[Words], v: Sequence[Words], own: Words) -> None:
        """One product: the words of both terms, if they are known, and the summand."""
        for terms, known in ((self.u, u), (self.v, v)):
            for term, words in zip(terms, known, strict=False):
                term.append(in_rows(words[:, None], self.places))
        self._add_own(own[:, None], 0)

    def _add_own(self, own: Words, shift: int) -> None:
        self.own.append(in_rows(own, self.places))
        self.shifts.append(np.full(len(self.own[-1]), shift, np.uint8))

    def rows(
        self, seed: Expander, ratio: Words, galois: GaloisRing
    ) -> tuple[dict[str, Rows], Words]:
        """Rows of u and v, as far as they are known, and the summand of the claim."""
        if not self.own:
            return {}, galois.zeros()
        of_each = galois.embed(np.ones(1, galois.dtype))
        if self.kind.claims > 1:
            of_each = seed.coins(self.kind.claims, galois)
        powers = galois.powers(ratio, self.places)
        of_claims = galois.times(powers[:, None], of_each)
        weights = RowWeights.draw(seed, np.concatenate(self.shifts), galois)
        rows = {}
        for which, terms in (("u", self.u), ("v", self.v)):
            known = [words for term in terms for words in term]
            if known:
                runs = 1 + bool(terms[1])
                rows[which] = Rows(
                    self.kind,
                    which == "u",
                    np.concatenate(known),
                    RowWeights.of([weights] * runs),
                    of_claims,
                )
        summed = weights.sums(np.concatenate(self.own), galois)
        return rows, galois.dot(summed, of_claims.reshape(-1, galois.degree))


def places(kind: Kind) -> int:
    """Elements in a row of claims of recasts, or of products element by element."""
    return WORDS if kind is SINGLE else FIRST // kind.size


def rows_of(relations: Iterable[KnownRelation]) -> int:
    """Rows of all messages of recasts in a proof."""
    return sum(-(-each.count // places(each.kind)) for each in relations)


def in_rows(known: Words, size: int) -> Words:
    """(N, k) as rows of ``size`` of them side by side, the last filled with zeros."""
    count, width = -(-len(known) // size), known.shape[1]
    if count * size == len(known):
        return known.reshape(count, size * width)
    padded = np.zeros((count * size, width), known.dtype)
    padded[: len(known)] = known
    return padded.reshape(count, size * width)
