"""two_to_three: replicated shares of z0 + z2, of which P0 knows z0 and P2 knows z2.

Steps
    1. With masks k0 and k2 of P0 and P2, P0 sends z0 - k0 and P2 sends z2 - k2 to P1.
    2. The shares are k0 + k2 at P0 and P2, z0 - k0 at P0 and P1, z2 - k2 at P1 and P2.

Cost
    2l bits per element, one round.

Security
    Only P1 sees messages: z0 - k0 and z2 - k2, hidden by two masks that it does not
    know. They are independent: one mask for both would show P1 the difference of z0 and
    z2. Share 0 is a sum of masks, independent of the data.

Source
    docs/explanation/protocols.md.
"""

from ditto.fixedpoint import Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.two_party import P0, P1, P2, masks_of_p0_p2
from ditto.protocols.party import Exchange, Expected, Field, PairSteps, Role


def two_to_three(
    role: Role, value: Words | None, count: int, group: Group
) -> PairSteps:
    """``value`` is z0 at P0, z2 at P2, None at P1; flat, of ``count`` elements."""
    bits = group.ring.bits
    if value is None:
        expected = [Expected(count, bits)]
        inbox = yield Exchange(receive={P0: expected, P2: expected})
        (from_p0,), (from_p2,) = inbox[P0], inbox[P2]
        return from_p0, from_p2
    shared = masks_of_p0_p2(role)
    k0, k2 = (shared.draw(name, count, group.ring) for name in ("k0", "k2"))
    hidden = group.subtract(value, k0 if role.rank == P0 else k2)
    yield Exchange(send={P1: [Field(hidden, bits)]})
    masks = group.add(k0, k2)
    return (masks, hidden) if role.rank == P0 else (hidden, masks)
