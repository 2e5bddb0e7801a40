"""The product of what P1 knows and what P0 and P2 know, shared.

u is known to P1, v to P0 and P2: bits or values over Z_2^k, or vectors of them, whose
product is then the sum of the products of their elements. u * v is written for both.

Steps
    two rounds: P1 sends u - rho to P2, rho a mask of P0 and P1; P0 sends
    d0 = v*rho - m0 and P2 sends d2 = v*(u - rho) - m2 to P1, m0 and m2 masks of P0 and
    P2. The shares are m0 + m2, d0, d2.
    one round: with masks p, r1 of P0 and P1 and q, r2 of P1 and P2, P1 sends u + q to
    P0 and u + p to P2, P2 sends v*q + r2 to P0, P0 sends v*p + r1 to P2. Now both know
    v*u - r1 - r2, which is share 0; shares 1 and 2 are r1 and r2.

Cost
    two rounds: an element of u and two results, k bits each; one round: two elements
    of u and two results.

Security (semi-honest, one corrupted party)
    P0 sees, in one round, u + q and v*q + r2: q and r2 are fresh masks it does not
    know. In two rounds it sees nothing. P1 sees, in two rounds, d0 and d2, hidden by
    m0 and m2, which are independent (one mask for both would let P1 solve for v); in
    one round nothing. P2 sees u - rho, or u + p and v*p + r1: rho, p and r1 are fresh
    masks of P0 and P1. So every message is uniform and independent of all else its
    receiver knows, and a simulator draws it at random.

Source
    docs/explanation/protocols.md; the one-round form replaces the two three-party OTs
    (6k bits) of ABY3 (CCS 2018, section 5.4).
"""

from typing import Literal

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.native import flags as native
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.party import Exchange, Expected, Field, PairSteps, Role

Rounds = Literal[1, 2, 3]
"""Of what a protocol leaves the choice of; here two is the most."""


def two_party_product(
    role: Role, factor: Words, ring: Ring, rounds: Rounds
) -> PairSteps:
    """Shares of u * v: ``factor`` is u at P1 and v at P0 and P2, (N,) or (N, length).

    The shares are equal to N products modulo 2^k, and may have more bits than k.
    """
    return (_in_two if rounds == 2 else _in_one)(role, factor, ring)


def product_fields(rounds: Rounds) -> tuple[int, int]:
    """How many fields of the factor's size are sent, and how many of the result's."""
    return (1, 2) if rounds == 2 else (2, 2)


def _in_two(role: Role, factor: Words, ring: Ring) -> PairSteps:
    count, k = len(factor), ring.bits
    if role.rank == P1:
        rho = role.previous.draw("rho", factor.size, ring)
        inbox = yield Exchange(
            send={P2: [Field(factor.reshape(-1) - rho, k)]},
            receive={P0: [Expected(count, k)]},
        )
        (d0,) = inbox[P0]
        inbox = yield Exchange(receive={P2: [Expected(count, k)]})
        (d2,) = inbox[P2]
        return d0, d2
    shared = masks_of_p0_p2(role)
    m0, m2 = (shared.draw(name, count, ring) for name in ("m0", "m2"))
    if role.rank == P0:
        d0 = _times(factor, role.next.draw("rho", factor.size, ring)) - m0
        yield Exchange(send={P1: [Field(d0, k)]})
        return m0 + m2, d0
    inbox = yield Exchange(receive={P1: [Expected(factor.size, k)]})
    d2 = _times(factor, inbox[P1][0]) - m2
    yield Exchange(send={P1: [Field(d2, k)]})
    return d2, m0 + m2


def _in_one(role: Role, factor: Words, ring: Ring) -> PairSteps:
    count, k = len(factor), ring.bits
    if role.rank == P1:
        p, q = (
            masks.draw(name, factor.size, ring)
            for masks, name in ((role.previous, "p"), (role.next, "q"))
        )
        u = factor.reshape(-1)
        yield Exchange(send={P0: [Field(u + q, k)], P2: [Field(u + p, k)]})
        r1 = role.previous.draw("r1", count, ring)
        return r1, role.next.draw("r2", count, ring)
    # P0 and P2 do the same, each with masks of P1 and itself
    other, names = (P2, ("p", "r1")) if role.rank == P0 else (P0, ("q", "r2"))
    with_p1 = role.masks_with(P1)
    mask, r = (
        with_p1.draw(name, n, ring)
        for name, n in zip(names, (factor.size, count), strict=True)
    )
    inbox = yield Exchange(
        send={other: [Field(_times(factor, mask) + r, k)]},
        receive={P1: [Expected(factor.size, k)], other: [Expected(count, k)]},
    )
    (masked,), (correction,) = inbox[P1], inbox[other]
    share = _times(factor, masked) - correction - r
    return (share, r) if role.rank == P0 else (r, share)


def _times(factor: Words, other: Words) -> Words:
    """Elementwise, or a dot product for every row."""
    other = other.astype(factor.dtype, copy=False).reshape(factor.shape)
    if factor.ndim == 1:
        return np.asarray(factor * other)
    if native.there():
        return native.row_dots(factor, other)
    return np.asarray((factor * other).sum(axis=1, dtype=factor.dtype))
