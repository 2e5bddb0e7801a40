"""The parties learn whether a run is audited, when it is too late to deviate in it.

Steps
    0. The client gives P_i a random secret s_i, and all three the hashes of s_0, s_1
       and s_2 (``ditto.client.lots``). The masks of the run are bound to the hashes.
       A party refuses a run whose s_i does not have its hash.
    1. A party that has received all messages of the run, and has found that the three
       were given the same, as the two others did (``comparison``), sends s_i to them.
    2. Each checks the hashes of what it got. The run is audited if the first bytes of
       the three secrets have an odd parity.

Cost
    32 bytes to each peer and one round, after the last step and in no step's cost.

Security (against one party that deviates)
    s_i alone is independent of the parity, and hashes of 32 random bytes tell nothing
    of the others. An honest party sends its secret when it waits for nothing more of
    the run, so whoever knows the parity has sent all of its messages: it has deviated
    or it has not, and if the run is audited a deviation in what an audit covers is
    found. It cannot change the parity: another secret does not have the hash. It can
    send none, when it has seen the secrets of both others; then the run is lost to both
    of them, as with any party that leaves, and a client that had chosen an audit asks
    again with the same choice (``ditto.client.remote``): no wrong answer comes of it.
    What the client chose is no secret from then on.
"""

from ditto.errors import AuditError
from ditto.runtime import Session
from ditto.wire.messages import Lot, lot_digest


def is_drawn(session: Session, lot: Lot) -> bool:
    """Whether the run that has ended is audited, all three parties together."""
    mine, slot = session.party.rank, b"lot%d" % session.runs
    peers = (mine.next, mine.previous)
    secrets = {mine: bytes.fromhex(lot.secret)}
    for peer in peers:
        session.mailbox.post(peer, slot, [secrets[mine]])
    secrets |= {peer: bytes(session.mailbox.fetch(peer, slot)) for peer in peers}
    for rank, secret in secrets.items():
        if lot_digest(secret) != lot.digests[rank]:
            name = session.party.channel.names[rank]
            raise AuditError(
                f"{name} does not tell what the client gave it to decide whether this "
                f"run is audited. Nothing was answered or kept.",
                suspects=name,
            )
    return sum(secret[0] for secret in secrets.values()) % 2 == 1
