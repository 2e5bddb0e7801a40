"""A party's line to the two others, and what it counts.

A channel carries messages in order between each pair of parties. It counts the payload
bytes sent and, with a logical clock carried in every message, the true rounds: the
longest chain of messages in which each was sent after the one before it had arrived.
Messages that cross on the wire are one round; a message that answers another is two.
"""

import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ditto.errors import MessageError
from ditto.sharing import RANKS, Rank
from ditto.sharing.packing import Bytes

Buffer = bytes | memoryview

_HEADER = struct.Struct("<II")  # logical clock, tag
_U32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Traffic:
    """What one party has sent and how deep its view of the conversation is."""

    sent: tuple[int, int, int]
    """Payload bytes sent to P0, P1 and P2."""
    messages: int
    rounds: int

    @property
    def bytes(self) -> int:
        """Payload bytes sent, to both peers together."""
        return sum(self.sent)


class Channel(ABC):
    """Send to and receive from the two other parties. Not thread-safe."""

    def __init__(self, rank: Rank, names: Sequence[str] = ("P0", "P1", "P2")) -> None:
        self.rank = rank
        self.names = tuple(names)
        self._clock = 0
        self._sent = [0, 0, 0]
        self._messages = 0
        self.waited = 0.0
        """Seconds spent waiting for peers, since the channel was opened."""
        self.copied = 0.0
        """Seconds spent packing and handing over."""
        self.on_use: Callable[[], None] = lambda: None
        """Called before each step that the parties take together."""

    @abstractmethod
    def _send(self, to: Rank, parts: Sequence[Buffer]) -> None:
        """Queue the parts as one message; never blocks on the receiver."""

    @abstractmethod
    def _receive(self, source: Rank) -> Buffer:
        """The next message from a peer; raises PeerError within the timeout."""

    def send(self, to: Rank, parts: Sequence[Bytes], *, tag: int) -> None:
        """Send the parts as one message. ``tag`` names the step it belongs to."""
        self.on_use()
        size = sum(part.size for part in parts)
        started = time.perf_counter()
        header = _HEADER.pack((self._clock + 1) & _U32, tag & _U32)
        self._sent[to] += size
        self._messages += 1
        self._send(to, [header, *(part.data for part in parts)])
        self.copied += time.perf_counter() - started

    def receive(self, source: Rank, *, size: int, tag: int) -> Bytes:
        """The next message of a peer, which must have this size and tag."""
        self.on_use()
        started = time.perf_counter()
        message = self._receive(source)
        self.waited += time.perf_counter() - started
        if len(message) < _HEADER.size:
            raise MessageError(
                f"{self.names[source]} sent {len(message)} bytes, less than a header."
            )
        clock, got = _HEADER.unpack_from(message)
        if got != tag & _U32:
            raise MessageError(
                f"{self.names[source]} is at step {got}, this party at step "
                f"{tag & _U32}: the parties do not run the same plan. "
                f"Compare their plan digests and versions."
            )
        if len(message) != _HEADER.size + size:
            raise MessageError(
                f"{self.names[source]} sent {len(message) - _HEADER.size} bytes in "
                f"step {got}, {size} were due: the parties do not run the same plan."
            )
        self._clock = max(self._clock, clock)
        return np.frombuffer(message, np.uint8, offset=_HEADER.size)

    def traffic(self) -> Traffic:
        """The counts since the channel was opened."""
        p0, p1, p2 = self._sent
        return Traffic((p0, p1, p2), self._messages, self._clock)

    def restart_clock(self) -> None:
        """Begin to count rounds anew, at a moment when no message is under way."""
        self._clock = 0

    def close(self) -> None:  # noqa: B027  (optional to override)
        """Release what the channel holds; the default holds nothing."""


def peers_of(rank: Rank) -> tuple[Rank, Rank]:
    """The two other parties."""
    a, b = (other for other in RANKS if other != rank)
    return a, b
