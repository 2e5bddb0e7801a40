"""reshare: from additive to replicated shares.

Steps
    1. P_i holds z_i with z0 + z1 + z2 = x. With masks g_i shared by P_i and P_{i+1},
       P_i computes x_i = z_i + g_i - g_{i-1}; the masks cancel in the sum.
    2. P_i sends x_i to P_{i-1}, which holds it as its second share.

Cost
    3l bits an element, one round.

Security
    P_{i-1} sees x_i = z_i + g_i - g_{i-1}, hidden by g_i, which only P_i and P_{i+1}
    know. Each party sees one message, uniform and independent of all else it knows.

Source
    ABY3 (CCS 2018), section 5.1; Araki et al. (CCS 2016).
"""

from ditto.fixedpoint import FxpType, Words
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Party,
    Role,
    Task,
)
from ditto.sharing import Shared, packed_size


def reshare(party: Party, z: Words, type: FxpType) -> Shared:  # noqa: A002
    """Replicated shares of the sum of the parties' ``z``."""
    return party.take(resharing(z, type))


def resharing(z: Words, type: FxpType) -> Task[Shared]:  # noqa: A002
    """The task of ``reshare``."""
    ring, flat = type.ring, z.reshape(-1)

    def instance(role: Role) -> PairSteps:
        ahead = role.next.draw("g", flat.size, ring)
        behind = role.previous.draw("g", flat.size, ring)
        mine = ring.reduce(flat + ahead - behind)
        inbox = yield Exchange(
            send={role.rank.previous: [Field(mine, ring.bits)]},
            receive={role.rank.next: [Expected(flat.size, ring.bits)]},
        )
        (other,) = inbox[role.rank.next]
        return mine, other

    def finish(pair: Pair) -> Shared:
        first, second = (share.reshape(z.shape) for share in pair)
        return Shared(first, second, type)

    return Task([(instance, 0)], finish)


def reshare_cost(count: int, type: FxpType) -> Cost:  # noqa: A002
    """3l bits an element, one round."""
    return Cost(bits=3 * 8 * packed_size(count, type.bits), rounds=1)
