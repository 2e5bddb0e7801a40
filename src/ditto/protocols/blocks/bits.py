"""AND and NOT of words of bits in replicated XOR shares.

Steps
    NOT: share 0, which P0 and P2 hold, is inverted. Local.
    AND: z_i = x_i y_i ^ x_i y_{i+1} ^ x_{i+1} y_i, so z0 ^ z1 ^ z2 = x AND y; then
    ``replicate`` with XOR: with masks g_i shared by P_i and P_{i+1}, P_i sends
    z_i ^ g_i ^ g_{i-1} to P_{i-1}.

Cost
    3 bits per AND, one round.

Security
    The argument of ``replicate``: the message P_{i-1} sees is hidden by g_i, which it
    does not know.

Source
    Araki et al. (CCS 2016).
"""

from ditto.fixedpoint import RINGS
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.replicate import replicate
from ditto.protocols.party import Pair, PairSteps, Role
from ditto.sharing import Rank


def complement(rank: Rank, shares: Pair) -> Pair:
    """NOT x."""
    first, second = shares
    return (
        ~first if rank == Rank.P0 else first,
        ~second if rank == Rank.P2 else second,
    )


def and_words(role: Role, x: Pair, y: Pair, purpose: str = "g") -> PairSteps:
    """x AND y, of any shape."""
    z = (x[0] & (y[0] ^ y[1])) ^ (x[1] & y[0])
    group = Group(RINGS[8 * z.dtype.itemsize - 1], xor=True)
    shares = yield from replicate(role, z.reshape(-1), group, purpose)
    first, second = (share.reshape(z.shape) for share in shares)
    return first, second
