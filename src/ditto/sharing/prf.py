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

The C library computes the streams, or ``cryptography`` where there is none.
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
from ditto.native import aes
from ditto.sharing.packing import Bytes

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


class _Key:
    """AES-CTR under one key, whose schedule is computed once."""

    def __init__(self, key: bytes) -> None:
        self._schedule = aes.schedule(key)
        if self._schedule is None:
            self._aes = algorithms.AES(key)
            self._blocks = Cipher(self._aes, modes.ECB()).encryptor()  # noqa: S305  (of counters)

    def draw(self, name: bytes, count: int, ring: Ring) -> Words:
        """The first elements of a ring at a name of 10 bytes."""
        if self._schedule is None:
            size = count * ring.dtype.itemsize
            return ring.reduce(self._stream(name, size)[:size].view(ring.dtype))
        words: Words = np.empty(count, ring.dtype)
        self._schedule.stream(name, ring.pattern, words)
        return words

    def _stream(self, name: bytes, size: int) -> Bytes:
        """The first bytes at a name, and room for a block behind them.

        Short ones are blocks encrypted one by one, which is what CTR is: to start a
        cipher takes longer than they do.
        """
        count = -(-size // _BLOCK)
        if count > len(_COUNTERS):
            cipher = Cipher(self._aes, modes.CTR(name + bytes(6))).encryptor()
            stream = np.empty(size + _BLOCK, np.uint8)
            cipher.update_into(_zeros(size), stream.data)
            return stream
        counters = _COUNTERS[:count].copy()
        counters[:, : len(name)] = np.frombuffer(name, np.uint8)
        stream = np.empty((count + 1) * _BLOCK, np.uint8)
        self._blocks.update_into(counters.reshape(-1).data, stream.data)
        return stream


class Masks:
    """The masks of one step: each purpose can be drawn once."""

    def __init__(self, key: "_Key", step: int) -> None:
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
        return self._key.draw(self._step.to_bytes(6, "big") + tag, count, ring)

    def within(self, part: str) -> "Masks":
        """The same masks for a part of the step, whose purposes are its own."""
        return _MasksOfPart(self, part)


class _MasksOfPart(Masks):
    def __init__(self, whole: Masks, part: str) -> None:
        self._whole, self._part = whole, part

    def draw(self, purpose: str, count: int, ring: Ring) -> Words:
        return self._whole.draw(f"{self._part}: {purpose}", count, ring)


class Stream:
    """The stream of one key: opens each step once, in rising order."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"A stream key has {KEY_BYTES} bytes, got {len(key)}.")
        self._key = _Key(key)
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


_COUNTERS = np.zeros((1024, _BLOCK), np.uint8)
_COUNTERS[:, -2:] = np.arange(1024, dtype=">u2")[:, None].view(np.uint8)
_ZEROS = bytes(1 << 20)


def _zeros(size: int) -> bytes | memoryview:
    return memoryview(_ZEROS)[:size] if size <= len(_ZEROS) else bytes(size)
