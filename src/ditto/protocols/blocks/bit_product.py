"""The product of a bit of P1 and a bit of P0 and P2, as a sum of two numbers.

u is a bit that P1 knows, v one that P0 and P2 know. Their product modulo 2^k becomes
m + w, m known to P0 and P2, w to P1.

Steps
    1. With r a random bit of P0 and P1, P1 sends c = u ^ r to P2.
    2. With m0 and m2 masks of P0 and P2 over Z_2^k, P2 sends c*v - m2 to P1, and P0
       sends r*v - m0 + (1 - 2r)*m2.
    3. P1 multiplies what P2 sent by 1 - 2r and adds what P0 sent: r*v + (1 - 2r)*c*v
       - m0 = u*v - m0, for u = r + c - 2*r*c. So w = u*v - m0 and m = m0.

Cost
    2k + 1 bits, two rounds. As shares (``two_party``) it takes a round more than
    ``product``, and k - 1 bits less.

Security (semi-honest, one corrupted party)
    P0 sees nothing. P2 sees u ^ r, r a random bit that it does not know. P1 sees two
    numbers, hidden by m2 and by m0, which are independent and which it does not know.
    So every message is uniform and independent of all else its receiver knows, and a
    simulator draws it at random. m is a mask, independent of the data.

Source
    docs/explanation/protocols.md; a database of two bits that two servers hold, read
    by XOR queries (Chor, Goldreich, Kushilevitz, Sudan, FOCS 1995), with masks.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.party import Exchange, Expected, Field, Role, Steps

_BIT = Ring(1)


def bit_product(role: Role, bit: Words, ring: Ring) -> Steps[Words]:
    """w at P1 and m at P0 and P2: ``bit`` is u at P1 and v at P0 and P2, flat."""
    count, k = bit.size, ring.bits
    if role.rank == P1:
        r = role.previous.draw("r", count, _BIT)
        hidden = bit.astype(_BIT.dtype) ^ r
        inbox = yield Exchange(
            send={P2: [Field(hidden, 1)]}, receive={P0: [Expected(count, k)]}
        )
        (d0,) = inbox[P0]
        inbox = yield Exchange(receive={P2: [Expected(count, k)]})
        (d2,) = inbox[P2]
        return ring.reduce(d0 + np.where(r, 0 - d2, d2))
    shared = masks_of_p0_p2(role)
    m0, m2 = (shared.draw(name, count, ring) for name in ("m0", "m2"))
    v = bit.astype(ring.dtype, copy=False)
    if role.rank == P0:
        r = role.next.draw("r", count, _BIT)
        d0 = np.where(r, v - m2, m2) - m0
        yield Exchange(send={P1: [Field(d0, k)]})
        return m0
    inbox = yield Exchange(receive={P1: [Expected(count, 1)]})
    (c,) = inbox[P1]
    yield Exchange(send={P1: [Field(np.where(c, v, v - v) - m2, k)]})
    return m0
