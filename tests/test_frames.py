import io
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.errors import MessageError
from ditto.frames import MAX_HEADER, read_frame, write_frame


@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.uint32, np.uint64, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, min_side=0),
    )
)
def test_a_frame_comes_back_whole(array: np.ndarray) -> None:
    stream = io.BytesIO()
    write_frame(stream, {"call": "x", "n": [1, 2]}, {"a": array})
    stream.seek(0)
    frame = read_frame(stream)
    assert frame is not None
    body, arrays = frame
    assert body == {"call": "x", "n": [1, 2]}
    assert arrays["a"].dtype == array.dtype
    assert arrays["a"].tobytes() == array.tobytes()
    assert arrays["a"].shape == array.shape
    assert read_frame(stream) is None


def raw(header: object, rest: bytes = b"") -> io.BytesIO:
    text = json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + rest)


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (io.BytesIO(struct.pack("<Q", MAX_HEADER + 1)), "exceeds"),
        (
            raw(
                {"body": {}, "arrays": [{"name": "a", "dtype": "object", "shape": [1]}]}
            ),
            "'object'",
        ),
        (
            raw(
                {"body": {}, "arrays": [{"name": "a", "dtype": "uint8", "shape": [-1]}]}
            ),
            "shape",
        ),
        (
            raw(
                {
                    "body": {},
                    "arrays": [{"name": "a", "dtype": "uint64", "shape": [1 << 40]}],
                }
            ),
            "exceed",
        ),
        (
            raw(
                {"body": {}, "arrays": [{"name": "a", "dtype": "uint8", "shape": [5]}]},
                b"abc",
            ),
            "3 of 5",
        ),
    ],
)
def test_frames_beyond_the_limits_are_refused(
    stream: io.BytesIO, complaint: str
) -> None:
    with pytest.raises(MessageError, match=complaint):
        read_frame(stream)
