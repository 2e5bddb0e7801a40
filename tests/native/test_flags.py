"""What the C library computes of flags and conjunctions is what numpy computes."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from ditto.native import flags
from ditto.native.library import LONG
from ditto.protocols.blocks import conjunction, product, range_check

T = TypeVar("T")
COUNTS = (1, 7, 8, 9, 64, 1001, LONG + 3)
TYPES = (np.uint8, np.uint16, np.uint32, np.uint64)

pytestmark = pytest.mark.skipif(not flags.there(), reason="built without a C compiler")


def without_library(compute: Callable[[], T]) -> T:
    """What is computed without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flags, "there", lambda: False)
        return compute()


def words(seed: int, dtype: type, *shape: int) -> np.ndarray:
    """Random words, also the largest ones."""
    largest = np.iinfo(dtype).max
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, largest, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.1, dtype(largest), drawn)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("bits", [3, 8, 14, 16, 21, 32, 37, 64])
def test_planes_of_top_bits(count: int, bits: int) -> None:
    dtype = next(t for t in TYPES if 8 * np.dtype(t).itemsize >= bits)
    summand = words(bits, dtype, count) & dtype((1 << bits) - 1)
    held = words(1, np.uint8, 3 * -(-count // 8))

    def planes() -> np.ndarray:
        return range_check._top_planes(summand, bits)

    np.testing.assert_array_equal(planes(), without_library(planes))
    for invert in (False, True):

        def picked(invert: bool = invert) -> np.ndarray:
            return range_check._picked(summand, bits, held, invert=invert)

        np.testing.assert_array_equal(picked(), without_library(picked))


@pytest.mark.parametrize("size", [8, 16, 512, 4096])
def test_the_word_that_flags_are_folded_into(size: int) -> None:
    for k in range(20):
        few, string = words(k, np.uint8, size), words(k + 99, np.uint8, size + 8)
        if k % 2:
            few &= few >> 3 & (np.arange(size) % 7 == k % 7)
        word = range_check._word(few, string)
        assert word < 1 << range_check.VERDICT_BITS
        assert word == without_library(lambda f=few, s=string: range_check._word(f, s))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(5, 3, 2), (40, 1, 4), (9, 7, 1)])
def test_terms_and_sums_of_conjunctions(dtype: type, shape: tuple[int, ...]) -> None:
    bits = words(3, dtype, *shape) & dtype(1)
    for is_p1 in (False, True):

        def terms(is_p1: bool = is_p1) -> tuple[np.ndarray, np.ndarray]:
            return conjunction._terms(bits, is_p1=is_p1)

        for got, expected in zip(terms(), without_library(terms), strict=True):
            np.testing.assert_array_equal(got, expected)
    x, y = (words(k, dtype, shape[0], 15) for k in (1, 2))

    def dots() -> np.ndarray:
        return product._times(x, y.reshape(-1))

    np.testing.assert_array_equal(dots(), without_library(dots))
