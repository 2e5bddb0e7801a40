"""The coins of one proof: two verifiers know them, the prover learns them in time.

Both verifiers draw the same openings from the masks they share, which the prover cannot
know. It gets each when what it must fix before has arrived:

- the seed of all weights is made of two openings, one from each verifier, who sends it
  when it has received all messages of the part. The prover knows it when both have;
- the coin of a fold comes from the next party, when that has the prover's message of
  the fold.

A verifier that gave the prover other coins than the second verifier has could have it
compute what hides nothing. So of each opening that one verifier sends, the other has
sent the SHA-256 before: the prover goes on only if they agree. An opening has 256
random bits, so its hash tells nothing of it.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ditto.audit.galois import GaloisRing
from ditto.fixedpoint import Ring, Words
from ditto.native.galois import coin_bytes
from ditto.sharing import KEY_BYTES, Masks, Stream
from ditto.sharing.packing import Bytes

OPENING_BYTES = 32
_BYTE = Ring(8)


@dataclass(frozen=True, eq=False)
class Coins:
    """All openings of one proof, as its two verifiers know them."""

    openings: Bytes
    """(2 + folds, 32): two halves of the seed, then one for each fold."""

    @classmethod
    def draw(cls, masks: Masks, purpose: str, folds: int) -> "Coins":
        """From the masks of the two verifiers."""
        count = 2 + folds
        drawn = masks.draw(purpose, count * OPENING_BYTES, _BYTE)
        return cls(drawn.astype(np.uint8).reshape(count, OPENING_BYTES))

    @cached_property
    def commitments(self) -> Bytes:
        """(2 + folds, 32): the hash of each."""
        return np.stack([digest(opening) for opening in self.openings])

    @property
    def seed(self) -> "Expander":
        """Of all weights."""
        return Expander.of(self.openings[0], self.openings[1])

    def challenge(self, fold: int, galois: GaloisRing) -> Words:
        """The coin of a fold."""
        return challenge_of(self.openings[2 + fold], galois)


def digest(data: Bytes) -> Bytes:
    """SHA-256."""
    return np.frombuffer(hashlib.sha256(data.tobytes()).digest(), np.uint8)


def challenge_of(opening: Bytes, galois: GaloisRing) -> Words:
    """A coin; one instead of zero, so that it is a unit."""
    bits = np.unpackbits(opening)[: galois.degree]
    if not bits.any():
        bits[0] = 1
    return galois.from_bits(bits)


class Expander:
    """Any number of coins from a seed, the same to all who know it."""

    def __init__(self, key: bytes) -> None:
        self._masks = Stream(key).open(0)
        self._drawn = 0

    @classmethod
    def of(cls, half: Bytes, other: Bytes) -> "Expander":
        """From the two halves of a seed."""
        both = digest(np.concatenate([half, other])).tobytes()
        return cls(both[:KEY_BYTES])

    def coins(self, count: int, galois: GaloisRing) -> Words:
        """(count, d) of coefficients 0 and 1."""
        bits = np.unpackbits(self.packed(count, galois), axis=1)
        return galois.from_bits(bits[:, : galois.degree])

    def packed(self, count: int, galois: GaloisRing) -> Bytes:
        """(count, bytes) of their bits, highest first, and zeros after them."""
        self._drawn += 1
        size, spare = -(-galois.degree // 8), -galois.degree % 8
        drawn = self._masks.draw(f"coins {self._drawn}", count * size, _BYTE)
        packed = np.zeros((count, coin_bytes(galois.degree)), np.uint8)
        packed[:, :size] = drawn.reshape(count, size)
        packed[:, size - 1] &= np.uint8(0xFF << spare & 0xFF)
        return packed
