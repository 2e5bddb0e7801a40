"""Channels between three threads of one process."""

import queue
from collections.abc import Sequence
from dataclasses import dataclass, field

from ditto.errors import PeerLostError, PeerStalledError
from ditto.protocols.channel import Buffer, Channel
from ditto.sharing import RANKS, Rank


class _Gone:
    """What a closed channel leaves in its peers' queues."""


@dataclass(frozen=True)
class _Wires:
    queues: dict[tuple[Rank, Rank], "queue.SimpleQueue[bytes | _Gone]"] = field(
        default_factory=lambda: {
            (a, b): queue.SimpleQueue() for a in RANKS for b in RANKS if a != b
        }
    )


class MemoryChannel(Channel):
    """One thread's end of the wires."""

    def __init__(
        self, rank: Rank, wires: _Wires, names: Sequence[str], timeout: float
    ) -> None:
        super().__init__(rank, names)
        self._wires = wires.queues
        self._timeout = timeout

    def _send(self, to: Rank, parts: Sequence[Buffer]) -> None:
        self._wires[self.rank, to].put(b"".join(parts))

    def _receive(self, source: Rank) -> bytes:
        name = self.names[source]
        try:
            message = self._wires[source, self.rank].get(timeout=self._timeout)
        except queue.Empty:
            raise PeerStalledError(
                f"{name} sent nothing for {self._timeout:g} s.", peer=name
            ) from None
        if isinstance(message, _Gone):
            raise PeerLostError(f"{name} has left the computation.", peer=name)
        return message

    def close(self) -> None:
        """Tell the peers that nothing more will come."""
        for (source, _), wire in self._wires.items():
            if source == self.rank:
                wire.put(_Gone())


def memory_channels(
    *, timeout: float = 60.0, names: Sequence[str] = ("P0", "P1", "P2")
) -> tuple[MemoryChannel, MemoryChannel, MemoryChannel]:
    """Three connected channels, one for each thread."""
    wires = _Wires()
    p0, p1, p2 = (MemoryChannel(rank, wires, names, timeout) for rank in RANKS)
    return p0, p1, p2
