"""How three connected parties become a session: they agree on pairwise secrets.

Steps
    1. Every party makes an ephemeral X25519 key and sends its public half to both
       peers, with a digest of the session id and of the parties' names by rank, and
       32 random bytes.
    2. Each pair derives the key of its mask stream from the shared secret with HKDF,
       bound to the session and to both public halves. All three derive one more key
       from the random bytes of all of them, bound to the session.
    3. Each run of a plan derives streams of its own (``Party.for_run``), bound to the
       plan, the model and the turn that this party was asked for.

Cost
    80 bytes to each peer; one round, once per session. A run derives its keys locally.

Security
    The third party sees neither private key of a pair, so the pair's masks are
    uniform to it. That a public half is the peer's own is the channel's to ensure:
    the links' TLS admits nobody who does not bear the peer's name.
    A new session has new ephemeral keys, and within a session each run takes up a step
    of every stream, which is opened once (``sharing.prf``): no mask ever repeats. Which
    step that is each party counts by itself; no number from a request enters it.
    Parties that run different plans, models or turns at one time have no masks in
    common. What each of them sends is hidden by a mask of the sender and the third
    party, as ever, and what they compute together is noise.
    The key of all three hides nothing from any of them and is used for nothing but what
    the client is sent (``protocols.reveal``). The client sees none of what the parties
    send each other, which the links' TLS ensures, so the key is uniform to it. It is as
    secret as the most random of the three contributions.

Source
    Diffie-Hellman with X25519, RFC 7748; HKDF, RFC 5869.
"""

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from ditto.errors import MessageError, SetupError
from ditto.protocols.channel import Channel, peers_of
from ditto.protocols.party import Party
from ditto.sharing import RANKS, Stream, derive_key

_TAG = 0xD1770
_DIGEST_BYTES = 16
_KEY_BYTES = 32
_RANDOM_BYTES = 32


def agree(channel: Channel, *, session: bytes) -> Party:
    """Agree with both peers on a session's secrets; the party, with fresh streams."""
    private = X25519PrivateKey.generate()
    mine = private.public_key().public_bytes_raw()
    about = b"\0".join([session, *(name.encode() for name in channel.names)])
    digest = hashlib.sha256(about).digest()[:_DIGEST_BYTES]
    randoms = {channel.rank: os.urandom(_RANDOM_BYTES)}
    hello = np.frombuffer(digest + mine + randoms[channel.rank], np.uint8)
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
        theirs = message[_DIGEST_BYTES : _DIGEST_BYTES + _KEY_BYTES]
        randoms[peer] = message[_DIGEST_BYTES + _KEY_BYTES :]
        try:
            secret = private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise MessageError(f"{name} sent no valid public key.") from None
        transcript = about + b"\0" + b"".join(sorted((mine, theirs)))
        low, high = sorted((channel.rank, peer))
        label = f"masks of P{low:d} and P{high:d}"
        streams[peer] = Stream(derive_key(secret, session=transcript, label=label))
    common = b"".join(randoms[rank] for rank in RANKS)
    key = derive_key(common, session=about, label="masks of all three")
    return Party(
        channel,
        with_next=streams[channel.rank.next],
        with_previous=streams[channel.rank.previous],
        with_both=Stream(key),
    )
