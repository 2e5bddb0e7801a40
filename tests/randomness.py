"""What parties and dealers draw in a test, drawn again in its next run.

Masks decide how results are rounded, and how often a value is found in one cell or in
the next: a test that fails once in a thousand runs fails again when it is run again.
``pytest --seed N`` has other draws. Processes that a test starts draw at random.
"""

import hashlib
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ditto.protocols import session
from ditto.sharing import points, prf

_KEY_BYTES = 32


class Draws:
    """Bytes that follow from a seed, a test's name and the thread that draws."""

    def __init__(self, seed: int) -> None:
        self._seed, self._name = seed, ""
        self._counts: dict[str, itertools.count[int]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Those of a test, or of a fixture that it is the first to ask for."""
        before = self._name, self._counts
        self._name, self._counts = name, {}
        try:
            yield
        finally:
            self._name, self._counts = before

    def urandom(self, size: int) -> bytes:
        """In place of ``os.urandom``."""
        thread = threading.current_thread().name
        count = next(self._counts.setdefault(thread, itertools.count()))
        drawn = repr((self._seed, self._name, thread, count)).encode()
        return hashlib.shake_128(drawn).digest(size)

    def generate(self) -> X25519PrivateKey:
        """In place of ``X25519PrivateKey.generate``."""
        return X25519PrivateKey.from_private_bytes(self.urandom(_KEY_BYTES))

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """Draw so wherever secrets are made."""
        for module in (session, points, prf):
            patch.setattr(module, "os", SimpleNamespace(urandom=self.urandom))
        keys = SimpleNamespace(
            generate=self.generate,
            from_private_bytes=X25519PrivateKey.from_private_bytes,
        )
        patch.setattr(session, "X25519PrivateKey", keys)

    def restart(self, module: object) -> None:
        """A test's own generators: what they draw is not up to the tests before."""
        for value in vars(module).values():
            if isinstance(value, np.random.Generator):
                fresh = np.random.default_rng([self._seed, *self._name.encode()])
                value.bit_generator.state = fresh.bit_generator.state
