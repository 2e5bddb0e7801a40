"""How three connected parties become a session: they agree on pairwise secrets.

Steps
    1. Every party makes an ephemeral X25519 key and sends its public half to both
       peers, with a digest of the session id and of the parties' names by rank.
    2. Each pair derives the key of its mask stream from the shared secret with HKDF,
       bound to the session and to both public halves.

Cost
    48 bytes to each peer; one round, once per session.

Security
    The third party sees neither private key of a pair, so the pair's masks are
    uniform to it. That a public half is the peer's own is the channel's to ensure:
    the links' TLS admits nobody who does not bear the peer's name.
    A new session has new ephemeral keys: no mask ever repeats.

Source
    Diffie-Hellman with X25519, RFC 7748; HKDF, RFC 5869.
"""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from ditto.errors import MessageError, SetupError
from ditto.protocols.channel import Channel, peers_of
from ditto.protocols.party import Party
from ditto.sharing import Stream, derive_key

_TAG = 0xD1770
_DIGEST_BYTES = 16


def agree(channel: Channel, *, session: bytes) -> Party:
    """Agree with both peers on a session's secrets; the party, with fresh streams."""
    private = X25519PrivateKey.generate()
    mine = private.public_key().public_bytes_raw()
    about = b"\0".join([session, *(name.encode() for name in channel.names)])
    digest = hashlib.sha256(about).digest()[:_DIGEST_BYTES]
    hello = np.frombuffer(digest + mine, np.uint8)
    for peer in peers_of(channel.rank):
        channel.send(peer, [hello], tag=_TAG)
    streams = {}
    for peer in peers_of(channel.rank):
        message = channel.receive(peer, size=hello.size, tag=_TAG).tobytes()
        name = channel.names[peer]
        if message[:_DIGEST_BYTES] != digest:
            raise SetupError(
                f"{name} is in another session, or lists the parties in another order. "
                f"Give all three parties one session id and one list."
            )
        theirs = message[_DIGEST_BYTES:]
        try:
            secret = private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise MessageError(f"{name} sent no valid public key.") from None
        transcript = about + b"\0" + b"".join(sorted((mine, theirs)))
        low, high = sorted((channel.rank, peer))
        label = f"masks of P{low:d} and P{high:d}"
        streams[peer] = Stream(derive_key(secret, session=transcript, label=label))
    return Party(
        channel,
        with_next=streams[channel.rank.next],
        with_previous=streams[channel.rank.previous],
    )
