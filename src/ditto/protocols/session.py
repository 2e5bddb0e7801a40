"""How three connected parties become a session: they agree on pairwise mask keys.

Steps
    1. Every party makes an ephemeral X25519 key and sends its public half to both
       peers, with a proof of identity when a ``Prover`` is given.
    2. Each pair derives its stream key from the shared secret with HKDF, bound to the
       session id and to the pair.

Cost
    32 bytes to each peer and the size of the proof; one round, once per session.

Security
    The third party sees neither private key of a pair, so the pair's masks are
    uniform to it. The links' TLS checks that a peer's certificate comes from the
    configured authority but not whose it is; the proof is a signature, under the key
    of the peer's own certificate, over session, ranks and the ephemeral key, so a
    stranger with another certificate of the same authority is refused here, before
    any share moves. A new session has new ephemeral keys: no mask ever repeats.

Source
    Signed Diffie-Hellman (station-to-station) with X25519, RFC 7748; HKDF, RFC 5869.
"""

from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from ditto.protocols.channel import Channel, peers_of
from ditto.protocols.party import Party
from ditto.sharing import Rank, Stream, derive_key

_KEY_TAG = 0xD1770
_KEY_BYTES = 32


class Prover(Protocol):
    """Proves who this party is and checks who the peers are."""

    proof_size: int

    def prove(self, statement: bytes) -> bytes:
        """A proof of exactly ``proof_size`` bytes that this party says this."""

    def check(self, peer: Rank, statement: bytes, proof: bytes) -> None:
        """Raise PeerIdentityError unless the configured peer said this."""


def open_party(
    channel: Channel, *, session: bytes, prover: Prover | None = None
) -> Party:
    """Agree on the pairwise keys of a session and return this party."""
    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    proof_size = prover.proof_size if prover else 0
    for peer in peers_of(channel.rank):
        statement = _statement(session, channel.rank, peer, public)
        proof = prover.prove(statement) if prover else b""
        message = np.frombuffer(public + proof, np.uint8)
        channel.send(peer, [message], tag=_KEY_TAG)
    streams: dict[Rank, Stream] = {}
    for peer in peers_of(channel.rank):
        size = _KEY_BYTES + proof_size
        message = channel.receive(peer, size=size, tag=_KEY_TAG)
        theirs = message[:_KEY_BYTES].tobytes()
        if prover:
            statement = _statement(session, peer, channel.rank, theirs)
            prover.check(peer, statement, message[_KEY_BYTES:].tobytes())
        secret = private.exchange(X25519PublicKey.from_public_bytes(theirs))
        low, high = sorted((channel.rank, peer))
        label = f"P{low:d}-P{high:d}"
        streams[peer] = Stream(derive_key(secret, session=session, label=label))
    rank = channel.rank
    return Party(
        channel, with_next=streams[rank.next], with_previous=streams[rank.previous]
    )


def _statement(session: bytes, source: Rank, to: Rank, public: bytes) -> bytes:
    return b"ditto session v1\0" + session + bytes([0, source, to]) + public
