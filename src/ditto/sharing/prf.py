"""Randomness that two parties share, and randomness of one's own.

A stream is AES-128-CTR under a key of one session. The 16-byte counter block is

    step (6 bytes) | purpose (4 bytes) | block number (6 bytes)

so the position of every mask is named by session, step and purpose, and no two names
overlap. A stream's steps only go up, each is opened once, and an open step gives a
purpose out once (two purposes with one tag are refused as one): a second use of a
position is not something a protocol has to remember to avoid, a stream cannot do it.
A session makes one stream of each key (``protocols.session``).

A run of a plan has streams of its own, derived from the session's. The key of a derived
stream is HKDF of 32 bytes that one step of the session's stream gives out, and of the
run's context. So it is drawn once, like a mask: no two runs have a key in common, not
even two with one context. And whoever derives with another context, or at another
step, gets a key that is independent of it: its masks are noise to the other side, and
what one side masked for one plan is never masked the same for another.
"""

import hashlib
import os
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ditto.errors import MaskReuseError
from ditto.fixedpoint import Ring, Words

KEY_BYTES = 16
_BLOCK = 16
_MAX_STEP = 1 << 48
_SECRET_WORDS = 4
"""Words of 64 bits that the key of a run is derived from."""


def derive_key(secret: bytes, *, session: bytes, label: str) -> bytes:
    """A stream key of one session and one label, from a secret of any length."""
    return HKDF(
        algorithm=SHA256(),
        length=KEY_BYTES,
        salt=session,
        info=b"ditto prf v1 " + label.encode(),
    ).derive(secret)


class Masks:
    """The masks of one step: each purpose can be drawn once."""

    def __init__(self, key: bytes, step: int) -> None:
        self._key = key
        self._step = step
        self._used: set[bytes] = set()

    def draw(self, purpose: str, count: int, ring: Ring) -> Words:
        """``count`` uniform elements of ``ring``; refuses a purpose drawn before."""
        tag = _tag(purpose)
        if tag in self._used:
            raise MaskReuseError(
                f"Step {self._step} has given out the mask {purpose!r} already. "
                f"A mask hides one message only; give the second draw another name."
            )
        self._used.add(tag)
        size = count * ring.dtype.itemsize
        block = self._step.to_bytes(6, "big") + tag + bytes(6)
        cipher = Cipher(algorithms.AES(self._key), modes.CTR(block)).encryptor()
        stream = np.empty(size + _BLOCK, np.uint8)
        cipher.update_into(_zeros(size), stream.data)
        return ring.reduce(stream[:size].view(ring.dtype))


class Stream:
    """The stream of one key: opens each step once, in rising order."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"A stream key has {KEY_BYTES} bytes, got {len(key)}.")
        self._key = key
        self._last = -1

    def open(self, step: int) -> Masks:
        """The masks of a step later than every step opened before."""
        if not self._last < step < _MAX_STEP:
            raise MaskReuseError(
                f"Step {step} was asked for after step {self._last}: its masks may "
                f"have been used. Steps of a session only go up; open a new session."
            )
        self._last = step
        return Masks(self._key, step)

    def derive(self, step: int, context: bytes) -> "Stream":
        """The stream of one run: takes up a step of this one, see the module's text."""
        secret = self.open(step).draw("key of a run", _SECRET_WORDS, Ring(64))
        return Stream(derive_key(secret.tobytes(), session=context, label="run"))

    @classmethod
    def private(cls) -> "Stream":
        """A stream nobody else knows, keyed by the operating system."""
        return cls(os.urandom(KEY_BYTES))


@lru_cache(maxsize=1024)
def _tag(purpose: str) -> bytes:
    return hashlib.blake2s(purpose.encode(), digest_size=4).digest()


_ZEROS = bytes(1 << 20)


def _zeros(size: int) -> bytes | memoryview:
    return memoryview(_ZEROS)[:size] if size <= len(_ZEROS) else bytes(size)
