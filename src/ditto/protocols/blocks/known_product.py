"""z + m * w: w known to P1, z and m sums of what P0 and P2 hold, and w of both parts.

P0 holds z0, m0 and w0, P2 holds z2, m2 and w2, with z = z0 + z2, m = m0 + m2 and
w = w0 + w2; P1 knows w. m and w may be vectors, whose product is then the sum of the
products of their elements.

Steps
    With masks k0 and k2 of P0 and P2 and k = k0 + k2, P0 sends m0 - k0 to P1, P2 sends
    m2 - k2, and in the same messages z0 + k w0 and z2 + k w2 become shares
    (``two_to_three``). P1 computes (m - k) w: with the shares it adds up to z + m w, of
    which P0 and P2 know share 0 and P1 all the rest.

Cost
    2l bits for every element of m and 2(l - d) for z, one round.

Security
    Only P1 sees messages: m0 - k0 and m2 - k2, hidden by two masks that it does not
    know, each element by its own, and those of ``two_to_three``. They are independent:
    one mask for both would show P1 the difference of m0 and m2.

Source
    docs/explanation/protocols.md.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.lockstep import together
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.blocks.two_to_three import two_to_three
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Role,
    Steps,
)


def known_product(
    role: Role,
    known: Words,
    factors: Words | None,
    rest: Words | None,
    ring: Ring,
    *,
    dropped: int = 0,
) -> Steps[tuple[Pair, Words]]:
    """Shares of z plus the masked part of the product, and what P1 adds to them.

    ``known`` is w at P1 and w0 or w2 at P0 and P2, (n, N) for vectors of n; there
    ``factors`` is m0 or m2, likewise, and ``rest`` z0 or z2, (N,). z may go without its
    ``dropped`` last bits.
    """
    count = known.shape[1]
    group = Group(ring)
    if factors is None or rest is None:
        sent, pair = yield from together(
            _send(None, known.size, ring),
            two_to_three(role, None, count, group, dropped=dropped),
        )
        return pair, _total((sent[0] + sent[1]).reshape(known.shape) * known, ring)
    drawn = masks_of_p0_p2(role)
    k0, k2 = (
        drawn.draw(name, known.size, ring).reshape(known.shape)
        for name in ("factors 0", "factors 2")
    )
    hidden = ring.reduce(factors - (k0 if role.rank == P0 else k2))
    masked = ring.reduce(rest + _total((k0 + k2) * known, ring))
    _, pair = yield from together(
        _send(hidden.reshape(-1), known.size, ring),
        two_to_three(role, masked, count, group, dropped=dropped),
    )
    return pair, np.zeros(count, ring.dtype)


def _send(hidden: Words | None, count: int, ring: Ring) -> PairSteps:
    """At P1 both halves of the factors without their masks."""
    if hidden is not None:
        yield Exchange(send={P1: [Field(hidden, ring.bits)]})
        return hidden, hidden
    expected = [Expected(count, ring.bits)]
    inbox = yield Exchange(receive={P0: expected, P2: expected})
    return inbox[P0][0], inbox[P2][0]


def _total(products: Words, ring: Ring) -> Words:
    return ring.reduce(products.sum(axis=0, dtype=ring.dtype))
