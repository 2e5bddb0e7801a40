import os

import numpy as np
import pytest
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
