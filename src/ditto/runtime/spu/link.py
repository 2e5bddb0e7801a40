"""The link that SPU's runtimes talk over, with Python underneath.

SPU's wheel lets Python carry a link's messages. Ours go through the same mailbox as
the protocols' own, so a dead peer ends a wait inside SPU just as promptly and under
the same name; and every message carries a logical clock as in ``protocols.channel``,
so the bytes and true rounds of SPU's operations are counted exactly, not read off its
logs.
"""

import struct
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ditto.errors import DittoError, MessageError, PeerLostError, PeerStalledError
from ditto.protocols import Traffic
from ditto.protocols.channel import Buffer
from ditto.runtime.spu.library import NativeLink, libspu
from ditto.sharing import RANKS, Rank

_CLOCK = struct.Struct("<I")


class Mailbox(Protocol):
    """Carries keyed messages between this party and its peers."""

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """Send the parts as one message."""

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """Wait for the message of this key."""


class Wires:
    """What three memory mailboxes share."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.changed = threading.Condition()
        self.mail: dict[tuple[Rank, Rank, bytes], bytes] = {}
        self.left: set[Rank] = set()


class MemoryMailbox:
    """The mailbox of one of three threads."""

    def __init__(self, rank: Rank, wires: Wires, timeout: float) -> None:
        self._rank = rank
        self._wires = wires
        self._timeout = timeout

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """See Mailbox."""
        with self._wires.changed:
            self._wires.mail[self._rank, to, key] = b"".join(parts)
            self._wires.changed.notify_all()

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """See Mailbox."""
        slot, wires = (source, self._rank, key), self._wires
        name = wires.names[source]
        with wires.changed:
            wires.changed.wait_for(
                lambda: slot in wires.mail or source in wires.left, self._timeout
            )
            if slot in wires.mail:
                return memoryview(wires.mail.pop(slot))
            if source in wires.left:
                raise PeerLostError(f"{name} has left the computation.", peer=name)
        raise PeerStalledError(
            f"{name} sent nothing for {self._timeout:g} s.", peer=name
        )

    def close(self) -> None:
        """Tell the peers that nothing more will come."""
        with self._wires.changed:
            self._wires.left.add(self._rank)
            self._wires.changed.notify_all()


class SpuLink:
    """One party's SPU link over a mailbox, with its counts."""

    def __init__(self, mailbox: Mailbox, rank: Rank) -> None:
        self.rank = rank
        self.failure: DittoError | None = None
        self._mailbox = mailbox
        self._sent = [0, 0, 0]
        self._messages = 0
        self._clock = 0
        native = libspu()
        desc = native.link.Desc()
        desc.id = "spu"
        for party in RANKS:
            desc.add_party(f"P{party:d}", f"mailbox{party:d}")
        make = _channel_class()
        self._channels = [None if p == rank else make(self, p) for p in RANKS]
        self._context = native.link.create_with_channels(
            desc, int(rank), self._channels
        )

    def spawn(self) -> NativeLink:
        """A sub-link for a runtime; all parties spawn alike."""
        link: NativeLink = self._context.spawn()
        return link

    def traffic(self) -> Traffic:
        """The counts since the link was opened."""
        p0, p1, p2 = self._sent
        return Traffic((p0, p1, p2), self._messages, self._clock)

    def restart_clock(self) -> None:
        """Begin to count rounds anew, at a moment when no message is under way."""
        self._clock = 0

    def close(self) -> None:
        """Let the native link go: it and this one hold each other."""
        self._context, self._channels = None, []

    def send(self, to: Rank, key: str, payload: bytes) -> None:
        """What SPU sends."""
        self._sent[to] += len(payload)
        self._messages += 1
        clock = _CLOCK.pack((self._clock + 1) & 0xFFFFFFFF)
        self._mailbox.post(to, key.encode(), [clock, payload])

    def receive(self, source: Rank, key: str) -> npt.NDArray[np.uint8]:
        """What SPU waits for."""
        try:
            message = self._mailbox.fetch(source, key.encode())
        except DittoError as error:
            self.failure = error  # SPU wraps what passes through it
            raise
        if len(message) < _CLOCK.size:
            self.failure = MessageError(
                f"P{source:d} sent SPU a message without a clock."
            )
            raise self.failure
        (clock,) = _CLOCK.unpack_from(message)
        self._clock = max(self._clock, clock)
        return np.frombuffer(message, np.uint8, offset=_CLOCK.size)


@lru_cache(maxsize=1)
def _channel_class() -> Callable[[SpuLink, Rank], object]:
    """The class is made late, since it inherits from SPU's."""
    native = libspu()

    class MailboxChannel(native.link.IChannel):  # type: ignore[misc, name-defined]
        """What SPU calls to send and receive. SPU gives the methods their names."""

        def __init__(self, link: SpuLink, peer: Rank) -> None:
            super().__init__()
            self._link = link
            self._peer = peer

        def Send(self, key: str, data: Buffer) -> None:  # noqa: N802
            self._link.send(self._peer, key, bytes(data))

        SendAsync = Send
        SendAsyncThrottled = Send

        def Recv(self, key: str) -> npt.NDArray[np.uint8]:  # noqa: N802
            return self._link.receive(self._peer, key)

        def GetRecvTimeout(self) -> int:  # noqa: N802
            return 0

        def _nothing(self, *_: object) -> None:
            """Connections, windows and shutdown are the mailbox's business."""

        SetRecvTimeout = _nothing
        WaitLinkTaskFinish = _nothing
        Abort = _nothing
        SetThrottleWindowSize = _nothing
        TestSend = _nothing
        TestRecv = _nothing
        SetChunkParallelSendSize = _nothing

    return MailboxChannel
