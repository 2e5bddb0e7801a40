"""Frames as messages of a call: whole, bounded, and any other bytes refused."""

import random
from collections.abc import Iterable

import numpy as np
import pytest

from ditto.errors import MessageError, RequestError
from ditto.wire.chunks import MAX_MESSAGE, Frame, from_messages, to_messages
from ditto.wire.messages import RunPlan, Turn, decode_request, encode
from tests.fuzzing import inputs


def only(messages: Iterable[bytes], most_bytes: int) -> Frame:
    (frame,) = from_messages(messages, most_bytes)
    return frame


def test_a_large_frame_travels_in_small_messages() -> None:
    array = np.arange(700_000, dtype=np.uint32)
    messages = list(to_messages({"a": 1}, {"x": array}))
    assert len(messages) == 3
    assert max(map(len, messages)) == MAX_MESSAGE
    body, arrays = only(messages, array.nbytes)
    assert body == {"a": 1}
    assert np.array_equal(arrays["x"], array)
    with pytest.raises(MessageError, match="exceed"):
        only(messages, array.nbytes - 1)


def test_frames_follow_each_other() -> None:
    two = [*to_messages({"k": 0}, {}), *to_messages({"k": 1}, {"x": np.zeros(3)})]
    assert [body["k"] for body, _ in from_messages(two, 100)] == [0, 1]
    with pytest.raises(MessageError, match="middle of a frame"):
        list(from_messages([two[0], b"\x00more"], 100))


def test_nothing_is_read_beyond_the_limit() -> None:
    """An endless stream is given up after what a frame may have."""
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield b"\x00" + bytes(MAX_MESSAGE - 1)

    with pytest.raises(MessageError, match="exceeds"):
        only(endless(), 3 << 20)  # type: ignore[arg-type]
    assert read <= 6


def test_damaged_messages_are_refused() -> None:
    """Each is a request or a MessageError, a RequestError if a field is wrong."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    rng = random.Random(seed)
    arrays = {"x": np.arange(5, dtype=np.uint64), "flag": np.array([True])}
    run = RunPlan("acme/m:1", "0" * 64, Turn("a" * 32), arrays, request_id="b" * 32)
    (good,) = to_messages(*encode(run))
    assert isinstance(decode_request(*only([good], 1 << 10)), RunPlan)
    refused, count = 0, inputs(20_000)
    for _ in range(count):
        content = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            kind = rng.random()
            place = rng.randrange(len(content)) if content else 0
            if kind < 0.5 and content:
                content[place] = rng.randrange(256)
            elif kind < 0.75:
                del content[place : place + rng.randint(1, 20)]
            else:
                content[place:place] = rng.randbytes(rng.randint(1, 8))
        try:
            decode_request(*only([bytes(content)], 1 << 10))
        except (MessageError, RequestError):
            refused += 1
    assert refused > count / 2
