"""What a party writes down of products while it runs, for proofs of them afterwards.

P_i multiplies what it holds of x and y: z_i = x_i y_i + x_i y_{i+1} + x_{i+1} y_i. The
party before it holds x_i and y_i, the party after it x_{i+1} and y_{i+1}. Whatever P_i
sends of z_i under masks, these two can write z_i as a sum of two numbers, one known to
each: of the message, which one of them received, and of the masks. Each party notes its
number of the z of both others (``ahead`` of the next, ``behind`` of the previous), and
``audit`` proves that they are what z_i should be.

So it is with the messages of a recast without a lonely party (``blocks.wraps``): each
is a function of what the party before its sender knows and of what the one after it
knows, and its receiver and the masks make it a sum of two numbers again.

Nothing is noted, and nothing is kept, unless a party has a ledger.
"""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from ditto.fixedpoint import FxpType, Words
from ditto.sharing import Shared

_LABELS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, eq=False)
class Factors:
    """What was multiplied: an einsum of two tensors of one ring."""

    x: Shared
    y: Shared
    subscripts: str
    lift: int = 0
    """By how many bits claims are shifted: what holds modulo 2^b, times 2^(32 - b),
    holds modulo 2^32, and nothing else does."""

    @classmethod
    def of_einsum(cls, x: Shared, y: Shared, subscripts: str) -> "Factors":
        """In a ring that products are proved in."""
        if x.ring.fills_word:
            return cls(x, y, subscripts)
        lift = 8 * x.ring.dtype.itemsize - x.ring.bits
        first, second = (
            share << share.dtype.type(lift) for share in (x.first, x.second)
        )
        wide = [FxpType(x.ring.bits + lift, each.type.frac) for each in (x, y)]
        lifted = Shared(first, second, wide[0].rescaled(-lift))
        return cls(lifted, Shared(y.first, y.second, wide[1]), subscripts, lift)

    def claimed(self, summand: Words) -> Words:
        """A summand of a result, as what is proved has it."""
        return summand << summand.dtype.type(self.lift) if self.lift else summand

    @classmethod
    def elementwise(cls, x: Shared, y: Shared) -> "Factors":
        """A product that is broadcast: an axis that one of them lacks is not its own.

        So a row times a column is the einsum that it is, of few numbers and not of
        many.
        """
        shape = np.broadcast_shapes(x.shape, y.shape)
        labels = _LABELS[: len(shape)]
        if x.size == y.size == 1:
            return cls(x.reshape(1), y.reshape(1), "a,a->a")
        squeezed, operands = [], []
        for operand in (x, y):
            own = (1,) * (len(shape) - len(operand.shape)) + operand.shape
            kept = [i for i, n in enumerate(own) if n == shape[i] != 1]
            squeezed.append(operand.reshape(*(own[i] for i in kept)))
            operands.append("".join(labels[i] for i in kept))
        result = "".join(c for c, n in zip(labels, shape, strict=True) if n != 1)
        return cls(squeezed[0], squeezed[1], f"{operands[0]},{operands[1]}->{result}")

    @classmethod
    def squares(cls, x: Shared, axes: tuple[int, ...]) -> "Factors":
        """The sum of x*x over some axes."""
        labels = _LABELS[: len(x.shape)]
        summed = {axis % len(labels) for axis in axes}
        result = "".join(c for i, c in enumerate(labels) if i not in summed)
        return cls(x, x, f"{labels},{labels}->{result}")


@dataclass(frozen=True, eq=False)
class Claim:
    """What this party knows of one part of a product's flat result."""

    factors: Factors
    part: slice
    proves: bool
    """Whether this party sent its z of this part."""
    ahead: Words | None
    """This party's summand of the next party's z, if that was sent."""
    behind: Words | None
    """This party's summand of the previous party's z, if that was sent."""


class Message(Enum):
    """What a message of ``blocks.wraps`` is a function of."""

    COUNTS = "counts"
    """Of the cells i0 and i1 of two shares: (i0 + i1 + 3c + 4) >> 3 for three c."""
    CHOICE = "choice"
    """Of three elements and a class: the element of that class."""
    FLAGS = "flags"
    """Of i0 and i1 too: bits of the range check for eight cells of a third share."""


@dataclass(frozen=True, eq=False)
class Relation:
    """What this party knows of one such message.

    ``before`` is what the party before the sender knows: i0, or one of the elements
    (3, N) and the classes (N,); ``after`` what the party after it knows. ``own`` is
    this party's summand of the message before it was masked, None at the sender; that
    of flags is a byte of bits.
    """

    message: Message
    before: Words | None
    after: Words | None
    own: Words | None = None


@dataclass(frozen=True, eq=False)
class WrapClaim:
    """What this party knows of messages of one ``blocks.wraps``, modulo 2^width: of one
    of each party, or of flags, modulo 2, which one party sends."""

    width: int
    proves: Relation | None
    """Of its own message."""
    ahead: Relation | None
    """Of the next party's."""
    behind: Relation | None
    """Of the previous party's."""

    @property
    def bits(self) -> int:
        """Of the ring it is proved in."""
        return 32 if self.width <= 32 else 64

    @property
    def is_of_flags(self) -> bool:
        """Whether it is of the range check."""
        known = (self.proves, self.ahead, self.behind)
        return any(each and each.message is Message.FLAGS for each in known)


@dataclass
class Ledger:
    """The claims of a run, in the order of the steps they are from."""

    _claims: dict[int, Claim] = field(default_factory=dict)
    _wraps: dict[tuple[int, bool], WrapClaim] = field(default_factory=dict)

    def add(self, step: int, claim: Claim | WrapClaim) -> None:
        """Note a claim; each step has one of each kind at most."""
        if isinstance(claim, WrapClaim):
            self._wraps[step, claim.is_of_flags] = claim
        else:
            self._claims[step] = claim

    def products(self) -> list[list[Claim]]:
        """The claims of each product: of all parts of its result."""
        grouped: dict[int, list[Claim]] = {}
        for step in sorted(self._claims):
            claim = self._claims[step]
            grouped.setdefault(id(claim.factors), []).append(claim)
        return list(grouped.values())

    def wraps(self) -> list[WrapClaim]:
        """Those of recasts."""
        return [self._wraps[key] for key in sorted(self._wraps)]
