"""From XOR shares of bits at P0 and P2 to summands of them as integers.

A word has n bits; bit j is wanted modulo 2^w_j.

Steps
    deal: with mask bits rho0 of P0 and P1 and rho2 of P1 and P2, P1 knows
    rho = rho0 ^ rho2. It splits every bit of rho as an integer modulo 2^w_j: P0 draws
    r, a mask of P0 and P1, and P2 is sent rho - r.
    open: P0 sends b0 ^ rho0 to P2, and P2 sends b2 ^ rho2 to P0. Both know
    delta = b ^ rho now, and b = rho where delta = 0, 1 - rho where delta = 1: what they
    hold of rho, or one minus it.

Cost
    deal: the sum of all w_j bits per element, one round; open: 2n bits, one round.
    Dealing does not wait for the bits.

Security (semi-honest, one corrupted party)
    P0 sees b2 ^ rho2, hidden by a mask of P1 and P2. P2 sees rho - r and b0 ^ rho0,
    hidden by r and rho0, two masks of P0 and P1. P1 sees nothing. So every message is
    uniform and independent of all else its receiver knows.

Source
    docs/explanation/protocols.md; bits opened under a mask whose integers were dealt
    are the daBits of Rotaru and Wood (INDOCRYPT 2019), with P1 as the dealer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.two_party import P0, P1, P2
from ditto.protocols.party import Exchange, Expected, Field, Role, Steps
from ditto.sharing import Rank


@dataclass(frozen=True)
class BitMasks:
    """What P0 or P2 holds of random bits."""

    bits: Words
    """XOR shares of them, words of n bits."""
    integers: list[Words]
    """Summands of each bit."""


def deal_bit_masks(
    role: Role, count: int, widths: Sequence[int]
) -> Steps[BitMasks | None]:
    """Random bits for ``count`` elements, one for each width; None at P1."""
    ring = Ring(len(widths))
    if role.rank == P1:
        shares = (_mask_bits(role, other, count, ring) for other in (P0, P2))
        rho = np.bitwise_xor(*shares)
        drawn = _mask_integers(role, P0, count, widths)
        fields = []
        for j, (width, mask) in enumerate(zip(widths, drawn, strict=True)):
            bit = (rho >> rho.dtype.type(j) & rho.dtype.type(1)).astype(mask.dtype)
            fields.append(Field(bit - mask, width))
        yield Exchange(send={P2: fields})
        return None
    bits = _mask_bits(role, P1, count, ring)
    if role.rank == P0:
        yield Exchange()
        return BitMasks(bits, _mask_integers(role, P1, count, widths))
    expected = [Expected(count, width) for width in widths]
    inbox = yield Exchange(receive={P1: expected})
    return BitMasks(bits, inbox[P1])


def open_bits(
    role: Role, bits: Words | None, masks: BitMasks | None
) -> Steps[list[Words] | None]:
    """Summands of every bit at P0 and P2, in words of 32 bits; None at P1.

    They are right modulo 2^w_j, and may have more bits than that.
    """
    if bits is None or masks is None:
        yield Exchange()
        return None
    width, hidden = len(masks.integers), bits ^ masks.bits
    other = P2 if role.rank == P0 else P0
    inbox = yield Exchange(
        send={other: [Field(hidden, width)]},
        receive={other: [Expected(hidden.size, width)]},
    )
    delta = (hidden ^ inbox[other][0]).astype(np.uint32)
    one = np.uint32(1)
    found = []
    for j, integer in enumerate(masks.integers):
        bit = delta >> np.uint32(j) & one
        minus = integer.astype(np.uint32) ^ np.negative(bit)  # -rho - 1, or rho
        found.append(minus + (bit << one if role.rank == P0 else bit))
    return found


def _mask_bits(role: Role, other: Rank, count: int, ring: Ring) -> Words:
    return role.masks_with(other).draw("mask bits", count, ring)


def _mask_integers(
    role: Role, other: Rank, count: int, widths: Sequence[int]
) -> list[Words]:
    """Those of P0 and P1."""
    masks = role.masks_with(other)
    return [masks.draw(f"bit {j}", count, Ring(w)) for j, w in enumerate(widths)]
