"""A secret of three shares as a sum of two: a known to P0 and P2, s known to P1.

Steps
    to two summands: x0 is known to P0 and P2, and P1 adds x1 and x2 up. Local.
    back to replicated shares: share 0 is a; P1 splits s into share 1, a mask of P0 and
    P1, and share 2 = s - share 1, which it sends to P2.

Cost
    to two summands nothing; back l bits per element, one round.

Security
    Only P2 sees a message: s minus a mask of P0 and P1, which it does not know. So the
    message is uniform and independent of all else P2 knows, and a simulator draws it at
    random.

Source
    docs/explanation/protocols.md.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Role,
    Steps,
)
from ditto.sharing import Masks, Rank

P0, P1, P2 = Rank.P0, Rank.P1, Rank.P2


def masks_of_p0_p2(role: Role) -> Masks:
    """The masks that P0 and P2 share."""
    return role.masks_with(P2 if role.rank == P0 else P0)


def two_party_summand(role: Role, shares: Pair, ring: Ring, public: int) -> Words:
    """x plus a public number as two summands: x0 + public at P0, P2; x1 + x2 at P1."""
    first, second = shares
    if role.rank == P1:
        return ring.reduce(first + second)
    x0 = first if role.rank == P0 else second
    return ring.reduce(x0 + ring.scalar(public))


def cell_index(summand: Words, cut: int, count: int) -> Words:
    """A summand without its last bits, modulo a power of two: part of a cell's index.

    The cells of both summands add up to that of their sum, or to the one before.
    """
    shifted = summand >> summand.dtype.type(cut)
    return np.asarray(shifted & shifted.dtype.type(count - 1))


def split_of_p1(
    role: Role, value: Words | None, count: int, group: Group, purpose: str
) -> Steps[tuple[Words, ...]]:
    """A value that P1 knows as s1 + s2: s1 at P0, s2 at P2, both at P1."""
    bits = group.ring.bits
    if value is not None:
        s1 = role.previous.draw(purpose, count, group.ring)
        s2 = group.subtract(value, s1)
        yield Exchange(send={P2: [Field(s2, bits)]})
        return s1, s2
    if role.rank == P0:
        yield Exchange()
        return (role.next.draw(purpose, count, group.ring),)
    inbox = yield Exchange(receive={P1: [Expected(count, bits)]})
    return tuple(inbox[P1])


def replicate_two_party(role: Role, summand: Words, ring: Ring) -> PairSteps:
    """Replicated shares of a + s: ``summand`` is s at P1 and a at P0 and P2, flat."""
    value = summand if role.rank == P1 else None
    split = yield from split_of_p1(role, value, summand.size, Group(ring), "s1")
    if role.rank == P1:
        s1, s2 = split
        return s1, s2
    (share,) = split
    return (summand, share) if role.rank == P0 else (share, summand)
