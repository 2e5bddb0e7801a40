"""How large the Galois ring has to be for the wanted soundness.

A deviation goes unnoticed only if one of the verifiers' coins falls on a root of a
polynomial that the deviating party fixed before it saw the coin. Over a Galois ring
GR(2^k, d) a polynomial that is not zero has at most as many roots among the 2^d coins
as its degree says: take out the largest power of two that divides it; what is left is
not zero modulo 2, and the coins are all different elements of the field of 2^d elements
modulo 2. So each coin adds its degree over 2^d:

- the weights of the claims: of products of matrices columns, then rows, each linear; of
  claims in rows (``rows``) the coin of a row, linear, that of the claims in it, a
  polynomial of degree FIRST / 2 - 1 at most, as no element of a row has fewer than two
  words there, and those of one element, linear. That some rows are multiplied by powers
  of two changes nothing: their claims are right modulo fewer bits, and an error in them
  is still not zero when it is multiplied;
- the fold of all rows: FIRST words with FIRST words, times the coin, and the elements
  that join, degree 2 FIRST - 1. Where there are no recasts it is WORDS with WORDS;
- each later fold: FOLD blocks with FOLD blocks, degree 2 FOLD - 2; the last one has a
  masking block more on either side, degree 2 FOLD;
- a coin that is zero is replaced by one, so that masks are never multiplied by zero:
  one more for each fold.
"""

from math import ceil, log2

SOUNDNESS_BITS = 40
"""A deviation goes unnoticed with a chance of at most 2^-40."""
WORDS = 16
"""Words of products that become one element in the first fold. As many again would
halve what the later folds cost and double this one; it is about the same at 16."""
FIRST = 64
"""Words of recasts that do: what they cost is looked up, so they can be more. With more
than 64 the ring would need more than 48."""
FOLD = 4
"""Elements that become one in a later fold, of which there are two rounds each. The
prover multiplies each by this many: more would save rounds and cost products."""
MOST_FOLDS = 14
"""Enough for 4^13 elements, or 16 times as many words, in one proof."""


def roots(folds: int) -> int:
    """The sum of the degrees: the chance to go unnoticed is this many over 2^d."""
    weights = 2 + (FIRST // 2 - 1) + 1
    first, later = 2 * FIRST - 1 + 1, 2 * FOLD - 2 + 1
    return weights + first + (folds - 1) * later + 2


def degree_for(bits: int, folds: int) -> int:
    """The smallest d with roots / 2^d <= 2^-bits."""
    return bits + ceil(log2(roots(folds)))


PROOFS = 3
"""Of the proof system: another number for whatever changes what parties send in proofs
of the same run, or when. Parties with different ones would accuse each other, or wait
in vain, so they compare it before any run. ``tests/audit/test_version.py`` notices what
changes."""
DEGREE = degree_for(SOUNDNESS_BITS, MOST_FOLDS)
