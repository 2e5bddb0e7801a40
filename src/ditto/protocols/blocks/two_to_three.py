"""two_to_three: replicated shares of z0 + z2, of which P0 knows z0 and P2 knows z2.

Steps
    1. With masks k0 and k2 of P0 and P2, P0 sends z0 - k0 and P2 sends z2 - k2 to P1.
    2. The shares are k0 + k2 at P0 and P2, z0 - k0 at P0 and P1, z2 - k2 at P1 and P2.
    3. Who cuts bits of the sum afterwards does not need all of it: the last d bits of
       z0 - k0 and of z2 - k2 are left out. Both shares are then wrong by less than
       2^d, and 2^(d-1) in place of these bits centres the error: the sum is off by
       e, -2^d < e - 1 < 2^d, as the masks fall.

Cost
    2(l - d) bits per element, one round.

Security
    Only P1 sees messages: z0 - k0 and z2 - k2, hidden by two masks that it does not
    know. They are independent: one mask for both would show P1 the difference of z0 and
    z2. Share 0 is a sum of masks, independent of the data. Without their last bits the
    messages tell less.

Source
    docs/explanation/protocols.md.
"""

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.party import Exchange, Expected, Field, PairSteps, Role


def two_to_three(
    role: Role,
    value: Words | None,
    count: int,
    group: Group,
    purpose: str = "k",
    *,
    dropped: int = 0,
) -> PairSteps:
    """``value`` is z0 at P0, z2 at P2, None at P1; flat, of ``count`` elements.

    Two in one instance need two purposes: masks are called after it. ``dropped`` is d.
    """
    bits = group.ring.bits - dropped
    if value is None:
        expected = [Expected(count, bits)]
        inbox = yield Exchange(receive={P0: expected, P2: expected})
        (from_p0,), (from_p2,) = inbox[P0], inbox[P2]
        ring = group.ring
        return _restored(from_p0, dropped, ring), _restored(from_p2, dropped, ring)
    shared = masks_of_p0_p2(role)
    names = f"{purpose}0", f"{purpose}2"
    k0, k2 = (shared.draw(name, count, group.ring) for name in names)
    hidden = group.subtract(value, k0 if role.rank == P0 else k2)
    if dropped:
        hidden = hidden >> hidden.dtype.type(dropped)
    yield Exchange(send={P1: [Field(hidden, bits)]})
    hidden = _restored(hidden, dropped, group.ring)
    masks = group.add(k0, k2)
    return (masks, hidden) if role.rank == P0 else (hidden, masks)


def _restored(words: Words, dropped: int, ring: Ring) -> Words:
    """Words in their place again, with the middle of what was left out."""
    if not dropped:
        return words
    up, middle = ring.dtype.type(dropped), ring.scalar(1 << dropped >> 1)
    restored: Words = words.astype(ring.dtype, copy=False) << up | middle
    return restored
