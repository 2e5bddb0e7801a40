"""reveal: a secret is opened to one party, to all, or to the client outside.

Steps
    to one party P_i: P_{i+1} sends x_{i+2}, the share that P_i lacks.
    to all: the same for each of the three at once.
    to the client: with masks g_i shared by P_i and P_{i+1}, P_i sends
    x_i + g_i - g_{i-1} to the client, who adds the three.

Cost
    l bits an element to one party, 3l to all, 3l to the client; one round.

Security
    Who receives learns x: that is the purpose. If x came out of a recast, a party that
    receives it also learns how it was rounded, which its own summand ties to the bits
    that were cut (see ``recast``); open such values to the client. The one message a
    party gets is x less the two shares it holds. The client's three messages are a
    fresh additive sharing of x: uniform but for their sum, so it learns nothing of the
    shares the parties computed with. The other parties see nothing.

Source
    Araki et al. (CCS 2016).
"""

from collections.abc import Sequence
from typing import Literal

from ditto.errors import ShareConsistencyError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.cost import Cost
from ditto.protocols.party import Exchange, Expected, Field, Party, Role, Steps
from ditto.sharing import RANKS, Rank, Shared, packed_size

Audience = Rank | Literal["all"]


def reveal(party: Party, x: Shared, *, to: Audience = "all") -> Words | None:
    """The secret integers at the parties of the audience, None at the others."""
    readers = RANKS if to == "all" else (to,)

    def instance(role: Role) -> Steps[Words | None]:
        me = role.rank
        reading = me in readers
        needs = {me.next: [Expected(x.size, x.ring.bits)]} if reading else {}
        behind = me.previous
        gives = {behind: [Field(x.second, x.ring.bits)]} if behind in readers else {}
        inbox = yield Exchange(send=gives, receive=needs)
        if not reading:
            return None
        (missing,) = inbox[me.next]
        mine = x.first.reshape(-1) + x.second.reshape(-1)
        return x.ring.reduce(mine + missing).reshape(x.shape)

    return party.run(instance, rotation=0)


def reveal_cost(count: int, type: FxpType, *, to: Audience = "all") -> Cost:  # noqa: A002
    """l bits an element for each reader, one round."""
    readers = 3 if to == "all" else 1
    return Cost(bits=readers * 8 * packed_size(count, type.bits), rounds=1)


def reveal_to_client(party: Party, x: Shared) -> Words:
    """What this party sends to the client: one summand of x."""
    ring = x.ring

    def instance(role: Role) -> Steps[Words]:
        ahead = role.next.draw("g", x.size, ring)
        behind = role.previous.draw("g", x.size, ring)
        yield Exchange()
        summand = ring.reduce(x.first.reshape(-1) + ahead - behind)
        return summand.reshape(x.shape)

    return party.run(instance, rotation=0)


def reveal_to_client_cost(count: int, type: FxpType) -> Cost:  # noqa: A002
    """3l bits an element, all of it to the client."""
    return Cost(bits=3 * 8 * packed_size(count, type.bits), rounds=1)


def open_at_client(summands: Sequence[Words], type: FxpType) -> Words:  # noqa: A002
    """The secret integers, from the three parties' summands."""
    shapes = {summand.shape for summand in summands}
    if len(summands) != 3 or len(shapes) != 1:
        raise ShareConsistencyError(
            f"The client needs three summands of one shape, got {len(summands)} of "
            f"shapes {sorted(shapes)}."
        )
    a, b, c = (summand.reshape(-1) for summand in summands)
    return type.ring.reduce(a + b + c).reshape(summands[0].shape)
