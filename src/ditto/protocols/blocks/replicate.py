"""replicate: from summands of all three parties to replicated shares.

Steps
    1. P_i holds z_i with z0 + z1 + z2 = x. With masks g_i shared by P_i and P_{i+1},
       P_i computes x_i = z_i + g_i - g_{i-1}; the masks cancel in the sum.
    2. P_i sends x_i to P_{i-1}, which holds it as its second share.

Cost
    3l bits per element, one round. Step 1 alone is local.

Security
    P_{i-1} sees x_i = z_i + g_i - g_{i-1}, hidden by g_i, which only P_i and P_{i+1}
    know. Each party sees one message, uniform and independent of all else it knows. The
    three x_i together are uniform but for their sum.

Source
    ABY3 (CCS 2018), section 5.1; Araki et al. (CCS 2016).
"""

from ditto.fixedpoint import Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.ledger import Claim, Factors
from ditto.protocols.party import Exchange, Expected, Field, Pair, PairSteps, Role


def rerandomise(role: Role, z: Words, group: Group, purpose: str = "g") -> Words:
    """Step 1: another summand of the same sum."""
    return _masked(z, _masks(role, z.size, group, purpose), group)


def _masks(role: Role, count: int, group: Group, purpose: str) -> Pair:
    """g_i and g_{i-1}."""
    ahead = role.next.draw(purpose, count, group.ring)
    return ahead, role.previous.draw(purpose, count, group.ring)


def _masked(z: Words, masks: Pair, group: Group) -> Words:
    ahead, behind = masks
    return group.subtract(group.add(z, ahead), behind)


def replicate(
    role: Role,
    z: Words,
    group: Group,
    purpose: str = "g",
    factors: Factors | None = None,
    part: slice | None = None,
) -> PairSteps:
    """Replicated shares of the sum of the roles' ``z``, flat.

    If the ``z`` are products of ``factors``, or a part of these, they are noted:
    z_i = x_i - g_i + g_{i-1}.
    """
    bits = group.ring.bits
    masks = _masks(role, z.size, group, purpose)
    first = _masked(z, masks, group)
    inbox = yield Exchange(
        send={role.rank.previous: [Field(first, bits)]},
        receive={role.rank.next: [Expected(z.size, bits)]},
    )
    (second,) = inbox[role.rank.next]
    if factors is not None and role.record is not None:
        ahead = factors.claimed(group.add(second, masks[0]))
        behind = factors.claimed(group.ring.reduce(-masks[1]))
        role.record(Claim(factors, part or slice(0, z.size), True, ahead, behind))
    return first, second
