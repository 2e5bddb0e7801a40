"""How three connected parties become a session: they agree on pairwise secrets.

Steps
    1. Every party makes an ephemeral X25519 key and sends its public half to both
       peers, with a digest of the session id and, when a ``Prover`` is given, a proof
       of identity over session, sender, receiver and public half.
    2. Each pair derives keys from the shared secret with HKDF, bound to the session
       and to both public halves: one for its mask stream, one for each direction of
       its link.

Cost
    48 bytes to each peer and the size of the proof; one round, once per session.

Security
    The third party sees neither private key of a pair, so the pair's masks are
    uniform to it. The links' TLS checks that a peer's certificate comes from the
    configured authority but not whose it is. The proof is a signature under the key
    of the peer's own certificate, so a stranger with another certificate of the same
    authority is refused here; and one who only passes messages on learns nothing,
    since all that follows is sealed under the link keys, which need a private half.
    A new session has new ephemeral keys: no mask ever repeats.

Source
    Signed Diffie-Hellman with X25519, RFC 7748; HKDF, RFC 5869.
"""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from ditto.errors import MessageError, SetupError
from ditto.protocols.channel import Channel, peers_of
from ditto.protocols.party import Party
from ditto.sharing import Rank, Stream, derive_key

_TAG = 0xD1770
_DIGEST_BYTES = 16
_KEY_BYTES = 32


class Prover(Protocol):
    """Proves who this party is and checks who the peers are."""

    proof_size: int

    def prove(self, statement: bytes) -> bytes:
        """A proof of exactly ``proof_size`` bytes that this party says this."""

    def check(self, peer: Rank, statement: bytes, proof: bytes) -> None:
        """Raise PeerIdentityError unless the configured peer said this."""


@dataclass(frozen=True)
class Agreement:
    """What one party has agreed on with its peers."""

    rank: Rank
    secrets: dict[Rank, tuple[bytes, bytes]]
    """With each peer, a secret and the transcript that keys are bound to."""

    def link_keys(self) -> dict[Rank, tuple[bytes, bytes]]:
        """For each peer, the keys to seal with and to open with."""
        return {
            peer: (
                self._key(peer, f"link P{self.rank:d} to P{peer:d}"),
                self._key(peer, f"link P{peer:d} to P{self.rank:d}"),
            )
            for peer in self.secrets
        }

    def party(self, channel: Channel) -> Party:
        """The party, with fresh mask streams. Call once."""
        streams = {}
        for peer in self.secrets:
            low, high = sorted((self.rank, peer))
            streams[peer] = Stream(self._key(peer, f"masks of P{low:d} and P{high:d}"))
        return Party(
            channel,
            with_next=streams[self.rank.next],
            with_previous=streams[self.rank.previous],
        )

    def _key(self, peer: Rank, label: str) -> bytes:
        secret, transcript = self.secrets[peer]
        return derive_key(secret, session=transcript, label=label)


def agree(
    channel: Channel, *, session: bytes, prover: Prover | None = None
) -> Agreement:
    """Agree with both peers on the secrets of a session."""
    private = X25519PrivateKey.generate()
    mine = private.public_key().public_bytes_raw()
    digest = hashlib.sha256(session).digest()[:_DIGEST_BYTES]
    proof_size = prover.proof_size if prover else 0
    for peer in peers_of(channel.rank):
        statement = _statement(session, channel.rank, peer, mine)
        proof = prover.prove(statement) if prover else b""
        hello = np.frombuffer(digest + mine + proof, np.uint8)
        channel.send(peer, [hello], tag=_TAG)
    secrets = {}
    for peer in peers_of(channel.rank):
        size = _DIGEST_BYTES + _KEY_BYTES + proof_size
        message = channel.receive(peer, size=size, tag=_TAG).tobytes()
        name = channel.names[peer]
        if message[:_DIGEST_BYTES] != digest:
            raise SetupError(
                f"{name} is in another session. Give all three parties one session id."
            )
        theirs = message[_DIGEST_BYTES : _DIGEST_BYTES + _KEY_BYTES]
        if prover:
            statement = _statement(session, peer, channel.rank, theirs)
            prover.check(peer, statement, message[_DIGEST_BYTES + _KEY_BYTES :])
        try:
            secret = private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise MessageError(f"{name} sent no valid public key.") from None
        transcript = session + b"\0" + b"".join(sorted((mine, theirs)))
        secrets[peer] = secret, transcript
    return Agreement(channel.rank, secrets)


def _statement(session: bytes, source: Rank, to: Rank, public: bytes) -> bytes:
    return b"ditto session v1\0" + session + bytes([0, source, to]) + public
