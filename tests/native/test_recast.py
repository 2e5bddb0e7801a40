"""What the C library computes of a recast's elements is what numpy computes."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto.fixedpoint import FxpType
from ditto.native import recast as native
from ditto.native.library import LONG
from ditto.protocols.recast import (
    Conversion,
    _add_carry,
    _shift_right,
    _top_bit_clear,
)

T = TypeVar("T")
pytestmark = pytest.mark.skipif(not native.there(), reason="built without a C compiler")


def without_library(compute: Callable[[], T]) -> T:
    """What is computed without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "there", lambda: False)
        return compute()


@given(
    st.integers(3, 64),
    st.integers(2, 64),
    st.integers(0, 30),
    st.integers(0, 300),
    st.integers(0, 2**32),
)
def test_every_step_of_a_recast(
    bits: int, to_bits: int, cut: int, count: int, seed: int
) -> None:
    cut = min(cut, bits - 2)
    c = Conversion(FxpType(bits, cut), FxpType(to_bits, 0))
    rng, ring, target = np.random.default_rng(seed), c.source.ring, c.target.ring
    summand, share = (
        each.reduce(rng.integers(0, 2**64, count, np.uint64)) for each in (ring, target)
    )

    def shifted() -> list[np.ndarray]:
        return [_shift_right(summand, c, k) for k in (0, c.constant)]

    def top() -> np.ndarray:
        return _top_bit_clear(summand, c)

    def carried() -> np.ndarray:
        carry_ring = c.carry_ring
        carry = rng.integers(0, 2**64, count, np.uint64).astype(carry_ring.dtype)
        return _add_carry(share, carry, c)

    steps: list[Callable[[], object]] = [shifted]
    if 0 < c.carry_width <= to_bits:
        steps += [top, carried]
    for step in steps:
        state = rng.bit_generator.state
        got = step()
        rng.bit_generator.state = state
        expected = without_library(step)
        np.testing.assert_array_equal(got, expected)
        assert np.asarray(got).dtype == np.asarray(expected).dtype


def test_long_ones_and_ones_that_are_no_block_of_memory() -> None:
    c = Conversion(FxpType(32, 12), FxpType(27, 0))
    wide = np.random.default_rng(0).integers(0, 2**32, 2 * LONG + 2)
    for summand in (wide.astype(np.uint32), wide.astype(np.uint32)[::2]):

        def shifted(summand: np.ndarray = summand) -> np.ndarray:
            return _shift_right(summand, c, c.constant)

        np.testing.assert_array_equal(shifted(), without_library(shifted))
