"""Whether a run is audited: drawn by the client, and told after its last message.

A party that knew it before could deviate in the runs that nobody looks at. So the
client deals its choice to the three parties, as it deals its inputs, and they put it
together when the run is over (``ditto.party.lots``).
"""

import secrets

from ditto.wire.messages import LOT_BYTES, Lot, lot_digest

_RANDOM = secrets.SystemRandom()


def is_chosen(chance: float) -> bool:
    """Whether a run is to be audited, with a chance."""
    return _RANDOM.random() < chance


def deal_lots(audited: bool) -> list[Lot]:
    """What each of the three parties gets, for a run that is audited or not.

    Each secret by itself is uniform, and so are any two: only all three together say
    anything, by the parity of their first bytes.
    """
    dealt = [bytearray(secrets.token_bytes(LOT_BYTES)) for _ in range(3)]
    first, second, third = dealt
    third[0] ^= (first[0] ^ second[0] ^ third[0] ^ audited) & 1
    one, two, three = map(lot_digest, dealt)
    return [Lot(secret.hex(), (one, two, three)) for secret in dealt]
