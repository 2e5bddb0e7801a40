"""wraps: how often three shares wrap around, shared, without a lonely party.

x0 + x1 + x2 = X + w * 2^l with 0 <= X < 2^(l-1): w in Z_2^k is wanted. Each local step
that is not linear is on a share, which two parties know. So each message can be proved
(``ledger``): the party before its sender and the one after it know all that it is of.

Steps
    0. Of x0 and x1 the top three bits are looked at, i0 and i1, of x2 three classes,
       c = (its top three bits) // 3: known where the shares are. The three cells begin
       at I = i0 + i1 + 3c eighths of 2^l and end less than five eighths above that. So
       X + w 2^l is in [I/8, I/8 + 5/8), and in [w, w + 1/2) as X is legal; I/8 is a
       multiple of 1/8, so w - 1/2 <= I/8 < w + 1/2, and w = (I + 4) >> 3.
    1. P0, which knows i0 and i1, computes (i0 + i1 + 3c + 4) >> 3 for c = 0, 1, 2, and
       sends the three to P2 minus masks r_c of P0 and P1: now P0 and P2 know m_c and
       P0 and P1 know r_c, and w = m_c + r_c for the right c.
    2. P1 and P2 know c. With masks k1 and k2 of theirs P1 sends r_c - k1 to P0, in the
       round of step 1, and P2 then sends m_c - k2.
    3. The shares are m_c - k2 at P0 and P2, r_c - k1 at P0 and P1, and k1 + k2.
    4. If it is checked: with i2, the top three bits of x2, the cells begin at
       J = i0 + i1 + i2 eighths of 2^l and end less than three eighths above that. P0
       sends P2 in step 1, for each i2, whether J is 4 or 5 modulo 8, by XOR under masks
       of P0 and P1. P1 and P2 pick the bit of their i2: XOR shares of a flag, which
       they note (``blocks.range_check``). Counted from w 2^l, what is legal has J from
       -2 to 3: no alarm is false. A value with |x| < 2^(l-1), so -1/4 <= X < 3/4, has J
       from -4 to 5. If it is not noted J is from -2 to 3 and I, which is two less at
       most, from -4 to 3: w is right. So every value that comes out wrong is noted.

Cost
    5k bits per element in two rounds; 8 bits more if it is checked.

Security (semi-honest, one corrupted party)
    P2 sees three elements, hidden by r_c, each a mask of its own of P0 and P1, and
    eight bits under eight masks of these. P0 sees r_c - k1 and m_c - k2, hidden by k1
    and k2, two masks that it does not know (one for both would show it c). P1 sees
    nothing.
    Whether X is legal changes no message's distribution.
    The shares of w that a party ends with are uniform to it: P0 gets two elements under
    two masks, to P1 k2 hides k1 + k2, to P2 k1 does.

Security (one party that deviates, if it is proved)
    A share of w that two honest parties hold is drawn by both, or sent by one of them
    to the other: they cannot be made to hold different shares, whatever the third does.
    Proofs of steps 1 and 2, each by its sender, say that the shares that honest parties
    hold are those of the w that their shares of x say, and that of the bits of step 4
    is that they are those of i0 and i1: whether there is an alarm follows from the
    value alone. P1 and P2 send no flag, and each may change its own word of the check
    by what it likes, which it then knows: what that does is in docs/explanation/audit.

Source
    docs/explanation/protocols.md. Wraps from top bits of shares that are shifted where
    they are: Escudero et al. (CRYPTO 2020); what two of three parties know, shared by
    one message, as in ABY3 (CCS 2018, section 5.4).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.range_check import fold
from ditto.protocols.blocks.two_party import P0, P1, P2
from ditto.protocols.ledger import Message, Relation, WrapClaim
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Role,
    Steps,
)
from ditto.sharing import Masks
from ditto.sharing.packing import Bytes

WRAP_FIELDS = 5
"""Elements of k bits that are sent."""
_BITS, _CLASS = 3, 3
"""Top bits of a cell, and cells of a class: a third of the ring, or less."""
FLAG_CLASSES = 1 << _BITS
"""Bits of the check that are sent, one for each i2."""
_BYTE = Ring(8)


def _begins(of_x2: Iterable[int]) -> npt.NDArray[np.intp]:
    """Where the cells begin for each of x2 and each two of x0 and x1, in eighths."""
    cells = np.arange(1 << _BITS, dtype=np.intp)
    return np.array(list(of_x2))[:, None, None] + cells[:, None] + cells


_WRAPS = (_begins(range(0, 1 << _BITS, _CLASS)) + 4 >> _BITS).astype(np.uint8)
FLAGGED = _begins(range(FLAG_CLASSES)) % 8 // 2 == 2
"""The flag for each i2, i0 and i1."""
_FLAGS = np.packbits(FLAGGED, axis=0, bitorder="little")[0]
"""Those of all i2 as the bits of one byte, (8, 8)."""


def shared_wraps(role: Role, shares: Pair, bits: int, ring: Ring) -> PairSteps:
    """Shares over ``ring`` of how often shares of ``bits`` bits, flat, wrap around."""
    pair, claim = yield from _shared(role, shares, bits, ring)
    if role.record is not None:
        role.record(claim)
    return pair


def _shared(
    role: Role, shares: Pair, bits: int, ring: Ring
) -> Steps[tuple[Pair, WrapClaim]]:
    """With what this role knows of its own message and of those of the others."""
    k, count = ring.bits, shares[0].size
    first, second = (_top(share, bits, _BITS) for share in shares)
    if role.rank == P0:
        r = _masks(role.next, count, ring)
        m = ring.reduce(_WRAPS[:, first, second].astype(ring.dtype) - r)
        inbox = yield Exchange(
            send={P2: [Field(row, k) for row in m]},
            receive={P1: [Expected(count, k)]},
        )
        (of_r,) = inbox[P1]
        inbox = yield Exchange(receive={P2: [Expected(count, k)]})
        (of_m,) = inbox[P2]
        return (of_m, of_r), WrapClaim(
            k,
            proves=Relation(Message.COUNTS, first, second),
            ahead=Relation(Message.CHOICE, r, None, of_r),
            behind=Relation(Message.CHOICE, None, m, of_m),
        )
    masks = role.masks_with(P2 if role.rank == P1 else P1)
    k1, k2 = (masks.draw(name, count, ring) for name in ("k1", "k2"))
    if role.rank == P1:
        r = _masks(role.previous, count, ring)
        which = second // np.uint8(_CLASS)
        of_r = ring.reduce(_chosen(r, which) - k1)
        yield Exchange(send={P0: [Field(of_r, k)]})
        return (of_r, ring.reduce(k1 + k2)), WrapClaim(
            k,
            proves=Relation(Message.CHOICE, r, which),
            ahead=Relation(Message.CHOICE, which, None, k2),
            behind=Relation(Message.COUNTS, None, first, r),
        )
    inbox = yield Exchange(receive={P0: [Expected(count, k)] * 3})
    m = np.stack(inbox[P0])
    which = first // np.uint8(_CLASS)
    of_m = ring.reduce(_chosen(m, which) - k2)
    yield Exchange(send={P0: [Field(of_m, k)]})
    return (ring.reduce(k1 + k2), of_m), WrapClaim(
        k,
        proves=Relation(Message.CHOICE, which, m),
        ahead=Relation(Message.COUNTS, second, None, m),
        behind=Relation(Message.CHOICE, None, which, k1),
    )


def check_wraps(role: Role, shares: Pair, bits: int) -> Steps[None]:
    """Note which of the shared values left their range."""
    first, second = (_top(share, bits, _BITS) for share in shares)
    count = first.size
    if role.rank == P0:
        hidden = _FLAGS[first, second] ^ _flag_masks(role.next, count)
        _record_flags(role, proves=Relation(Message.FLAGS, first, second))
        yield Exchange(send={P2: [Field(hidden, FLAG_CLASSES)]})
        return
    if role.rank == P1:
        held, cells, masks = _flag_masks(role.previous, count), second, role.next
        _record_flags(role, behind=Relation(Message.FLAGS, None, first, held))
        yield Exchange()
    else:
        inbox = yield Exchange(receive={P0: [Expected(count, FLAG_CLASSES)]})
        held, cells, masks = inbox[P0][0].astype(np.uint8), first, role.previous
        _record_flags(role, ahead=Relation(Message.FLAGS, second, None, held))
    fold(role, np.packbits(held >> cells & np.uint8(1)), masks)


def _flag_masks(masks: Masks, count: int) -> Bytes:
    drawn: Bytes = masks.draw("range", count, _BYTE).astype(np.uint8)
    return drawn


def _record_flags(
    role: Role,
    *,
    proves: Relation | None = None,
    ahead: Relation | None = None,
    behind: Relation | None = None,
) -> None:
    """What this role knows of the flags that P0 sends."""
    if role.record is not None:
        role.record(WrapClaim(1, proves, ahead, behind))


def _top(share: Words, bits: int, count: int) -> Bytes:
    """The top bits of a share of ``bits`` bits."""
    top: Bytes = (share >> share.dtype.type(bits - count)).astype(np.uint8)
    return top


def _masks(masks: Masks, count: int, ring: Ring) -> Words:
    """r_c, (3, N)."""
    return np.stack([masks.draw(f"r{c}", count, ring) for c in range(3)])


def _chosen(rows: Words, which: Bytes) -> Words:
    return np.asarray(np.take_along_axis(rows, which[None].astype(np.intp), axis=0)[0])
