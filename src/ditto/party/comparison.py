"""What two parties hold in common for a run is compared before anyone answers.

Every share of an input, a weight or a state lies with two parties, and so does one half
of the keys of secret indices (P1 and P2). Whoever deals them could deal two different
ones; an owner could publish a model to one party only, a client could ask for different
plans. The parties find out by themselves, without a round of waiting.

Steps
    1. Each pair draws a one-time key from the masks of the run, which are bound to
       plan, model and turn, and computes the Poly1305 tag T of all that the two hold in
       common: input shares and keys, public arrays, state shares, and BLAKE2b digests
       of weight shares, which a party computes once, when the weights are put.
    2. At the start of the run P_i sends SHA-256(i, T) to each of the others.
    3. At its end, before it keeps a state or answers, or before the first proof if it
       is audited, P_i compares what the others sent with what it computes of its own.
    4. If the run is audited, P_i tells the others whether that was the same: proofs
       follow at all three or at none.

Cost
    32 bytes to each peer, beside the steps: sent before the first one, awaited after
    the last or before the first proof, by when they have arrived. Their bytes are in no
    step's cost. Step 4 has a byte to each peer and a round.

Security
    The key is uniform to whoever dealt, so tags of different data are equal with
    probability below 2^-80 for up to a GB (Poly1305: 8 * (bytes/16) / 2^106). Digests
    of weights need no key: BLAKE2b is collision resistant.
    A party learns from a hash whether the other holds the same; nothing else, if it
    does. If it does not, the party could test guesses of what the other holds: shares
    that a dishonest dealer dealt, of its own secrets. The run goes on meanwhile, on
    whatever each party holds: its messages are hidden by masks, whatever the data.
    If one pair differs, the third party may not notice and answers: two of three
    summands of the answer are independent of it (``protocols.reveal``).
    This protects parties that follow the protocol from dealers who do not. A party
    that lies about what it holds is believed: it may as well compute with the lie. The
    two directions send different hashes, so it cannot send back what it was sent.

Source
    Poly1305, RFC 8439; docs/explanation/protocols.md.
"""

import hashlib
import struct
import time
from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.poly1305 import Poly1305

from ditto.errors import DisagreementError
from ditto.fixedpoint import Array, Ring
from ditto.party.inputs import Held
from ditto.runtime import Session
from ditto.sharing import Masks, Rank, Shared, SharedIndices
from ditto.sharing.packing import Bytes
from ditto.steps.base import Held as HeldValue

ShareDigests = tuple[bytes, bytes]
"""Of the first and of the second share of a tensor."""

_KEY_WORDS = 4
_ITEM = struct.Struct("<QQ")  # the number of the value, and its bytes


def share_digests(shared: Shared) -> ShareDigests:
    """BLAKE2b of both shares of a tensor."""
    first, second = (
        hashlib.blake2b(_bytes(share).data, digest_size=32).digest()
        for share in (shared.first, shared.second)
    )
    return first, second


class Comparison:
    """One party's end of the comparison for one run.

    ``held`` is what it holds of the plan's inputs, by value; ``digests`` stand for
    those that are weights. Made at the start of the run, when it sends.
    """

    def __init__(
        self, session: Session, held: Held, digests: Mapping[int, ShareDigests]
    ) -> None:
        started = time.perf_counter()
        self._session = session
        self._rank = session.party.rank
        self._slot = b"common%d" % session.runs
        self._tags = {
            peer: self._tag(peer, masks, held, digests)
            for peer, masks in session.party.masks_of_pairs().items()
        }
        for peer, tag in self._tags.items():
            session.mailbox.post(peer, self._slot, [_hash(self._rank, tag)])
        self.seconds = time.perf_counter() - started
        """That the hashes took."""

    def check(self, *, told: bool) -> None:
        """When all is computed or to be proved; raises DisagreementError, at all three
        parties if they are ``told``."""
        fetch = self._session.mailbox.fetch
        differing = [
            peer
            for peer, tag in self._tags.items()
            if bytes(fetch(peer, self._slot)) != _hash(peer, tag)
        ]
        others = self._differing_elsewhere(bool(differing)) if told else []
        if differing or others:
            names = self._session.party.channel.names
            peers = " and ".join(names[peer] for peer in differing or others)
            who = f"This party and {peers}" if differing else peers
            raise DisagreementError(
                f"{who} do not hold the same plan, model, turn, inputs, weights or "
                f"state. Whoever asked gave them different ones; nothing was answered "
                f"or kept."
            )

    def _differing_elsewhere(self, differs: bool) -> list[Rank]:
        """The peers that hold something else than another party, as they say."""
        mailbox, slot = self._session.mailbox, self._slot + b" verdict"
        for peer in self._tags:
            mailbox.post(peer, slot, [bytes([differs])])
        said = {peer: bytes(mailbox.fetch(peer, slot)) for peer in self._tags}
        return [peer for peer, verdict in said.items() if verdict != b"\0"]

    def _tag(
        self,
        peer: Rank,
        masks: Masks,
        held: Held,
        digests: Mapping[int, ShareDigests],
    ) -> bytes:
        key = masks.draw("comparison", _KEY_WORDS, Ring(64)).tobytes()
        tag = Poly1305(key)
        side = 1 if peer == self._rank.next else 0
        for v in sorted(held):
            common = (
                np.frombuffer(digests[v][side], np.uint8)
                if v in digests
                else _common(held[v], self._rank, peer)
            )
            tag.update(_ITEM.pack(v, common.size))
            tag.update(common.data)
        return tag.finalize()


def _common(value: HeldValue, rank: Rank, peer: Rank) -> Bytes:
    """What a party holds of a value that another holds as well."""
    if isinstance(value, SharedIndices):
        if Rank.P0 in (rank, peer):
            return np.empty(0, np.uint8)
        return _bytes(value.keys[0])
    if isinstance(value, np.ndarray):
        return _bytes(value)
    return _bytes(value.second if peer == rank.next else value.first)


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _hash(rank: Rank, tag: bytes) -> bytes:
    return hashlib.sha256(bytes([rank]) + tag).digest()
