"""AND of bit-packed boolean shares. XOR and NOT are local (see ``linear``).

Steps
    1. z_i = x_i y_i ^ x_i y_{i+1} ^ x_{i+1} y_i, so z0 ^ z1 ^ z2 = x AND y.
    2. With masks g_i shared by P_i and P_{i+1}, P_i sends z_i ^ g_i ^ g_{i-1} to
       P_{i-1}.

Cost
    3 bits an AND (padded to whole bytes of eight bits a party), one round.

Security
    The message P_{i-1} sees is hidden by g_i, which it does not know.

Source
    Araki et al. (CCS 2016).
"""

from ditto.errors import ShareConsistencyError
from ditto.fixedpoint import Ring
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    PairSteps,
    Party,
    Role,
)
from ditto.sharing import SharedBits, packed_size

_BYTE = Ring(8)


def and_bits(party: Party, x: SharedBits, y: SharedBits) -> SharedBits:
    """Elementwise x AND y."""
    if x.shape != y.shape:
        raise ShareConsistencyError(
            f"AND needs one shape, got {x.shape} and {y.shape}."
        )
    z = (x.first & (y.first ^ y.second)) ^ (x.second & y.first)

    def instance(role: Role) -> PairSteps:
        ahead = role.next.draw("g", z.size, _BYTE)
        behind = role.previous.draw("g", z.size, _BYTE)
        mine = z ^ ahead ^ behind
        inbox = yield Exchange(
            send={role.rank.previous: [Field(mine, 8)]},
            receive={role.rank.next: [Expected(z.size, 8)]},
        )
        (other,) = inbox[role.rank.next]
        return mine, other

    first, second = party.run(instance, rotation=0)
    return SharedBits(first, second, x.shape)


def and_bits_cost(count: int) -> Cost:
    """3 bits an AND, one round."""
    return Cost(bits=3 * 8 * packed_size(count, 1), rounds=1)
