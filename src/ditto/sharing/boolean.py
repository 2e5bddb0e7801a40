"""Replicated boolean shares, bit-packed: b = b0 ^ b1 ^ b2, P_i holds (b_i, b_{i+1})."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.errors import ShareConsistencyError
from ditto.fixedpoint import Ring
from ditto.sharing.packing import Bytes, pack, packed_size, unpack
from ditto.sharing.prf import Stream

Bits = npt.NDArray[np.bool_]
_BYTE = Ring(8)


@dataclass(frozen=True, eq=False)
class SharedBits:
    """What one party holds of a secret tensor of bits: eight to a byte, flat.

    XOR of two secrets and NOT cost nothing: every party applies them to its shares
    (NOT to share 0 only). AND is a protocol.
    """

    first: Bytes
    second: Bytes
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        expected = packed_size(prod(self.shape), 1)
        if not self.first.size == self.second.size == expected:
            raise ShareConsistencyError(
                f"{prod(self.shape)} bits take {expected} bytes, got "
                f"{self.first.size} and {self.second.size}."
            )

    @property
    def size(self) -> int:
        """The number of secret bits."""
        return prod(self.shape)

    def __xor__(self, other: "SharedBits") -> "SharedBits":
        if self.shape != other.shape:
            raise ShareConsistencyError(
                f"XOR needs one shape, got {self.shape} and {other.shape}."
            )
        return SharedBits(
            self.first ^ other.first, self.second ^ other.second, self.shape
        )


def pack_bits(bits: Bits) -> Bytes:
    """Booleans, eight to a byte, in the order of ``pack``."""
    return pack(bits.astype(np.uint8), 1)


def unpack_bits(packed: Bytes, shape: tuple[int, ...]) -> Bits:
    """The inverse of ``pack_bits``."""
    return unpack(packed, prod(shape), 1).astype(np.bool_).reshape(shape)


def deal_bits(bits: Bits) -> tuple[SharedBits, SharedBits, SharedBits]:
    """What an outsider who knows a tensor of bits sends to P0, P1 and P2."""
    packed = pack_bits(bits)
    masks = Stream.private().open(0)
    b0 = masks.draw("b0", packed.size, _BYTE)
    b1 = masks.draw("b1", packed.size, _BYTE)
    b2 = packed ^ b0 ^ b1
    shape = bits.shape
    return (
        SharedBits(b0, b1, shape),
        SharedBits(b1, b2, shape),
        SharedBits(b2, b0, shape),
    )


def combine_bits(shares: Sequence[SharedBits]) -> Bits:
    """The secret bits, from what P0, P1 and P2 hold; checks that they agree."""
    for i in range(3):
        if not np.array_equal(shares[i].second, shares[(i + 1) % 3].first):
            raise ShareConsistencyError(
                f"P{i} and P{(i + 1) % 3} disagree on bit share {(i + 1) % 3}."
            )
    p0, p1, _ = shares
    return unpack_bits(p0.first ^ p0.second ^ p1.second, p0.shape)
