import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.errors import FixedPointRangeError, FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, decode, encode


@given(
    bits=st.integers(8, 64),
    frac=st.integers(-4, 40),
    data=st.data(),
)
def test_decode_inverts_encode_within_half_an_ulp(
    bits: int, frac: int, data: st.DataObject
) -> None:
    kind = FxpType(bits=bits, frac=frac)
    units = data.draw(
        hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=0, max_side=5),
            elements=st.floats(-1, 1),
        )
    )
    values = 0.999 * units * (kind.max_value - kind.ulp)
    integers = encode(values, kind)
    assert integers.dtype == kind.ring.dtype
    assert np.abs(decode(integers, kind) - values).max(initial=0) <= kind.ulp / 2


def test_range_error_names_the_tensor_the_value_and_the_way_out() -> None:
    kind = FxpType(bits=32, frac=20)
    with pytest.raises(FixedPointRangeError) as caught:
        encode([[1.0, 2.0], [-5000.0, 0.0]], kind, name="encoder.layer.3.weight")
    message = str(caught.value)
    assert "encoder.layer.3.weight" in message
    assert "5000" in message
    assert "(1, 0)" in message
    assert "frac 17 or less" in message
    encode(-5000.0, FxpType(bits=32, frac=17))  # the advice holds


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -3.4e38])
def test_values_no_ring_holds_are_refused(value: float) -> None:
    with pytest.raises(FixedPointRangeError, match="'mask'"):
        encode([0.0, value], FxpType(bits=32, frac=12), name="mask")


def test_complex_values_are_refused() -> None:
    with pytest.raises(FixedPointTypeError, match=r"'wave'.*imaginary part"):
        encode(np.array([1 + 2j]), FxpType(32, 12), name="wave")


def test_public_message_carries_no_value() -> None:
    with pytest.raises(FixedPointRangeError) as caught:
        encode(123456.0, FxpType(bits=32, frac=20), name="secret")
    assert "123456" not in caught.value.public_message()
    assert "secret" not in caught.value.public_message()


@given(bits=st.integers(2, 64), bound=st.floats(0, 2.0**30))
def test_finest_type_holds_the_bound_and_one_more_bit_does_not(
    bits: int, bound: float
) -> None:
    kind = FxpType.finest(bits=bits, bound=bound)
    assert bound < kind.max_value
    finer = 2 * kind.frac < 256 and kind.frac < 128
    if bound and finer:
        assert bound >= FxpType(bits, kind.frac + 1).max_value


@pytest.mark.parametrize("bits", [1, 65])
def test_impossible_types_are_refused(bits: int) -> None:
    with pytest.raises(FixedPointTypeError, match=f"bits={bits}"):
        FxpType(bits=bits, frac=0)


@given(bits=st.integers(1, 64), value=st.integers(-(2**70), 2**70))
def test_ring_is_arithmetic_modulo_its_size(bits: int, value: int) -> None:
    ring = Ring(bits)
    word = ring.scalar(value)
    assert int(word) == value % 2**bits
    signed = int(ring.signed(np.array([word]))[0])
    assert -(2 ** (bits - 1)) <= signed < 2 ** (bits - 1)
    assert (signed - value) % 2**bits == 0
