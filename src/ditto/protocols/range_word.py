"""range_word: what the parties send the client of the range check.

Steps
    1. Each party has a word of 40 bits, folded of the flags it holds shares of
       (``blocks.range_check``); their XOR is zero if no flag was set.
    2. It adds masks that cancel in the XOR (``blocks.replicate``) and sends the word to
       the client with the answer.

Cost
    40 bits from each party, in the round in which the answer is sent.

Security
    The three words are a fresh sharing of their XOR: the client learns that alone. It
    is zero if all values stayed in their ranges, and else uniform to it, as it does not
    know the strings that the flags were folded with. So it learns one bit: whether to
    trust the answer. The parties learn nothing.

Source
    docs/explanation/protocols.md.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks import VERDICT_BITS, Group, rerandomise
from ditto.protocols.cost import Cost
from ditto.protocols.party import Exchange, Party, Role, Steps
from ditto.sharing import packed_size

_GROUP = Group(Ring(VERDICT_BITS), xor=True)


def reveal_range_word(party: Party) -> Words:
    """What this party sends to the client: one word, of all since the last call."""
    mine = np.array([party.range_word], _GROUP.ring.dtype)
    party.range_word = 0

    def instance(role: Role) -> Steps[Words]:
        word = rerandomise(role, mine, _GROUP)
        yield Exchange()
        return word

    return party.run(instance, rotation=0)


def range_word_cost() -> Cost:
    """40 bits from each party, all of it to the client."""
    return Cost(bits=3 * 8 * packed_size(1, VERDICT_BITS), rounds=1)
