"""What the C library computes of AES is what ``cryptography`` and numpy compute."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto.fixedpoint import Ring
from ditto.native import aes
from ditto.sharing import Stream
from ditto.sharing.payloads import correct_payloads, products_at_payloads
from ditto.sharing.points import expand_points, split_points

T = TypeVar("T")
pytestmark = pytest.mark.skipif(
    aes.schedule(bytes(16)) is None, reason="there is no library that computes AES"
)


def without_library(compute: Callable[[], T]) -> T:
    """What is computed without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aes, "schedule", lambda _: None)
        return compute()


def test_a_known_schedule() -> None:
    """FIPS 197, appendix A.1."""
    schedule = aes.schedule(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"))
    assert schedule is not None
    assert schedule.keys.size == 11 * 16
    assert schedule.keys[-16:].tobytes().hex() == "d014f9a8c9ee2589e13f0cc8b6630ca6"


@pytest.mark.parametrize("bits", [1, 3, 8, 11, 16, 27, 32, 40, 63, 64])
def test_streams(bits: int) -> None:
    key = bytes(range(16))

    def draw(count: int) -> bytes:
        return Stream(key).open(7).draw("m", count, Ring(bits)).tobytes()

    for count in (0, 1, 2, 15, 16, 17, 127, 128, 129, 1001, aes._LONG + 5):
        assert draw(count) == without_library(lambda n=count: draw(n))


@given(
    st.integers(1, 300),
    st.sampled_from([32, 64]),
    st.integers(0, 1),
    st.integers(1, 9),
)
def test_vectors_of_points(depth: int, bits: int, side: int, count: int) -> None:
    indices = np.random.default_rng(depth).integers(0, depth, count)
    keys = split_points(indices, depth=depth, bits=bits)[side]

    def expand() -> np.ndarray:
        return expand_points(keys, depth=depth, bits=bits, side=side)

    np.testing.assert_array_equal(expand(), without_library(expand))


@pytest.mark.parametrize("depth", [8, 64, 512])
@pytest.mark.parametrize("without", [0, 1, 5])
@pytest.mark.parametrize("count", [1, 3, 200])
def test_tables_at_payloads(depth: int, without: int, count: int) -> None:
    """Tables without their last columns pick zeros there, wherever they are turned."""
    rng = np.random.default_rng(depth)
    indices, turns = (rng.integers(0, depth, count).astype(np.uint32) for _ in range(2))
    roots = rng.integers(0, 2**64, (2, count, 2), np.uint64)
    table = rng.integers(0, 2**64, (5, depth - without), np.uint64)
    payloads = rng.integers(0, 2**64, (count, 3), np.uint64)
    words, salt = (0, 2, 1, 1, 0), rng.bytes(16)
    fixes = correct_payloads(indices, payloads, roots, salt, depth=depth)

    def shares() -> np.ndarray:
        sides = [
            products_at_payloads(
                roots[k], fixes, salt, table, words, turns, depth=depth, side=k
            )
            for k in (0, 1)
        ]
        return np.stack(sides)

    made = shares()
    np.testing.assert_array_equal(made, without_library(shares))
    whole = np.pad(table, ((0, 0), (0, without)))
    picked = whole[:, (indices + turns) % np.uint32(depth)].T
    np.testing.assert_array_equal(made[0] + made[1], picked * payloads[:, words])
