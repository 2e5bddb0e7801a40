"""What the C library packs and unpacks is what numpy does."""

import numpy as np
import pytest

from ditto.fixedpoint import Ring
from ditto.native import packing as native
from ditto.native.library import LONG
from ditto.sharing import pack, packed_size, packing, unpack

COUNTS = (0, 1, 7, 8, 9, 64, 1001, LONG + 3)


@pytest.mark.skipif(native._libraries() is None, reason="built without a C compiler")
@pytest.mark.parametrize("width", [k for k in range(1, 64) if k not in (8, 16, 32)])
def test_the_library_does_what_numpy_does(width: int) -> None:
    rng, dtype = np.random.default_rng(width), Ring(width).dtype
    for count in COUNTS:
        wide = rng.integers(0, 2**64, count, np.uint64, endpoint=False)
        for given in (wide, wide.astype(dtype)):  # bits above the width do not count
            padded = -(-count // 8) * 8 if width % 8 else count
            due = np.empty(packed_size(count, width), np.uint8)
            packing._pack(given, padded, width, due)
            got = pack(given, width)
            np.testing.assert_array_equal(got, due)
            whole = packing._unpack(due, padded, width, dtype)[:count]
            np.testing.assert_array_equal(unpack(got, count, width), whole)
            np.testing.assert_array_equal(whole, Ring(width).reduce(given))


def test_bytes_within_a_message_are_unpacked() -> None:
    """At odd places, and every second one."""
    values = np.arange(40, dtype=np.uint16)
    message = np.concatenate([np.zeros(3, np.uint8), pack(values, 11)])
    np.testing.assert_array_equal(unpack(message[3:], 40, 11), values)
    spread = np.repeat(message[3:], 2)[::2]
    np.testing.assert_array_equal(unpack(spread, 40, 11), values)


def test_without_the_library_numpy_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Ring(13).reduce(np.arange(100) * 77)
    due = pack(values, 13)
    for absent in (packing.pack_bits, packing.unpack_bits):
        monkeypatch.setattr(packing, absent.__name__, lambda *_: False)
    np.testing.assert_array_equal(pack(values, 13), due)
    np.testing.assert_array_equal(unpack(due, 100, 13), values)
