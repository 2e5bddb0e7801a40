import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto.errors import MessageError
from ditto.fixedpoint import Ring
from ditto.sharing import pack, packed_size, unpack


@given(width=st.integers(1, 64), count=st.integers(0, 70), data=st.data())
def test_unpack_inverts_pack(width: int, count: int, data: st.DataObject) -> None:
    ring = Ring(width)
    numbers = data.draw(
        st.lists(st.integers(0, 2**width - 1), min_size=count, max_size=count)
    )
    values = np.array(numbers, ring.dtype)
    packed = pack(values, width)
    assert packed.size == packed_size(count, width)
    assert np.array_equal(unpack(packed, count, width), values)


@given(width=st.integers(1, 15), count=st.integers(1, 40), data=st.data())
def test_bits_above_the_width_do_not_travel(
    width: int, count: int, data: st.DataObject
) -> None:
    words = st.integers(0, 2**16 - 1)
    numbers = data.draw(st.lists(words, min_size=count, max_size=count))
    values = np.array(numbers, np.uint16)
    low = values & np.uint16(2**width - 1)
    assert np.array_equal(pack(values, width), pack(low, width))


def test_no_bit_is_wasted() -> None:
    assert packed_size(8000, 12) == 8000 * 12 // 8
    assert packed_size(3, 1) == 1
    assert packed_size(5, 32) == 20


def test_a_field_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(MessageError, match="takes 12 bytes, got 11"):
        unpack(np.zeros(11, np.uint8), 8, 12)
