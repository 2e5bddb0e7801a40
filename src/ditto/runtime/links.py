"""One party's links to the two others: a mailbox, and an ear for who is alive.

A thread for each peer takes every message off its connection and puts it into the
mailbox under its key; protocols and SPU alike wait there, and a wait ends as soon as
the session is known to be over. Another thread for each peer sends what is posted, so
that computing goes on meanwhile.

Heartbeats tell one silence from another. When a peer dies, the party that waits for it
hears nothing, and so does the party that waits for that one. Heartbeats go over a
connection of their own, so that a large message does not hold them up, at a fixed
pace, and say whom their sender is waiting for or, once it has given up, whom it
blames. So a wait ends with a name:

- a peer that has given up says so at once, and whom it blames: believe it;
- a peer whose connection ended without a goodbye is gone, and so is one that has been
  silent for eight heartbeats;
- if both are heard but a wait has lasted most of the timeout, follow who waits for whom
  to the one that waits for nobody: that one has stalled.

A heartbeat is three bytes of public state; no secret and no share is in it.
"""

import contextlib
import math
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ditto.errors import PeerError, PeerLostError, PeerStalledError
from ditto.protocols import Channel
from ditto.protocols.channel import Buffer, peers_of
from ditto.runtime.config import LinkConfig
from ditto.runtime.connection import Connection, connect
from ditto.sharing import RANKS, Rank

_HEADER = struct.Struct("<HQ")  # length of the key, length of the body
_HEARTBEAT = struct.Struct("<BBB")  # kind, rank it is about, whether that one is gone
_ALIVE, _GAVE_UP, _LEAVING = 0, 1, 2
_NOBODY = 255
_RANKS = tuple(int(rank) for rank in RANKS)
_VALID = {(kind, who) for kind in (_ALIVE, _LEAVING) for who in (*_RANKS, _NOBODY)}
_VALID |= {(_GAVE_UP, who) for who in _RANKS}
_GOODBYE = b""

HEARTBEATS = 20
"""Heartbeats in one timeout."""
SILENT_HEARTBEATS = 8
"""Heartbeats missed after which a peer is gone."""
STALLED_AFTER = 0.8
"""The part of the timeout after which a wait for a living peer ends."""
_SHORT = 1 << 14
"""Bytes: one record of TLS, and far less than the system keeps for a socket."""
MAILBOX_BYTES = 16 << 30
"""What may lie unread before a peer is held to be out of its mind."""

Fault = tuple[str, Rank, bool]
"""What went wrong, as a text; at which party; and whether that one is gone."""

_GONE = (
    "{name} is gone: its connection broke off or was silent for {silence}. Check its "
    "process and its host, then start the session anew on all three parties."
)
_STALLED = (
    "{name} is alive but has not sent what was due for {patience}. It may be "
    "overloaded, stopped by an error of its own, or run another plan; its log says "
    "which. If single messages take longer than that, raise the timeout ({timeout})."
)
_GAVE_UP_ON_US = (
    "{name} has ended the session: it waited for this party for {patience} in vain. "
    "This party was too slow or stood still."
)
_FAILED = "{name} has ended the session after an error of its own; its log says which."
_LEFT = "{name} has left the session in good order, yet its message was awaited."


class _Outbox:
    """What is to be sent to a peer, and the thread that sends it.

    A short message that the system takes at once is sent by whoever puts it: to wake a
    thread takes longer.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._due: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._over = self._sending = False
        self._thread = _start(self._work)

    def put(self, message: bytes) -> None:
        """Have it sent after all that was put before."""
        with self._changed:
            idle = not (self._due or self._sending or self._over)
            if idle and len(message) <= _SHORT and self._connection.takes_more():
                with contextlib.suppress(OSError):  # found out by who waits
                    self._connection.send(message)
                return
            self._due.append(message)
            self._changed.notify()

    def finish(self, patience: float) -> None:
        """Send what is left and wait until it is read."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join(patience)

    def _work(self) -> None:
        with contextlib.closing(self._connection), contextlib.suppress(OSError):
            while True:  # until the peer is gone, which is found out by who waits
                with self._changed:
                    self._sending = False
                    self._changed.wait_for(lambda: self._due or self._over)
                    if not self._due:
                        break
                    message = self._due.popleft()
                    self._sending = True
                self._connection.send(message)
            self._connection.finish()


class Links:
    """One party's open links to the two others."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        self._peers = peers_of(config.rank)
        self._connections = connect(config)
        lock = threading.Lock()
        self._changed = threading.Condition(lock)  # for who sends heartbeats
        self._arrived = threading.Condition(lock)  # for who waits for mail
        self._mail: dict[tuple[Rank, bytes], memoryview] = {}
        self._unread = 0
        now = time.monotonic()
        self._last_heard = dict.fromkeys(self._peers, now)
        self._reports = dict.fromkeys(self._peers, (_ALIVE, _NOBODY, 0))
        self._cut_off: dict[Rank, float] = {}
        self._all_read: set[Rank] = set()
        self._waits: list[tuple[float, Rank]] = []
        """Since when threads wait, and for whom; the longest wait comes first."""
        self._fault: Fault | None = None
        self._closed = self._urgent = False
        self._outboxes = {
            peer: _Outbox(both.mail_to) for peer, both in self._connections.items()
        }
        for peer in self._peers:
            _start(partial(self._receive_mail, peer))
            _start(partial(self._receive_heartbeats, peer))
        self._heartbeat_thread = _start(self._send_heartbeats)

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """Send the parts as one message; never blocks on the receiver."""
        header = _HEADER.pack(len(key), sum(memoryview(part).nbytes for part in parts))
        self._outboxes[to].put(b"".join([header, key, *parts]))

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """The message of this key; raises PeerError within the timeout, and at once
        when this party has given up, whatever has arrived by then."""
        slot, started = (source, key), time.monotonic()
        with self._arrived:
            self._waits.append((started, source))
            try:
                while self._fault is not None or slot not in self._mail:
                    self._give_up_if_over(source, started)
                    self._arrived.wait(self.config.timeout / HEARTBEATS)
                body = self._mail.pop(slot)
                self._unread -= len(body)
                return body
            finally:
                self._waits.remove((started, source))

    def compartment(self, name: str) -> "Compartment":
        """Mail with keys of its own."""
        return Compartment(self, name)

    def abort(self) -> None:
        """Tell the peers at once that this party has failed and the session is over."""
        with self._changed:
            if self._fault is None and not self._closed:
                self._fault = (_FAILED, self.config.rank, False)
                self._urgent = True
                self._changed.notify_all()
                self._arrived.notify_all()

    def close(self) -> None:
        """Leave; the peers get everything that was sent."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            self._arrived.notify_all()
        failed = self._fault is not None or self._reported_fault() is not None
        patience = 0.0 if failed else self.config.timeout  # nobody waits for the rest
        deadline = time.monotonic() + patience
        self._heartbeat_thread.join(self.config.timeout)
        for peer, outbox in self._outboxes.items():
            outbox.finish(max(0.0, deadline - time.monotonic()))
            self._connections[peer].end()

    def _give_up_if_over(self, source: Rank, started: float) -> None:
        if self._fault is None:
            self._fault = self._diagnose(source, started)
            if self._fault is None:
                return
            self._urgent = True
            self._changed.notify_all()
        raise self._error_of(*self._fault)

    def _diagnose(self, source: Rank, started: float) -> Fault | None:
        reported = self._reported_fault()
        if reported is not None:
            return reported
        if source in self._all_read:
            return _LEFT, source, True
        now, timeout = time.monotonic(), self.config.timeout
        for peer in self._peers:
            if now > self._cut_off.get(peer, math.inf):
                return _GONE, peer, True
            silence = now - self._last_heard[peer]
            silent = silence > SILENT_HEARTBEATS * timeout / HEARTBEATS
            if silent and self._reports[peer][0] != _LEAVING:
                return _GONE, peer, True
        if now - started > STALLED_AFTER * timeout:
            waits_for = self._reports[source][1]
            innocent = waits_for in (_NOBODY, int(self.config.rank))
            return _STALLED, source if innocent else Rank(waits_for), False
        return None

    def _reported_fault(self) -> Fault | None:
        """What a peer that has given up says of it."""
        for peer, (kind, about, gone) in self._reports.items():
            if kind == _GAVE_UP and about == self.config.rank:
                return _GAVE_UP_ON_US, peer, False
            if kind == _GAVE_UP and about == peer:
                return _FAILED, peer, False
            if kind == _GAVE_UP:
                return (_GONE if gone else _STALLED), Rank(about), bool(gone)
        return None

    def _error_of(self, text: str, culprit: Rank, gone: bool) -> PeerError:
        name, timeout = self.config.names[culprit], self.config.timeout
        kind = PeerLostError if gone else PeerStalledError
        message = text.format(
            name=name,
            silence=f"{SILENT_HEARTBEATS * timeout / HEARTBEATS:g} s",
            patience=f"{STALLED_AFTER * timeout:g} s",
            timeout=f"{timeout:g} s",
        )
        return kind(message, peer=name)

    def _state(self) -> bytes:
        if self._fault is None:
            kind = _LEAVING if self._closed else _ALIVE
            waits_for = int(self._waits[0][1]) if self._waits else _NOBODY
            return _HEARTBEAT.pack(kind, waits_for, 0)
        text, culprit, gone = self._fault
        if text == _GAVE_UP_ON_US:
            culprit = self.config.rank
        return _HEARTBEAT.pack(_GAVE_UP, culprit, gone)

    def _send_heartbeats(self) -> None:
        pace = self.config.timeout / HEARTBEATS
        last = False
        while not last:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._urgent, pace)
                self._urgent = False
                last, heartbeat = self._closed, self._state()
            for peer in self._peers:
                with contextlib.suppress(OSError):  # gone, which its own silence tells
                    self._connections[peer].heartbeats_to.send(heartbeat)
        for peer in self._peers:
            self.post(peer, _GOODBYE, [])
            self._connections[peer].heartbeats_to.close()

    def _receive_heartbeats(self, peer: Rank) -> None:
        with contextlib.closing(self._connections[peer].heartbeats_from) as connection:
            while self._reports[peer][0] == _ALIVE:
                try:
                    report = _HEARTBEAT.unpack(connection.read(_HEARTBEAT.size))
                except OSError:
                    report = None
                with self._arrived:
                    self._arrived.notify_all()
                    if report is None:
                        self._note_cut_off(peer, patience=0.0)
                        return
                    self._last_heard[peer] = time.monotonic()
                    if report[:2] in _VALID:
                        self._reports[peer] = report

    def _note_cut_off(self, peer: Rank, *, patience: float) -> None:
        """Say that a peer is gone, unless it tells another story meanwhile."""
        if not self._closed:
            moment = time.monotonic() + patience
            self._cut_off[peer] = min(moment, self._cut_off.get(peer, math.inf))

    def _receive_mail(self, peer: Rank) -> None:
        with contextlib.closing(self._connections[peer].mail_from) as connection:
            while True:
                try:
                    length, size = _HEADER.unpack(connection.read(_HEADER.size))
                    key = bytes(connection.read(length))
                    if self._unread + size > MAILBOX_BYTES:
                        return  # flooded: let the wait for it run out
                    body = connection.read(size)
                except OSError:
                    pace = self.config.timeout / HEARTBEATS
                    with (
                        self._arrived
                    ):  # its last heartbeats may be late: they tell why
                        self._note_cut_off(peer, patience=pace)
                    return
                with self._arrived:
                    self._arrived.notify_all()
                    if key == _GOODBYE:
                        self._all_read.add(peer)
                        return
                    self._unread += size
                    self._mail[peer, key] = body
                    self._last_heard[peer] = time.monotonic()


class Compartment:
    """A mailbox of its own in the mail of some links: what is posted under a key in one
    compartment is fetched under that key in the compartment of the same name."""

    def __init__(self, links: Links, name: str) -> None:
        self._links = links
        self._prefix = name.encode() + b"/"

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """See Mailbox."""
        self._links.post(to, self._prefix + key, parts)

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """See Mailbox."""
        return self._links.fetch(source, self._prefix + key)

    def channel(self) -> "LinkChannel":
        """A protocol channel over it."""
        return LinkChannel(self._links.config, self)


class LinkChannel(Channel):
    """A protocol channel over a compartment."""

    def __init__(self, config: LinkConfig, mail: Compartment) -> None:
        super().__init__(config.rank, config.names)
        self._mail = mail
        self._posted = [0, 0, 0]
        self._fetched = [0, 0, 0]

    def _send(self, to: Rank, parts: Sequence[Buffer]) -> None:
        self._posted[to] += 1
        self._mail.post(to, b"p%d" % self._posted[to], parts)

    def _receive(self, source: Rank) -> memoryview:
        self._fetched[source] += 1
        return self._mail.fetch(source, b"p%d" % self._fetched[source])


def _start(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, name="ditto-links", daemon=True)
    thread.start()
    return thread
