"""reveal: a secret is opened to one party, to all, or to the client outside.

Steps
    to one party P_i: P_{i+1} sends x_{i+2}, the share that P_i lacks.
    to all: the same for each of the three at once.
    to the client: with masks z0 + z1 + z2 = 0 that all three parties know and the
    client does not, share j becomes y_j = x_j + z_j at both of its holders. P_i sends
    y_i and the SHA-256 of y_{i+1} to the client, who compares each y_j, which came from
    P_j, with the hash that came from P_{j-1}, and adds the three.

Cost
    l bits per element to one party, 3l to all; to the client 3l, and 768 bits for the
    hashes. One round.

Security
    Who receives learns x: that is the purpose. If x came out of a recast, a party that
    receives it also learns how it was rounded, which its own summand ties to the bits
    that were cut (see ``recast``); open such values to the client. The one message a
    party gets is x minus the two shares it holds. The other parties see nothing.
    The client's three summands are a fresh additive sharing of x: z0 and z1 are uniform
    to it, so the y_j are uniform but for their sum, whatever the shares were; the
    hashes are functions of them. So it learns nothing of the shares the parties
    computed with. Without the z_j it could: share 0 after a recast is a >> t, where a
    is a share of what was recast. If that is the same in several answers, such as a
    state or a weight times a public input, and is recast in other roles there, the
    client gets x_j >> t for all three j, whose sum depends on the bits that were cut
    (enumerated in tests/conformance/test_ends.py). Two of the three messages alone are
    independent of x, so a client that gets no more because a party stopped learns
    nothing.
    That all three parties know the z_j costs nothing: a party that works with the
    client knows two shares and learns x, hence the third share, with any masks.
    What the comparison is good for: a party that sends the client anything but its
    share, or one that ran another plan, is noticed. A party that deviates during the
    run can give both holders the same wrong share, which is not.

Source
    Araki et al. (CCS 2016); docs/explanation/protocols.md.
"""

import hashlib
from typing import Literal

from ditto.fixedpoint import FxpType, Words
from ditto.protocols.cost import Cost
from ditto.protocols.party import Exchange, Expected, Field, Party, Role, Steps
from ditto.sharing import RANKS, Rank, Revealed, Shared, packed_size

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
    """l bits per element for each reader, one round."""
    readers = 3 if to == "all" else 1
    return Cost(bits=readers * 8 * packed_size(count, type.bits), rounds=1)


def reveal_to_client(party: Party, x: Shared) -> Revealed:
    """What this party sends to the client: one summand of x, and a hash of the next."""
    masks = party.masks_of_all()
    z0, z1 = (masks.draw(name, x.size, x.ring) for name in ("z0", "z1"))
    zeros = z0, z1, x.ring.reduce(-z0 - z1)
    mine, following = (
        x.ring.reduce(share.reshape(-1) + zeros[rank]).reshape(x.shape)
        for share, rank in ((x.first, party.rank), (x.second, party.rank.next))
    )
    return Revealed.of(mine, following)


def reveal_to_client_cost(count: int, type: FxpType) -> Cost:  # noqa: A002
    """3l bits per element and three hashes, all of it to the client."""
    each = packed_size(count, type.bits) + hashlib.sha256().digest_size
    return Cost(bits=3 * 8 * each, rounds=1)
