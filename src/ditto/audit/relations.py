"""What is claimed of the messages of a recast, as words of both sides.

Of a claim the party before the prover knows a group of words, u, the party after it
one, v, and the claim is u B v = a sum of two numbers, with B known to all. Of a message
of a recast (``protocols.blocks.wraps``) the words follow from a cell or a class, which
are few:

- a choice of e_0, e_1 and e_2 is e_0, which is a summand of its own, plus (e_1 - e_0)
  or (e_2 - e_0) or none: one group has these two differences, the other one bit for
  each. B is one;
- counts: of cells i0 and i1 and c = 0, 1, 2 the claims are
  (i0 + i1 + 3c + 4) >> 3 = a + [i0 >= 8 - b] with 8a + b = i1 + 3c + 4. Then u has the
  bits [i0 >= n] for n from 1 to 7, v has which i1 is, and B has, for a row n and a
  column i1, the sum over all c of the weight of c if n = 8 - b;
- flags: of the same cells the claims are bits f_c(i0, i1) for c from 0 to 7, and right
  modulo 2. f_c(i0, i1) = f_c(0, i1) + the sum over n of [i0 >= n] times what changes
  from n - 1 to n. u and v have the same words as those of counts, and B has, for a row
  n and a column i1, the sum over all c of the weight of c if that changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ditto.audit.galois import GaloisRing
from ditto.fixedpoint import Words
from ditto.protocols.blocks import FLAGGED
from ditto.protocols.ledger import Message, Relation, WrapClaim

_CELLS, _CLASSES = 8, 3


@dataclass(frozen=True, eq=False)
class Kind:
    """What u, v and B are of the claims of one element."""

    u: Words | None
    """(values, words): the words that follow from a cell; None if they are any."""
    v: Words | None
    between: npt.NDArray[np.bool_]
    """(claims, words of u, words of v): B is the sum of these, each with its weight."""

    @property
    def claims(self) -> int:
        """For each element."""
        return int(self.between.shape[0])

    @property
    def size(self) -> int:
        """Words of u for each element."""
        return int(self.between.shape[1])


def _counts() -> npt.NDArray[np.bool_]:
    """Whether n = 8 - b, (c, n, i1)."""
    b, n = _sums().T % _CELLS, np.arange(1, _CELLS)
    return np.asarray(n[:, None] == _CELLS - b[:, None])


def _sums() -> npt.NDArray[np.intp]:
    """i1 + 3c + 4, (8, 3)."""
    return np.arange(_CELLS)[:, None] + 3 * np.arange(3) + _CELLS // 2


_BITS = np.eye(_CLASSES, dtype=np.uint8)[:, 1:]
"""Of a class."""
_ONE = np.eye(1, dtype=np.bool_)[None]
_TWO = np.eye(_CLASSES - 1, dtype=np.bool_)[None]
SINGLE = Kind(None, None, _ONE)
COUNTS = Kind(
    np.tri(_CELLS, _CELLS - 1, -1, np.uint8), np.eye(_CELLS, dtype=np.uint8), _counts()
)
FLAGS = Kind(COUNTS.u, COUNTS.v, FLAGGED[:, 1:] != FLAGGED[:, :-1])
ELEMENTS_BEFORE = Kind(None, _BITS, _TWO)
ELEMENTS_AFTER = Kind(_BITS, None, _TWO)
RECASTS = COUNTS, ELEMENTS_BEFORE, ELEMENTS_AFTER, FLAGS


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

    @property
    def kind(self) -> Kind:
        """Of its claims: all three parties find the same."""
        before, after = self.relation.before, self.relation.after
        if self.relation.message is Message.COUNTS:
            return COUNTS
        if self.relation.message is Message.FLAGS:
            return FLAGS
        if before is not None:
            return ELEMENTS_BEFORE if before.ndim == 2 else ELEMENTS_AFTER
        return (
            ELEMENTS_AFTER
            if after is not None and after.ndim == 2
            else (ELEMENTS_BEFORE)
        )

    def known(self, which: str, galois: GaloisRing) -> Words | None:
        """Cells or classes (N, 1), or the differences (N, 2): of u or of v."""
        raw = self.raw(which)
        if raw is None or raw.ndim == 1:
            return None if raw is None else raw[:, None]
        elements = raw.astype(galois.dtype)
        return np.stack([elements[1] - elements[0], elements[2] - elements[0]], axis=1)

    def own(self, galois: GaloisRing) -> Words:
        """(N, claims): this verifier's summands, without what it knows of the claim."""
        relation = self.relation
        if relation.own is None:
            return np.zeros((self.count, self.kind.claims), galois.dtype)
        if relation.message is Message.FLAGS:
            bits = np.unpackbits(relation.own[:, None], axis=1, bitorder="little")
            if relation.after is not None:
                bits ^= FLAGGED[:, 0].T[relation.after]
            return bits.astype(galois.dtype)
        own = np.atleast_2d(relation.own).T.astype(galois.dtype)
        if relation.message is Message.COUNTS and relation.after is not None:
            own = own - (_sums() // _CELLS).astype(galois.dtype)[relation.after]
        for known in (relation.before, relation.after):
            if known is not None and known.ndim == 2:
                own = own - known[0].astype(galois.dtype)[:, None]
        return np.asarray(own)

    def raw(self, which: str) -> Words | None:
        """What u or v is made of."""
        return self.relation.before if which == "u" else self.relation.after


def relations_of(claims: Iterable[WrapClaim], side: str) -> list[KnownRelation]:
    """Of each claim what it says on a side: "proves", "ahead" or "behind"."""
    noted = [(claim.width, getattr(claim, side)) for claim in claims]
    return [KnownRelation(width, known) for width, known in noted if known is not None]
