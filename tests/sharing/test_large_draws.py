"""Masks of several MiB, against AES block by block; and keys of one's own."""

import hashlib
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ditto.fixedpoint import Ring
from ditto.sharing import Stream

MIB = 1 << 20
KEY = bytes(range(16))


def by_hand(key: bytes, step: int, purpose: str, size: int) -> bytes:
    """The stream at a position: AES of one counter block after the other."""
    tag = hashlib.blake2s(purpose.encode(), digest_size=4).digest()
    head = step.to_bytes(6, "big") + tag
    blocks = b"".join(head + n.to_bytes(6, "big") for n in range(-(-size // 16)))
    aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return aes.update(blocks)[:size]


@pytest.mark.usefixtures("each_cipher")
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_a_draw_is_the_stream_at_its_position(bits: int) -> None:
    ring = Ring(bits)
    count = (3 * MIB + 40) // ring.dtype.itemsize
    drawn = Stream(KEY).open(5).draw("k0", count, ring).tobytes()
    assert drawn == by_hand(KEY, 5, "k0", len(drawn))


@pytest.mark.usefixtures("each_cipher")
def test_a_known_answer() -> None:
    """Parties of different versions have to agree on it."""
    drawn = Stream(KEY).open(1).draw("rho", 2, Ring(64))
    assert drawn.tobytes().hex() == "72d4a5475ead26a35f0cce43c439e7ae"


@pytest.mark.usefixtures("each_cipher")
def test_no_part_of_a_large_draw_is_empty_or_repeated() -> None:
    drawn = Stream(os.urandom(16)).open(0).draw("m", 3 * MIB // 8, Ring(64))
    assert len(np.unique(drawn)) == drawn.size
    bits = np.unpackbits(drawn.view(np.uint8)).reshape(3 * 64, -1).mean(axis=1)
    assert np.abs(bits - 0.5).max() < 8 * 0.5 / (MIB * 8 / 64) ** 0.5  # 8 sigma


def test_everyones_own_masks_differ() -> None:
    drawn = [
        Stream.private().open(0).draw("r", 4, Ring(64)).tobytes() for _ in range(9)
    ]
    assert len(set(drawn)) == 9
