"""share: a party brings a tensor of its own into the computation.

Steps
    1. The owner P_i knows x. x_i is a mask of P_{i-1} and P_i, x_{i+1} a mask of P_i
       and P_{i+1}: all who hold them draw them.
    2. P_i sends x_{i+2} = x - x_i - x_{i+1} to P_{i+1} and P_{i+2}.

Cost
    2l bits per element, one round.

Security
    P_{i+1} sees x_{i+2}, hidden by x_i, which it does not know; P_{i+2} sees the same,
    hidden by x_{i+1}. All three shares are uniform, which the error of a later recast
    relies on (fixing the third share to zero would save l bits and bias it).

Source
    Araki et al. (CCS 2016), with correlated randomness.
"""

from math import prod

from ditto.fixedpoint import FxpType, Words
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    PairSteps,
    Party,
    Role,
)
from ditto.sharing import Rank, Shared, packed_size


def share(
    party: Party,
    integers: Words | None,
    type: FxpType,  # noqa: A002
    *,
    owner: Rank,
    shape: tuple[int, ...],
) -> Shared:
    """Shares of the owner's integers; the others pass None."""
    ring, n = type.ring, prod(shape)
    if (integers is None) == (party.rank == owner):
        raise ValueError("The owner passes the integers, the others pass None.")

    def instance(role: Role) -> PairSteps:  # roles: the owner is P0
        if integers is not None:
            x0 = role.previous.draw("x0", n, ring)
            x1 = role.next.draw("x1", n, ring)
            x2 = ring.reduce(integers.reshape(-1) - x0 - x1)
            message = [Field(x2, ring.bits)]
            yield Exchange(send={Rank.P1: message, Rank.P2: message})
            return x0, x1
        inbox = yield Exchange(receive={Rank.P0: [Expected(n, ring.bits)]})
        (x2,) = inbox[Rank.P0]
        if role.rank == Rank.P1:
            return role.previous.draw("x1", n, ring), x2
        return x2, role.next.draw("x0", n, ring)

    first, second = party.run(instance, rotation=int(owner))
    return Shared(first.reshape(shape), second.reshape(shape), type)


def share_cost(count: int, type: FxpType) -> Cost:  # noqa: A002
    """2l bits per element, one round."""
    return Cost(bits=2 * 8 * packed_size(count, type.bits), rounds=1)
