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

The first fold, with L = FIRST, or WORDS where there are no recasts, is of the terms
that are words (``rows``): each row of them becomes an element of the Galois ring. The
weights of rows enter there on the side of u, and what stands between u and v on the
side of v. The terms that are elements from the start join them, with their claim c',
and L = FOLD from then on. So that no wrong h makes up for a wrong c', which the prover
knows when it gives h, they go on with r f(r) and r h(r) + c': where h is not <f, g>, or
c' is wrong, X (h - <f, g>) plus the error of c' is a polynomial that is not zero, of
degree 2L - 1, since that error alone has no X.
"""

import numpy as np

from ditto.audit.galois import GaloisRing
from ditto.audit.products import Vector
from ditto.audit.rows import products
from ditto.audit.soundness import FOLD, MOST_FOLDS
from ditto.errors import SetupError
from ditto.fixedpoint import Words

SENT = 2 * FOLD - 2
"""Coefficients that the prover gives in a later fold."""
SENT_LAST = SENT + 2
"""In the last."""
_CHUNK = 1 << 10
"""Blocks that are multiplied at one time: they fit a near memory."""


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


def sent_first(first: int) -> int:
    """Coefficients that the prover gives in the first fold, of so many blocks."""
    return 2 * first - 2


def first_products(galois: GaloisRing, u: Vector, v: Vector, first: int) -> Words:
    """(2L - 1, d): the coefficients of h in the first fold."""
    h = galois.zeros(2 * first - 1)
    for left, right in zip(u.rows, v.rows, strict=True):
        h += products(left, right, galois, first)
    return h


def block_products(galois: GaloisRing, u: Words, v: Words) -> Words:
    """(2L - 1, d): the coefficients of h, for elements."""
    d = galois.degree
    left, right = (_blocks(galois, each).reshape(-1, FOLD * d) for each in (u, v))
    products = np.zeros((FOLD * d, FOLD * d), galois.dtype)
    for start in range(0, len(left), _CHUNK):
        part = slice(start, start + _CHUNK)
        products += galois.multiply_words("ni,nj->ij", left[part], right[part])
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


def fold_first(galois: GaloisRing, x: Vector, r: Words, first: int) -> Words:
    """r f(r) or g(r) of the first fold and the elements, (n, d)."""
    powers = galois.powers(r, first + 1)
    folded = [x.elements, *(rows.folded(powers, galois) for rows in x.rows)]
    count = sum(len(each) for each in folded)
    size = FOLD * -(-max(count, 1) // FOLD)
    return np.concatenate([*folded, galois.zeros(size - count)])


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


def _blocks(galois: GaloisRing, x: Words) -> Words:
    """(n, L, d): neighbours are of different blocks; filled up with zeros."""
    if len(x) % FOLD:
        x = np.concatenate([x, galois.zeros(-len(x) % FOLD)])
    return x.reshape(-1, FOLD, galois.degree)


def _powers(galois: GaloisRing, r: Words, is_u: bool) -> Words:
    powers = galois.powers(r, FOLD)
    return powers if is_u else powers[::-1]


def _on_diagonals(galois: GaloisRing, products: Words) -> Words:
    """(L, L, d) to (2L - 1, d): a, b belongs to X^(a + L - 1 - b)."""
    h = galois.zeros(2 * FOLD - 1)
    for b in range(FOLD):
        h[FOLD - 1 - b : 2 * FOLD - 1 - b] += products[:, b]
    return h
