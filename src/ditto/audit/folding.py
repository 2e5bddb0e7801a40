"""An inner product folded: L terms become one, and the claim follows.

The vectors are cut in blocks u_0 .. u_{L-1} and v_0 .. v_{L-1}, and

    f(X) = sum of u_a X^a,    g(X) = sum of v_b X^(L-1-b),    h(X) = <f(X), g(X)>.

The coefficient of X^(L-1) in h is the sum of all <u_a, v_a>: the claim itself. So the
prover gives the others, the verifiers put the claim c in its place, and for a coin r
they go on with f(r), g(r) and h(r). A claim that is wrong makes h another polynomial
than <f, g>, and h(r) is wrong again unless r is one of its 2L - 2 roots.

The last fold has a block more on either side, u* X^L and v* X^L, of one random element
each. Their products begin at X^L, above the claim. f(r) and g(r), which the verifiers
show each other, are then uniform, because r is a unit.

The first fold, with L = FIRST, is of the terms that are words (``rows``): each row of
them becomes an element of the Galois ring. The weights of rows enter there on the side
of u, and what stands between u and v on the side of v. The terms that are elements from
the start join them, and L = FOLD from then on.
"""

import numpy as np

from ditto.audit.galois import GaloisRing
from ditto.audit.products import Vector
from ditto.audit.rows import GroupedRows, WeightedRows
from ditto.audit.soundness import FIRST, FOLD, MOST_FOLDS
from ditto.errors import SetupError
from ditto.fixedpoint import Words

SENT_FIRST = 2 * FIRST - 2
"""Coefficients that the prover gives in the first fold."""
SENT = 2 * FOLD - 2
"""In a later one."""
SENT_LAST = SENT + 2
"""In the last."""
_CHUNK = 1 << 16
"""Rows of words whose products are in memory at one time."""


def folds_for(length: int) -> int:
    """How many folds it takes, of a vector with ``length`` terms after the first."""
    folds = 2
    while FOLD ** (folds - 1) < length:
        folds += 1
    if folds > MOST_FOLDS:
        raise SetupError(
            f"A proof of {length} terms needs {folds} folds; the Galois ring is chosen "
            f"for {MOST_FOLDS}. Prove fewer products together."
        )
    return folds


def first_products(galois: GaloisRing, u: Vector, v: Vector) -> Words:
    """(2L - 1, d): the coefficients of h in the first fold."""
    h = _dots(galois, u.dots, v.dots)
    for left, right in zip(u.rows, v.rows, strict=True):
        h += _between(galois, left, right)
    return h


def block_products(galois: GaloisRing, u: Words, v: Words) -> Words:
    """(2L - 1, d): the coefficients of h, for elements."""
    d = galois.degree
    left, right = (_blocks(galois, each).reshape(-1, FOLD * d) for each in (u, v))
    products = galois.multiply_words("ni,nj->ij", left, right)
    products = products.reshape(FOLD, d, FOLD, d).transpose(0, 2, 1, 3)
    return _on_diagonals(galois, galois.collapse(products))


def masked_products(
    galois: GaloisRing, u: Words, v: Words, masks: tuple[Words, Words]
) -> Words:
    """(2L + 1, d): of the last fold, with a block u* and v* more."""
    (u_mask, v_mask), zeros = masks, galois.zeros(2)
    h = np.concatenate([block_products(galois, u, v), zeros])
    left, right = (_blocks(galois, each)[0] for each in (u, v))
    h[FOLD : 2 * FOLD] += galois.times(right[::-1], u_mask)
    h[FOLD : 2 * FOLD] += galois.times(left, v_mask)
    h[2 * FOLD] += galois.times(u_mask, v_mask)
    return h


def fold_first(galois: GaloisRing, x: Vector, r: Words, *, is_u: bool) -> Words:
    """f(r) or g(r) of the first fold and the elements, (n, d)."""
    powers = galois.powers(r, FIRST) if is_u else galois.powers(r, FIRST)[::-1]
    words = galois.multiply_words("ca,ad->cd", x.dots.words, powers)
    folded = [x.elements, _weighted(galois, words, x.dots) if is_u else words]
    for rows in x.rows:
        factors = powers
        if not is_u:
            products = galois.times(powers[:, None], rows.between)
            factors = products.sum(axis=0, dtype=galois.dtype)
        words = galois.multiply_words("ca,ad->cd", rows.words, factors)
        folded.append(rows.times_weights(words, galois) if is_u else words)
    terms = np.concatenate(folded)
    return terms if len(terms) else galois.zeros(1)


def fold(galois: GaloisRing, x: Words, r: Words, *, is_u: bool) -> Words:
    """f(r) or g(r), (n, d)."""
    d = galois.degree
    matrices = [galois.matrix(power) for power in _powers(galois, r, is_u)]
    blocks = _blocks(galois, x).reshape(-1, FOLD * d)
    return galois.multiply_words("ni,ij->nj", blocks, np.concatenate(matrices))


def fold_last(
    galois: GaloisRing, x: Words, r: Words, mask: Words, *, is_u: bool
) -> Words:
    """f(r) or g(r) of the last fold: one element, (d,)."""
    folded = fold(galois, x, r, is_u=is_u)[0]
    return np.asarray(folded + galois.times(galois.powers(r, FOLD + 1)[FOLD], mask))


def fold_claim(
    galois: GaloisRing, claim: Words, given: Words, r: Words, size: int = FOLD
) -> Words:
    """h(r), or a summand of it: ``given`` are the coefficients without the claim, of a
    fold of ``size`` blocks."""
    h = np.concatenate([given[: size - 1], claim[None], given[size - 1 :]])
    return galois.dot(h, galois.powers(r, len(h)))


def without_claim(h: Words, size: int = FOLD) -> Words:
    """The coefficients that the prover gives."""
    return np.delete(h, size - 1, axis=0)


def _weighted(galois: GaloisRing, elements: Words, rows: WeightedRows) -> Words:
    """Elements, one for each row, times the weights of the rows."""
    if len(rows.weights) == len(elements):
        return galois.times(elements, rows.weights)
    starts = np.cumsum(rows.counts) - rows.counts
    weighted = np.empty_like(elements)
    for count in np.unique(rows.counts):
        which = rows.counts == count
        places = starts[which, None] + np.arange(count)
        matrices = galois.matrix(rows.weights[which])
        weighted[places] = galois.multiply_words(
            "bkd,bde->bke", elements[places], matrices
        )
    return weighted


def _blocks(galois: GaloisRing, x: Words) -> Words:
    """(n, L, d): neighbours are of different blocks; filled up with zeros."""
    return np.pad(x, [(0, -len(x) % FOLD), (0, 0)]).reshape(-1, FOLD, galois.degree)


def _powers(galois: GaloisRing, r: Words, is_u: bool) -> Words:
    powers = galois.powers(r, FOLD)
    return powers if is_u else powers[::-1]


def _on_diagonals(galois: GaloisRing, products: Words) -> Words:
    """(L, L, d) to (2L - 1, d): a, b belongs to X^(a + L - 1 - b)."""
    h = galois.zeros(2 * FOLD - 1)
    for b in range(FOLD):
        h[FOLD - 1 - b : 2 * FOLD - 1 - b] += products[:, b]
    return h


def _dots(galois: GaloisRing, u: WeightedRows, v: WeightedRows) -> Words:
    h = galois.zeros(2 * FIRST - 1)
    weights = np.repeat(u.weights, u.counts, axis=0)
    for start in range(0, len(u.words), _CHUNK):
        part = slice(start, start + _CHUNK)
        left, right = u.words[part], v.words[part]
        sums = np.zeros((len(left), 2 * FIRST - 1), galois.dtype)
        for b in range(FIRST):
            sums[:, FIRST - 1 - b : 2 * FIRST - 1 - b] += left * right[:, b : b + 1]
        h += galois.multiply_words("ct,cd->td", sums, weights[part])
    return h


def _between(galois: GaloisRing, u: GroupedRows, v: GroupedRows) -> Words:
    """With the sum over all rows of weight u_a v_c for each a and c: h has u_a at X^a,
    and at X^(L-1-b) the sum over c of what stands between b and c, times v_c."""
    products = galois.zeros(FIRST * FIRST)
    weights = np.concatenate([u.weights(galois)] * u.terms)
    for start in range(0, len(u.words), _CHUNK):
        part = slice(start, start + _CHUNK)
        left, right = (np.ascontiguousarray(x.words[part].T) for x in (u, v))
        pairs = (left[:, None] * right[None]).reshape(FIRST * FIRST, -1)
        products += galois.multiply_words("qc,cd->qd", pairs, weights[part])
    by_a = products.reshape(FIRST, FIRST, galois.degree)
    h = galois.zeros(2 * FIRST - 1)
    for b, row in enumerate(v.between):
        used = np.flatnonzero(row.any(axis=1))
        terms = galois.times(by_a[:, used], row[used])
        h[FIRST - 1 - b : 2 * FIRST - 1 - b] += terms.sum(axis=1, dtype=galois.dtype)
    return h
