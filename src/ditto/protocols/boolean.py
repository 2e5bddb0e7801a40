"""AND of bit-packed boolean shares. XOR and NOT are local (see ``linear``).

Steps
    ``blocks.bits`` on bits that are packed into bytes.

Cost
    3 bits per AND (padded to whole bytes per party), one round.

Security
    That of ``blocks.bits``: the one message a party sees is hidden by a mask it does
    not know.

Source
    Araki et al. (CCS 2016).
"""

from ditto.errors import ShareConsistencyError
from ditto.protocols.blocks import and_words
from ditto.protocols.cost import Cost
from ditto.protocols.party import PairSteps, Party, Role
from ditto.sharing import SharedBits, packed_size


def and_bits(party: Party, x: SharedBits, y: SharedBits) -> SharedBits:
    """Elementwise x AND y."""
    if x.shape != y.shape:
        raise ShareConsistencyError(
            f"AND needs one shape, got {x.shape} and {y.shape}."
        )

    def instance(role: Role) -> PairSteps:
        return and_words(role, (x.first, x.second), (y.first, y.second))

    first, second = party.run(instance, rotation=0)
    return SharedBits(first, second, x.shape)


def and_bits_cost(count: int) -> Cost:
    """3 bits per AND, one round."""
    return Cost(bits=3 * 8 * packed_size(count, 1), rounds=1)
