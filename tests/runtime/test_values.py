"""Shares enter and leave SPU bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.errors import EngineError, FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.runtime.spu.values import CHUNK, enter, leave
from ditto.sharing import Shared, SharedBits, deal_bits, unpack

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("chunk", [CHUNK, 24])
@given(data=st.data())
def test_arithmetic_shares(bits: int, chunk: int, data: st.DataObject) -> None:
    kind = FxpType(bits=bits, frac=0)
    shape = data.draw(SHAPES)
    words = hnp.arrays(kind.ring.dtype, shape)
    x = Shared(data.draw(words), data.draw(words), kind)
    share = enter(x, as_fixed_point=False, chunk=chunk)
    y = leave(share, fxp_frac=18, scope="test")
    assert isinstance(y, Shared)
    assert y.type == kind
    assert np.array_equal(x.first, y.first)
    assert np.array_equal(x.second, y.second)


@given(data=st.data())
def test_boolean_shares(data: st.DataObject) -> None:
    bits = data.draw(hnp.arrays(np.bool_, SHAPES))
    x = deal_bits(bits)[0]
    y = leave(enter(x, as_fixed_point=False), fxp_frac=18, scope="test")
    assert isinstance(y, SharedBits)
    assert y.shape == x.shape
    for before, after in ((x.first, y.first), (x.second, y.second)):
        assert np.array_equal(unpack(before, x.size, 1), unpack(after, x.size, 1))


def test_values_over_one_chunk() -> None:
    kind = FxpType(bits=64, frac=18)
    size = CHUNK // 16 + 1_000_001  # two words an element: more than one chunk
    first = np.arange(size, dtype=np.uint64)
    x = Shared(first, ~first, kind)
    share = enter(x, as_fixed_point=True)
    assert len(share.share_chunks) == 2
    y = leave(share, fxp_frac=18, scope="test")
    assert isinstance(y, Shared)
    assert y.type == kind
    assert np.array_equal(x.first, y.first)
    assert np.array_equal(x.second, y.second)


def test_a_ring_that_spu_lacks_is_refused() -> None:
    words = np.zeros(3, np.uint16)
    with pytest.raises(FixedPointTypeError, match="32 and 64 bits"):
        enter(Shared(words, words, FxpType(bits=12, frac=0)), as_fixed_point=False)


def test_a_missing_chunk_is_found_out() -> None:
    words = np.arange(40, dtype=np.uint32)
    share = enter(
        Shared(words, words, FxpType(bits=32, frac=0)), as_fixed_point=False, chunk=64
    )
    share.share_chunks = list(share.share_chunks)[:-1]
    with pytest.raises(EngineError, match="256 of 320 bytes"):
        leave(share, fxp_frac=8, scope="scores")
