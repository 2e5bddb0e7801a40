from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.errors import FixedPointTypeError, ShareConsistencyError
from ditto.fixedpoint import FxpType
from ditto.protocols import invert_bits
from ditto.sharing import (
    RANKS,
    Rank,
    Shared,
    combine,
    combine_bits,
    deal,
    deal_bits,
)

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


@given(bits=st.sampled_from([2, 9, 12, 16, 32, 64]), data=st.data())
def test_combine_inverts_deal(bits: int, data: st.DataObject) -> None:
    kind = FxpType(bits=bits, frac=3)
    elements = st.integers(0, 2**bits - 1)
    secret = data.draw(hnp.arrays(kind.ring.dtype, SHAPES, elements=elements))
    assert np.array_equal(combine(deal(secret, kind)), secret)


def test_contradicting_shares_are_refused() -> None:
    p0, p1, p2 = deal(np.arange(5, dtype=np.uint32), FxpType(bits=32, frac=0))
    forged = replace(p1, first=p1.first + np.uint32(1))
    with pytest.raises(ShareConsistencyError, match="P0 and P1 disagree on share 1"):
        combine([p0, forged, p2])
    with pytest.raises(ShareConsistencyError, match="got 2"):
        combine([p0, p1])


def test_shares_know_their_ring() -> None:
    words = np.zeros(3, np.uint64)
    with pytest.raises(FixedPointTypeError, match="uint32, got uint64"):
        Shared(words, words, FxpType(bits=32, frac=0))
    low = np.zeros(3, np.uint32)
    with pytest.raises(ShareConsistencyError, match="one shape"):
        Shared(low, low[:2], FxpType(bits=32, frac=0))


@given(hnp.arrays(np.int64, (3, 4), elements=st.integers(-(2**20), 2**20)))
def test_linear_maps_act_on_shares(integers: np.ndarray) -> None:
    kind = FxpType(bits=32, frac=4)
    shares = deal(kind.ring.reduce(integers), kind)
    turned = combine([s.transpose(1, 0).reshape(2, 6)[1] for s in shares])
    assert np.array_equal(kind.ring.signed(turned), integers.T.reshape(2, 6)[1])
    assert shares[0].scaled(3).type == FxpType(bits=32, frac=1)


@given(data=st.data())
def test_bits_xor_and_not(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    x, y = (data.draw(hnp.arrays(np.bool_, shape)) for _ in range(2))
    pairs = list(zip(deal_bits(x), deal_bits(y), strict=True))
    assert np.array_equal(combine_bits([a ^ b for a, b in pairs]), x ^ y)
    inverted = [invert_bits(r, a) for r, (a, _) in zip(RANKS, pairs, strict=True)]
    assert np.array_equal(combine_bits(inverted), ~x)


def test_contradicting_bits_are_refused() -> None:
    p0, p1, p2 = deal_bits(np.ones(9, np.bool_))
    forged = replace(p2, second=p2.second ^ np.uint8(1))
    with pytest.raises(ShareConsistencyError, match="P2 and P0 disagree"):
        combine_bits([p0, p1, forged])


def test_ranks_form_a_ring() -> None:
    assert [rank.next for rank in RANKS] == [Rank.P1, Rank.P2, Rank.P0]
    assert all(rank.next.previous == rank for rank in RANKS)
    assert Rank.P2.rotated(2) == Rank.P1
    assert Rank.P0.rotated(-1) == Rank.P2
