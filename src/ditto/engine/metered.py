"""SPU links in memory that count what SPU sends and how deep its conversation is.

SPU's wheel lets Python stand under a link. These links connect the threads of one
process; every message carries a logical clock as in ``protocols.channel``, so bytes
and true rounds of SPU's own operations come out exactly, without reading its logs.
"""

import threading
from collections.abc import Callable
from typing import Any

from ditto.engine.spu_library import libspu
from ditto.protocols import Traffic
from ditto.sharing import RANKS, Rank


class Exchange:
    """Where messages wait to be taken."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._arrived = threading.Condition()
        self._messages: dict[tuple[Rank, Rank, str], tuple[int, bytes]] = {}

    def put(self, source: Rank, to: Rank, key: str, clock: int, data: bytes) -> None:
        """Leave a message."""
        with self._arrived:
            self._messages[source, to, key] = (clock, data)
            self._arrived.notify_all()

    def take(self, source: Rank, to: Rank, key: str) -> tuple[int, bytes]:
        """Take a message, waiting for it up to the timeout."""
        slot = (source, to, key)
        with self._arrived:
            if not self._arrived.wait_for(
                lambda: slot in self._messages, self._timeout
            ):
                raise RuntimeError(f"Get data timeout, key={key}")
            return self._messages.pop(slot)


class MeteredLink:
    """One party's SPU link, with its counts."""

    def __init__(self, exchange: Exchange, rank: Rank) -> None:
        native = libspu()
        self.rank = rank
        self.sent = [0, 0, 0]
        self.messages = 0
        self.clock = 0
        desc = native.link.Desc()
        for party in RANKS:
            desc.add_party(f"P{party:d}", f"metered{party:d}")
        make = _channel_class()
        self._channels = [
            None if peer == rank else make(exchange, self, peer) for peer in RANKS
        ]
        self._context = native.link.create_with_channels(
            desc, int(rank), self._channels
        )

    def spawn(self) -> Any:
        """A sub-link for a runtime."""
        return self._context.spawn()

    def traffic(self) -> Traffic:
        """The counts since the link was opened."""
        p0, p1, p2 = self.sent
        return Traffic((p0, p1, p2), self.messages, self.clock)

    def restart_clock(self) -> None:
        """Begin to count rounds anew."""
        self.clock = 0


def _channel_class() -> Callable[..., Any]:
    """The class is made late, since it inherits from SPU's."""
    native = libspu()

    class MeteredChannel(native.link.IChannel):  # type: ignore[misc, name-defined]
        """What SPU calls to send and receive. SPU gives the methods their names."""

        def __init__(self, exchange: Exchange, link: MeteredLink, peer: Rank) -> None:
            super().__init__()
            self._exchange = exchange
            self._link = link
            self._peer = peer

        def Send(self, key: str, data: Any) -> None:  # noqa: N802
            payload = bytes(data)
            link = self._link
            link.sent[self._peer] += len(payload)
            link.messages += 1
            self._exchange.put(link.rank, self._peer, key, link.clock + 1, payload)

        SendAsync = Send
        SendAsyncThrottled = Send

        def Recv(self, key: str) -> bytes:  # noqa: N802
            clock, data = self._exchange.take(self._peer, self._link.rank, key)
            self._link.clock = max(self._link.clock, clock)
            return data

        def GetRecvTimeout(self) -> int:  # noqa: N802
            return 0

        def _nothing(self, *_: Any) -> None:
            """Connections, windows and shutdown have no meaning in memory."""

        SetRecvTimeout = _nothing
        WaitLinkTaskFinish = _nothing
        Abort = _nothing
        SetThrottleWindowSize = _nothing
        TestSend = _nothing
        TestRecv = _nothing
        SetChunkParallelSendSize = _nothing

    return MeteredChannel


def metered_links(
    *, timeout: float = 60.0
) -> tuple[MeteredLink, MeteredLink, MeteredLink]:
    """Three connected links for three threads."""
    exchange = Exchange(timeout)
    p0, p1, p2 = (MeteredLink(exchange, rank) for rank in RANKS)
    return p0, p1, p2
