"""Frames cut into messages of at most 1 MiB, as they travel in a call.

The first byte of a message says whether the frame ends with it. Gateways between
institutions cut larger bodies, and a receiver stops reading as soon as a frame exceeds
what it takes.
"""

import io
from collections.abc import Iterable, Iterator, Mapping

from ditto.errors import MessageError
from ditto.files import Json
from ditto.fixedpoint import Array
from ditto.frames import Arrays, read_frame, write_frame

Frame = tuple[Json, Arrays]

MAX_MESSAGE = 1 << 20
"""Bytes of one message, its first byte included."""
MAX_HEADER = 1 << 20
"""Bytes of the JSON part of a frame that arrives in a call."""
_MORE, _LAST = b"\x00", b"\x01"


def to_messages(body: Json, arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """A frame as messages."""
    stream = io.BytesIO()
    write_frame(stream, body, arrays)
    content = stream.getbuffer()
    step = MAX_MESSAGE - 1
    for start in range(0, len(content), step):
        last = start + step >= len(content)
        yield (_LAST if last else _MORE) + content[start : start + step]


def from_messages(messages: Iterable[bytes], most_bytes: int) -> Iterator[Frame]:
    """The frames that messages are parts of, each of ``most_bytes`` at most."""
    content = io.BytesIO()
    for message in messages:
        if not message or message[:1] not in (_MORE, _LAST):
            raise MessageError("A message of a call is no part of a frame.")
        if content.tell() + len(message) - 1 > most_bytes + MAX_HEADER:
            raise MessageError(
                f"A frame exceeds the {most_bytes} bytes that are taken here."
            )
        content.write(memoryview(message)[1:])
        if message[:1] == _LAST:
            yield _parse(content, most_bytes)
            content = io.BytesIO()
    if content.tell():
        raise MessageError("A call ended in the middle of a frame.")


def _parse(content: io.BytesIO, most_bytes: int) -> Frame:
    size = content.tell()
    content.seek(0)
    frame = read_frame(content, most_bytes, MAX_HEADER)
    if frame is None or content.tell() != size:
        raise MessageError("A frame has bytes that its header does not list.")
    return frame
