import hashlib
import hmac
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ditto.errors import MaskReuseError
from ditto.fixedpoint import Ring
from ditto.sharing import Stream, derive_key

RING = Ring(64)


def test_a_purpose_is_given_out_once() -> None:
    masks = Stream(bytes(16)).open(0)
    masks.draw("rho", 4, RING)
    with pytest.raises(MaskReuseError, match="'rho'"):
        masks.draw("rho", 4, RING)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=10))
def test_steps_only_go_up(steps: list[int]) -> None:
    stream, last = Stream(bytes(16)), -1
    for step in steps:
        if step > last:
            stream.open(step)
            last = step
        else:
            with pytest.raises(MaskReuseError, match=f"Step {step} "):
                stream.open(step)


def test_both_ends_draw_the_same() -> None:
    key = os.urandom(16)
    here, there = (Stream(key).open(3).draw("g", 100, RING) for _ in range(2))
    assert np.array_equal(here, there)


def test_session_step_purpose_and_pair_separate_the_streams() -> None:
    secret = b"shared secret"

    def draw(session: bytes, label: str, step: int, purpose: str) -> bytes:
        key = derive_key(secret, session=session, label=label)
        return Stream(key).open(step).draw(purpose, 4, RING).tobytes()

    drawn = {
        draw(session, label, step, purpose)
        for session in (b"a", b"b")
        for label in ("P0-P1", "P1-P2")
        for step in (0, 1, 255, 256)
        for purpose in ("k0", "k2")
    }
    assert len(drawn) == 2 * 2 * 4 * 2


def test_a_run_has_masks_of_its_own() -> None:
    """Of one context and step at both ends, and of no other."""
    key = os.urandom(16)

    def draw(*runs: bytes) -> bytes:
        stream = Stream(key)
        derived = [stream.derive(step, context) for step, context in enumerate(runs)]
        return derived[-1].open(0).draw("m", 4, RING).tobytes()

    assert draw(b"plan") == draw(b"plan")
    drawn = [draw(b"plan"), draw(b"another"), draw(b"plan", b"plan"), draw(b"", b"x")]
    session = Stream(key)
    drawn += [session.open(step).draw("m", 4, RING).tobytes() for step in range(2)]
    assert len(set(drawn)) == len(drawn)


def test_a_run_takes_up_a_step() -> None:
    stream = Stream(bytes(16))
    stream.derive(3, b"plan")
    with pytest.raises(MaskReuseError, match="Step 3 "):
        stream.derive(3, b"another plan")
    with pytest.raises(MaskReuseError, match="Step 3 "):
        stream.open(3)


def test_the_key_of_a_run_is_as_written_down() -> None:
    """HKDF by hand, of the 32 bytes that AES gives for the step."""
    key, context = bytes(range(16)), b"plan, model, turn"
    tag = hashlib.blake2s(b"key of a run", digest_size=4).digest()
    block = (5).to_bytes(6, "big") + tag + bytes(6)
    secret = Cipher(AES(key), CTR(block)).encryptor().update(bytes(32))
    extracted = hmac.digest(context, secret, "sha256")
    run_key = hmac.digest(extracted, b"ditto prf v1 run\x01", "sha256")[:16]
    expected = Stream(run_key).open(0).draw("m", 4, RING)
    got = Stream(key).derive(5, context).open(0).draw("m", 4, RING)
    assert np.array_equal(got, expected)


@pytest.mark.usefixtures("each_cipher")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1 << 14, (1 << 14) + 1, 1 << 16])
def test_masks_are_aes_in_counter_mode(size: int) -> None:
    """Short and long ones alike, whatever was drawn before."""
    key = bytes(range(16))
    block = (9).to_bytes(6, "big") + hashlib.blake2s(b"m", digest_size=4).digest()
    due = Cipher(AES(key), CTR(block + bytes(6))).encryptor().update(bytes(size))
    masks = Stream(key).open(9)
    masks.draw("another", 33, Ring(8))
    assert masks.draw("m", size, Ring(8)).tobytes() == due


def test_long_streams_of_neighbouring_steps_do_not_overlap() -> None:
    stream = Stream(os.urandom(16))
    blocks = [
        masks.draw(purpose, 1 << 12, RING).reshape(-1, 2)
        for masks in (stream.open(0), stream.open(1))
        for purpose in ("a", "b")
    ]
    distinct = np.unique(np.concatenate(blocks), axis=0)
    assert len(distinct) == 4 * (1 << 11)


@pytest.mark.parametrize("bits", [1, 5, 12, 32, 64])
def test_masks_are_uniform_over_their_ring(bits: int) -> None:
    values = Stream.private().open(0).draw("m", 1 << 16, Ring(bits))
    low = values.astype(np.uint64) & np.uint64(2 ** min(bits, 8) - 1)
    counts = np.bincount(low.astype(np.int64), minlength=2 ** min(bits, 8))
    assert stats.chisquare(counts).pvalue > 1e-9
    assert values.max() < 2**bits


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes, got 5"):
        Stream(b"short")
