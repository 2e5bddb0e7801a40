"""reshare: from additive to replicated shares.

Steps
    P_i holds z_i with z0 + z1 + z2 = x: ``blocks.replicate``.

Cost
    3l bits per element, one round.

Security
    That of ``blocks.replicate``: each party sees one message, hidden by a mask it does
    not know.

Source
    ABY3 (CCS 2018), section 5.1; Araki et al. (CCS 2016).
"""

from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import Group, replicate
from ditto.protocols.cost import Cost
from ditto.protocols.ledger import Factors
from ditto.protocols.party import Pair, PairSteps, Role, Task
from ditto.sharing import Shared, packed_size


def reshare_task(
    z: Words,
    type: FxpType,  # noqa: A002
    factors: Factors | None = None,
) -> Task[Shared]:
    """Replicated shares of the sum of the parties' ``z``, products of ``factors``."""

    def instance(role: Role) -> PairSteps:
        return replicate(role, z.reshape(-1), Group(type.ring), factors=factors)

    def finish(pair: Pair) -> Shared:
        first, second = (share.reshape(z.shape) for share in pair)
        return Shared(first, second, type)

    return Task([(instance, 0)], finish)


def reshare_cost(count: int, type: FxpType) -> Cost:  # noqa: A002
    """3l bits per element, one round."""
    return Cost(bits=3 * 8 * packed_size(count, type.bits), rounds=1)
