"""From noted products to one claim about an inner product.

Of the prover's z, for a product of x and y, the party before it knows F = x_i and
F' = y_i, the party after it S = x_{i+1} and S' = y_{i+1}, and both a summand of what z
was (``protocols.ledger``): ahead + behind. The claim is, for each element of a result,

    F*S' + S*F' = ahead + behind - F*F'.

Each claim is multiplied by a weight of its own, and all are added up: one wrong claim
makes the sum wrong but for a chance of 2/2^d (``soundness``). Of a product of matrices
element (m, n) has the weight a_m b_n; then its sum is

    sum over k of (sum over m of a_m F_mk) (sum over n of S'_kn b_n), and so on,

two vectors as long as what is summed over, however large the result is (Freivalds).
What is left is an inner product <u, v>: u is made of F and F' and known to the party
before the prover, v of S and S' and known to the party after it. The terms are

- elements of the Galois ring, where rows or columns were added up;
- words in rows (``rows``): of dot products that have one element, of products element
  by element and of the messages of recasts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ditto.audit.coins import Expander
from ditto.audit.galois import GaloisRing
from ditto.audit.relations import RECASTS, SINGLE, KnownRelation, relations_of
from ditto.audit.rows import Batch, Rows, RowWeights, dots, rows_of
from ditto.audit.soundness import FIRST, WORDS
from ditto.errors import SetupError
from ditto.fixedpoint import Words
from ditto.native.products import Form, form_of
from ditto.protocols.kernels import exchanged
from ditto.protocols.ledger import Claim, Factors, WrapClaim
from ditto.sharing import Shared

Flags = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


class Side(Enum):
    """A party's part in a proof."""

    PROVER = "prover"
    BEFORE = "before"
    """The party before the prover, which knows u."""
    AFTER = "after"
    """The party after the prover, which knows v."""


@dataclass(frozen=True, eq=False)
class Vector:
    """One side of an inner product."""

    elements: Words
    """(n, d)."""
    rows: tuple[Rows, ...]
    """Of each kind of claims of words."""


@dataclass(frozen=True, eq=False)
class Statement:
    """What a party knows of <u, v> = c."""

    u: Vector | None
    v: Vector | None
    claim: Words
    """(d,): the party's summand of the part of c that is of words; of no meaning at the
    prover."""
    rest: Words
    """(d,): of the part that is of elements."""


class Product:
    """One product, as a party on one side of a proof sees it."""

    def __init__(self, claims: Sequence[Claim], side: Side) -> None:
        form, self._x, self._y = _formed(claims[0].factors)
        self.side, self.form = side, form
        left = [self._x.shape[axis] for axis in form.left]
        right = [self._y.shape[axis] for axis in form.right]
        b, r, k = form.batch, form.batch + form.rows, form.batch + form.depth
        self.shape = left[:b] + left[b:r] + right[k:]
        self.batch, self.rows = prod(left[:b]), prod(left[b:r])
        self.depth, self.columns = prod(left[r:]), prod(right[k:])
        flat = np.zeros(prod(self.shape), np.bool_)
        known: list[tuple[slice, Words]] = []
        for claim in claims:
            own = claim.ahead if side is Side.BEFORE else claim.behind
            sent = claim.proves if side is Side.PROVER else own is not None
            flat[claim.part] = sent
            if own is not None and side is not Side.PROVER:
                known.append((claim.part, own))
        self._known = known
        self.sent = self._matrices(flat)
        """(batch * rows, columns): what the prover has sent of the result."""

    def _matrices(self, flat: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """A flat result in the order of batch, rows, columns."""
        order = np.argsort(self.form.result)
        made = flat.reshape([self.shape[axis] for axis in self.form.result])
        return made.transpose(order).reshape(self.batch * self.rows, self.columns)

    @property
    def bits(self) -> int:
        """Of the ring."""
        return self._x.ring.bits

    @property
    def is_dots(self) -> bool:
        """Whether no rows or columns can be added up."""
        return self.rows == self.columns == 1

    @property
    def is_elementwise(self) -> bool:
        """Whether nothing is summed over."""
        return self.is_dots and self.depth == 1

    @cached_property
    def patterns(self) -> list[tuple[Flags, Flags]]:
        """(columns, rows) for all rows of the result of which the same was sent."""
        packed = np.packbits(self.sent, axis=1)
        if not len(packed):
            return []
        # neighbours are alike, but where a part of the result ends
        changed = (packed[1:] != packed[:-1]).any(axis=1)
        heads = np.concatenate([[0], 1 + np.flatnonzero(changed)])
        _, first, inverse = np.unique(
            packed[heads], axis=0, return_index=True, return_inverse=True
        )
        sizes = np.diff(heads, append=len(packed))
        kinds = np.repeat(inverse.reshape(-1), sizes)
        rows = [(self.sent[heads[i]], kinds == s) for s, i in enumerate(first)]
        return [(columns, which) for columns, which in rows if columns.any()]

    def summand(self) -> Words:
        """(batch * rows, columns): the party's own of what was sent, zero elsewhere."""
        flat = np.zeros(prod(self.shape), self._x.ring.dtype)
        for part, words in self._known:
            flat[part] = words.reshape(-1)
        return self._matrices(flat)

    def lefts(self) -> dict[str, Words]:
        """The shares of x that enter u and v, (batch, rows, depth)."""
        shape = self.batch, self.rows, self.depth
        return self._shares(self._x, self.form.left, shape)

    def rights(self) -> dict[str, Words]:
        """The shares of y that enter u and v, (batch, depth, columns)."""
        shape = self.batch, self.depth, self.columns
        return self._shares(self._y, self.form.right, shape)

    def operands(self, which: str) -> Iterator[tuple[Shared, Words]]:
        """x and y, and the share of each that u or v is made of."""
        for operand in (self._x, self._y):
            yield operand, self._known_of(operand)[which]

    def _shares(
        self, x: Shared, axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> dict[str, Words]:
        known = self._known_of(x).items()
        return {k: share.transpose(axes).reshape(shape) for k, share in known}

    def _known_of(self, x: Shared) -> dict[str, Words]:
        """F, which is second at the party before the prover, and S, first after it."""
        return {
            Side.PROVER: {"u": x.first, "v": x.second},
            Side.BEFORE: {"u": x.second},
            Side.AFTER: {"v": x.first},
        }[self.side]


def _formed(factors: Factors) -> tuple[Form, Shared, Shared]:
    """The einsum as products of matrices, with columns rather than rows.

    Columns have weights in common, rows do not.
    """
    form, x, y = form_of(factors.subscripts), factors.x, factors.y
    if form is not None and form.rows and len(form.right) == form.batch + form.depth:
        form, x, y = form_of(exchanged(factors.subscripts)), y, x
    if form is None:
        raise SetupError(
            f"The product {factors.subscripts!r} cannot be proved: it is no batch of "
            f"products of matrices. Run the plan with audit='off'."
        )
    return form, x, y


@dataclass(frozen=True, eq=False)
class Recorded:
    """All that a party notes of the messages of one prover, in one ring."""

    products: Sequence[Product]
    relations: Sequence[KnownRelation]
    first: int
    """Blocks of the first fold, the same in the proofs of all three."""

    @classmethod
    def of(
        cls, claims: Sequence[Sequence[Claim]], wraps: Sequence[WrapClaim], side: Side
    ) -> "Recorded":
        """On one side."""
        of_side = {Side.PROVER: "proves", Side.BEFORE: "ahead", Side.AFTER: "behind"}
        products = [Product(each, side) for each in claims]
        relations = relations_of(wraps, of_side[side])
        return cls(products, relations, FIRST if wraps else WORDS)

    @property
    def length(self) -> int:
        """Terms after the first fold, which all three parties know."""
        elements, rows = 0, rows_of(self.relations)
        for product in self.products:
            count = int(product.sent.sum())
            if product.is_elementwise:
                rows += 2 * -(-count // WORDS)
            elif product.is_dots:
                rows += 2 * count * -(-product.depth // WORDS)
            else:
                patterns = product.patterns
                batches = sum(len(_batches(product, rows)) for _, rows in patterns)
                elements += 2 * product.depth * batches
        return elements + rows

    def raw(self, which: str) -> Iterator[tuple[Shared | None, Words]]:
        """All that u or v is made of, before any coin, and of which tensor it is."""
        for product in self.products:
            yield from product.operands(which)
        for relation in self.relations:
            known = relation.raw(which)
            if known is not None:
                yield None, known


def _batches(product: Product, rows: Flags) -> npt.NDArray[np.intp]:
    """The batches that any of these rows are in."""
    return np.flatnonzero(rows.reshape(product.batch, product.rows).any(axis=1))


@dataclass
class _Parts:
    """The pieces of one vector, as they are made."""

    elements: list[Words] = field(default_factory=list)
    dots: list[Words] = field(default_factory=list)
    """Rows of dot products."""


class Reduction:
    """All claims of one proof and one ring, from the seed of their weights."""

    def __init__(self, recorded: Recorded, side: Side, galois: GaloisRing) -> None:
        self._recorded, self._side, self._galois = recorded, side, galois

    def statement(self, seed: Expander) -> Statement:
        """<u, v> = c, or what this party knows of it."""
        galois, products = self._galois, self._recorded.products
        sides = {"u": _Parts(), "v": _Parts()}
        claim, rest = galois.zeros(), galois.zeros()
        weights_of_dots: list[RowWeights] = []
        single = Batch(SINGLE)
        most = max((product.columns for product in products), default=1)
        columns = RowWeights.draw_coins(seed, most, galois)
        for product in products:
            if product.is_elementwise:
                self._single(product, single)
            elif product.is_dots:
                summand = self._dots(product, seed, sides, weights_of_dots)
                claim = claim + summand
            else:
                count = product.batch * product.rows
                weights = RowWeights.draw_coins(seed, count, galois)
                rest = rest + self._matrix(product, weights, columns, sides)
        rows: dict[str, list[Rows]] = {"u": [], "v": []}
        ratio = seed.coins(1, galois)[0]
        for batch in (single, *self._batches()):
            of_sides, own = batch.rows(seed, ratio, galois)
            claim = claim + own
            for k, each in of_sides.items():
                rows[k].append(each)
        if weights_of_dots:
            for k, part in sides.items():
                rows[k] += self._dot_rows(k, part, weights_of_dots)
        known = {"u": self._side is not Side.AFTER, "v": self._side is not Side.BEFORE}
        u, v = (
            Vector(
                np.concatenate([galois.zeros(0), *sides[k].elements]), tuple(rows[k])
            )
            if known[k]
            else None
            for k in ("u", "v")
        )
        return Statement(u, v, claim, rest)

    def _batches(self) -> Iterator[Batch]:
        """Of the messages of recasts."""
        for kind in RECASTS:
            batch = Batch(kind)
            for relation in self._recorded.relations:
                if relation.kind is kind:
                    batch.add(relation, self._galois)
            yield batch

    def _dot_rows(
        self, k: str, parts: _Parts, weights: list[RowWeights]
    ) -> Iterator[Rows]:
        if parts.dots:
            both = RowWeights.of(weights)
            one = self._galois.embed(np.ones((1, 1), self._galois.dtype))
            yield Rows(dots(), k == "u", np.concatenate(parts.dots), both, one)

    def _single(self, product: Product, batch: Batch) -> None:
        """Element by element: of the claims that were sent this party's summand."""
        which = product.sent.reshape(-1)
        lefts, rights = (
            {k: words.reshape(-1)[which] for k, words in shares.items()}
            for shares in (product.lefts(), product.rights())
        )
        terms: dict[str, list[Words]] = {"u": [], "v": []}
        for k in lefts:
            terms[k] = _terms(k, lefts[k], rights[k])
        own = product.summand().reshape(-1)[which]
        if self._side is Side.BEFORE:
            own -= lefts["u"] * rights["u"]
        batch.add_products(terms["u"], terms["v"], own)

    def _dots(
        self,
        product: Product,
        seed: Expander,
        sides: dict[str, _Parts],
        weights: list[RowWeights],
    ) -> Words:
        """All rows of a dot product have its weight."""
        which = product.sent.reshape(-1)
        lefts, rights = (
            {k: w.reshape(product.batch, product.depth)[which] for k, w in each.items()}
            for each in (product.lefts(), product.rights())
        )
        for k in lefts:
            for term in _terms(k, lefts[k], rights[k]):
                padded = np.pad(term, [(0, 0), (0, -product.depth % WORDS)])
                sides[k].dots.append(padded.reshape(-1, WORDS))
        of_each = RowWeights.draw_coins(seed, int(which.sum()), self._galois)
        weights += [of_each.for_rows(-(-product.depth // WORDS))] * 2
        own = product.summand().reshape(-1)[which]
        if self._side is Side.BEFORE:
            own -= np.einsum("nd,nd->n", lefts["u"], rights["u"])
        return np.asarray(of_each.sums(own[:, None], self._galois)[0])

    def _matrix(
        self,
        product: Product,
        weights: RowWeights,
        columns: RowWeights,
        sides: dict[str, _Parts],
    ) -> Words:
        galois = self._galois
        columns = columns.some(slice(product.columns))
        own = columns.combined(product.summand(), galois)
        claim = galois.dot(weights.elements(galois), own)
        patterns = product.patterns
        if not patterns:
            return claim
        lefts = product.lefts()
        rights = {
            k: _summed_columns(galois, y, columns, [c for c, _ in patterns])
            for k, y in product.rights().items()
        }
        for s, (_, rows) in enumerate(patterns):
            batches = _batches(product, rows)
            for k, x in lefts.items():
                left = self._summed_rows(product, x, weights, rows, batches)
                left, right = (
                    each.reshape(-1, galois.degree)
                    for each in (left, rights[k](s)[batches])
                )
                sides[k].elements += _terms(k, left, right)
                if self._side is Side.BEFORE:
                    claim = claim - galois.dot(left, right)
        return claim

    def _summed_rows(
        self,
        product: Product,
        x: Words,
        weights: RowWeights,
        rows: Flags,
        batches: npt.NDArray[np.intp],
    ) -> Words:
        """The sum over these rows of x times weights, (batches, depth, d)."""
        galois, size = self._galois, product.rows
        if len(batches) > size * product.depth:  # many small ones
            coins = weights.elements(galois) * rows[:, None]
            coins = coins.reshape(product.batch, size, galois.degree)[batches]
            return galois.multiply_words("bmk,bmd->bkd", x[batches], coins)
        sums = galois.zeros(len(batches), product.depth)
        for i, batch in enumerate(batches):
            chosen = np.flatnonzero(rows[batch * size : (batch + 1) * size])
            of_batch = weights.some(batch * size + chosen)
            sums[i] = of_batch.sums(x[batch][_run(chosen)], galois)
        return sums


def _terms(k: str, left: Words, right: Words) -> list[Words]:
    """F beside S', then F' beside S: u has F and F', v has S' and S."""
    return [left, right] if k == "u" else [right, left]


def _summed_columns(
    galois: GaloisRing, y: Words, weights: RowWeights, patterns: Sequence[Flags]
) -> Callable[[int], Words]:
    """For each pattern the sum over its columns of y times weights, (batch, depth, d).

    Columns that are in the same patterns are summed once.
    """
    _, kinds = np.unique(np.stack(patterns), axis=1, return_inverse=True)
    kinds = kinds.reshape(-1)
    sums: dict[int, Words] = {}
    for kind in np.unique(kinds):
        which = _run(np.flatnonzero(kinds == kind))
        rows = y.reshape(-1, y.shape[2])[:, which]
        summed = weights.some(which).combined(rows, galois)
        sums[int(kind)] = summed.reshape(*y.shape[:2], galois.degree)

    def of(s: int) -> Words:
        present = np.unique(kinds[patterns[s]])
        total = np.sum([sums[int(k)] for k in present], axis=0, dtype=galois.dtype)
        return np.asarray(total)

    return of


def _run(indices: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """Indices as a slice, if they are neighbours: it copies nothing."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices
