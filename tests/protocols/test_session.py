"""The keys of a session, against Diffie-Hellman and HKDF done by hand."""

import hashlib
import hmac
import threading
from functools import partial
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ditto.fixedpoint import Ring
from ditto.protocols import agree, memory_channels
from ditto.protocols.party import Exchange, Role, Steps
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Stream

NAMES = ("ann", "ben", "cid")
SESSION = b"a session"
PRIVATE = (  # the first two are of RFC 7748, section 6.1
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    "a8abababababababababababababababababababababababababababababab6b",
)
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
Masks = dict[tuple[Rank, str], bytes]


def x25519(scalar: bytes, point: bytes) -> bytes:
    """The ladder of RFC 7748, section 5."""
    p = 2**255 - 19
    k = int.from_bytes(scalar, "little") & ~7 & ((1 << 254) - 1) | (1 << 254)
    x1 = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3 = 1, 0, x1, 1
    for t in reversed(range(255)):
        bit = k >> t & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        plus, minus = (x2 + z2) ** 2 % p, (x2 - z2) ** 2 % p
        cross, other = (x3 - z3) * (x2 + z2) % p, (x3 + z3) * (x2 - z2) % p
        x3, z3 = (cross + other) ** 2 % p, x1 * (cross - other) ** 2 % p
        gap = plus - minus
        x2, z2 = plus * minus % p, gap * (plus + 121665 * gap) % p
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, p) % p).to_bytes(32, "little")


def public(private: bytes) -> bytes:
    return x25519(private, (9).to_bytes(32, "little"))


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, of 16 bytes."""
    key = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(key, info + b"\1", hashlib.sha256)[:16]


def masks_of_a_session() -> tuple[Masks, list[bytes]]:
    """What each party draws with the next and the one before, alone, and its hello."""
    channels = memory_channels(timeout=5, names=NAMES)
    hellos: dict[Rank, bytes] = {}
    drawn: Masks = {}

    def join(rank: Rank) -> None:
        PLAYING.rank = rank
        channel = channels[rank]
        send = channel.send

        def noted(to: Rank, parts: list[np.ndarray], *, tag: int) -> None:
            hellos[rank] = b"".join(part.tobytes() for part in parts)
            send(to, parts, tag=tag)

        channel.send = noted  # type: ignore[method-assign,assignment]
        party = agree(channel, session=SESSION)

        def draw(role: Role) -> Steps[None]:
            for name in ("next", "previous", "own"):
                masks = getattr(role, name)
                drawn[rank, name] = masks.draw("test", 4, Ring(64)).tobytes()
            yield Exchange()

        party.run(draw, rotation=0)

    raise_first(run_together([partial(join, rank) for rank in RANKS]))
    return drawn, [hellos[rank] for rank in RANKS]


class Playing(threading.local):
    rank: Rank


PLAYING = Playing()


class KnownKeys:
    """In place of X25519PrivateKey: each party has a key of ours."""

    @staticmethod
    def generate() -> X25519PrivateKey:
        key = bytes.fromhex(PRIVATE[PLAYING.rank])
        return X25519PrivateKey.from_private_bytes(key)


def test_the_ladder_is_that_of_the_standard() -> None:
    a, b = (bytes.fromhex(key) for key in PRIVATE[:2])
    assert x25519(a, public(b)).hex() == x25519(b, public(a)).hex() == SHARED


def test_masks_are_those_of_the_secret_of_each_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = import_module("ditto.protocols.session")
    monkeypatch.setattr(module, "X25519PrivateKey", KnownKeys)
    drawn, _ = masks_of_a_session()
    private = [bytes.fromhex(key) for key in PRIVATE]
    about = b"\0".join([SESSION, *(name.encode() for name in NAMES)])
    for i, j in ((0, 1), (1, 2), (0, 2)):
        secret = x25519(private[i], public(private[j]))
        publics = b"".join(sorted((public(private[i]), public(private[j]))))
        info = f"ditto prf v1 masks of P{i} and P{j}".encode()
        key = hkdf(secret, about + b"\0" + publics, info)
        expected = Stream(key).open(0).draw("test", 4, Ring(64)).tobytes()
        for rank, other in ((i, j), (j, i)):
            side = "next" if Rank(rank).next == other else "previous"
            assert drawn[Rank(rank), side] == expected


def test_a_session_has_keys_of_its_own() -> None:
    """Though its name is the same."""
    sessions = [masks_of_a_session() for _ in range(2)]
    hellos = [hello for _, said in sessions for hello in said]
    for a, b in combinations(hellos, 2):
        assert a[:16] == b[:16]  # the digest of the session's name
        assert a[16:48] != b[16:48]
    masks = [set(drawn.values()) for drawn, _ in sessions]
    assert len(masks[0]) == len(masks[1]) == 6  # of three pairs, and of each alone
    assert not masks[0] & masks[1]
