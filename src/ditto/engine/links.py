"""One party's links to the two others: a mailbox, and an ear for who is alive.

A thread for each peer takes every message off the native link and puts it into the
mailbox under its key; protocols and SPU alike wait there. A native wait cannot be
broken off, a wait at the mailbox ends as soon as the session is known to be over.

Small beats tell one silence from another. When a peer dies, the party that waits for
it hears nothing, and so does the party that waits for that one. Beats come from a
thread of their own at a fixed pace and say whom their sender is waiting for, or, once
it has given up, whom it blames. So a wait ends with the right name:

- a peer that has given up said whom it blames: believe it;
- a peer that has been silent for eight beats is gone;
- if both beat but a wait has lasted most of the timeout, follow who waits for whom
  to the one that waits for nobody: that one has stalled.

A beat is three bytes of public state; no secret and no share is in it.
"""

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ditto.engine.config import LinkConfig
from ditto.engine.connection import connect
from ditto.errors import PeerError, PeerLostError, PeerStalledError
from ditto.protocols import Channel
from ditto.protocols.channel import Buffer, peers_of
from ditto.sharing import Rank

_KEY_LENGTH = struct.Struct("<H")
_BEAT = struct.Struct("<BBB")  # kind, rank it is about, whether that one is gone
_ALIVE, _GAVE_UP, _LEAVING = 0, 1, 2
_NOBODY = 255

BEATS = 20
"""Beats in one timeout."""
SILENT_BEATS = 8
"""Beats missed after which a peer is gone."""
STALLED_AFTER = 0.8
"""The part of the timeout after which a wait for a living peer ends."""


_GONE = (
    "{name} is gone: no sign of life within the timeout of {timeout}. Check its "
    "process and its host, then start the session anew on all three parties."
)
_STALLED = (
    "{name} is alive but did not send what was due within the timeout of {timeout}. It "
    "may be overloaded, stopped by an error of its own, or run another plan; its log "
    "says which."
)
_GAVE_UP_ON_US = (
    "{name} has ended the session: it waited for this party longer than the timeout of "
    "{timeout}. This party was too slow or stood still."
)


class Links:
    """One party's open links to the two others."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        self._peers = peers_of(config.rank)
        self._context = connect(config)
        _keep_alive(self._context)
        self._link = self._context.spawn()
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._mail: dict[tuple[Rank, bytes], memoryview] = {}
        now = time.monotonic()
        self._heard = dict.fromkeys(self._peers, now)
        self._said = dict.fromkeys(self._peers, (_ALIVE, _NOBODY, 0))
        self._waiting = _NOBODY
        self._verdict: PeerError | None = None
        self._blames = (_ALIVE, _NOBODY, 0)
        self._leaving = False
        self._threads = [self._start(self._beat)]
        self._threads += [self._start(partial(self._listen, p)) for p in self._peers]

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """Send the parts as one message; never blocks on the receiver."""
        message = b"".join([_KEY_LENGTH.pack(len(key)), key, *parts])
        with self._sending:
            self._link.send_async(int(to), message)

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """The message of this key; raises PeerError within the timeout."""
        slot, started = (source, key), time.monotonic()
        with self._changed:
            self._waiting = int(source)
            try:
                while slot not in self._mail:
                    self._give_up_if_over(source, started)
                    self._changed.wait(self.config.timeout / BEATS)
                return self._mail.pop(slot)
            finally:
                self._waiting = _NOBODY

    def channel(self) -> "LinkChannel":
        """A protocol channel."""
        return LinkChannel(self)

    def native(self) -> Any:
        """A bare SPU link without the mailbox, to measure SPU alone: a wait on it
        cannot be broken off."""
        return self._context.spawn()

    def close(self) -> None:
        """Wait until the peers have everything that was sent, then let go."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()
        deadline = time.monotonic() + self.config.timeout
        self._threads[0].join(self.config.timeout)
        if self._verdict is not None:
            return  # nobody is left who could take it
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        flush = threading.Thread(target=self._context.stop_link, daemon=True)
        flush.start()
        flush.join(max(0.0, deadline - time.monotonic()))
        if not flush.is_alive():
            _let_go(self._context)

    def _give_up_if_over(self, source: Rank, started: float) -> None:
        if self._verdict is None:
            self._judge(source, started)
        if self._verdict is not None:
            raise self._verdict

    def _judge(self, source: Rank, started: float) -> None:
        for peer, (kind, about, gone) in self._said.items():
            if kind == _GAVE_UP and about == self.config.rank:
                return self._blame(peer, gone=False, because=_GAVE_UP_ON_US)
            if kind == _GAVE_UP:
                return self._blame(Rank(about), gone=bool(gone))
        now, timeout = time.monotonic(), self.config.timeout
        lost = min(self._peers, key=lambda peer: self._heard[peer])
        if now - self._heard[lost] > SILENT_BEATS * timeout / BEATS:
            return self._blame(lost, gone=True)
        if now - started > STALLED_AFTER * timeout:
            _, waits_for, _ = self._said[source]
            innocent = waits_for in (_NOBODY, int(self.config.rank))
            return self._blame(source if innocent else Rank(waits_for), gone=False)
        return None

    def _blame(self, culprit: Rank, *, gone: bool, because: str = "") -> None:
        name = self.config.names[culprit]
        kind = PeerLostError if gone else PeerStalledError
        text = because or (_GONE if gone else _STALLED)
        timeout = f"{self.config.timeout:g} s"
        self._verdict = kind(text.format(name=name, timeout=timeout), peer=name)
        self._blames = (_GAVE_UP, int(culprit), int(gone))
        self._changed.notify_all()

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name="ditto-links", daemon=True)
        thread.start()
        return thread

    def _beat(self) -> None:
        pace = self.config.timeout / BEATS
        last = False
        while not last:
            with self._changed:
                if not self._leaving:
                    self._changed.wait_for(lambda: self._leaving, pace)
                last = self._leaving
                now = time.monotonic()
                living = [p for p in self._peers if now - self._heard[p] < 4 * pace]
                blames, waiting = self._blames, self._waiting
            if blames[0] == _GAVE_UP:
                beat = _BEAT.pack(*blames)
            else:
                beat = _BEAT.pack(_LEAVING if last else _ALIVE, waiting, 0)
            for peer in living:  # a send to the dead is retried for ever: send few
                self.post(peer, b"", [beat])

    def _listen(self, peer: Rank) -> None:
        while True:
            try:
                message = memoryview(self._link.recv(int(peer)))
            except RuntimeError:
                return  # silence for the whole timeout
            (length,) = _KEY_LENGTH.unpack_from(message)
            start = _KEY_LENGTH.size + length
            key, body = bytes(message[_KEY_LENGTH.size : start]), message[start:]
            with self._changed:
                self._heard[peer] = time.monotonic()
                if key:
                    self._mail[peer, key] = body
                elif len(body) == _BEAT.size:
                    self._said[peer] = _BEAT.unpack(body)
                self._changed.notify_all()
                if self._said[peer][0] == _LEAVING:
                    return


class LinkChannel(Channel):
    """A protocol channel over the mailbox."""

    def __init__(self, links: Links) -> None:
        super().__init__(links.config.rank, links.config.names)
        self._links = links
        self._posted = [0, 0, 0]
        self._fetched = [0, 0, 0]

    def _send(self, to: Rank, parts: Sequence[Buffer]) -> None:
        self._posted[to] += 1
        self._links.post(to, b"p%d" % self._posted[to], parts)

    def _receive(self, source: Rank) -> memoryview:
        self._fetched[source] += 1
        return self._links.fetch(source, b"p%d" % self._fetched[source])


def _keep_alive(context: Any) -> None:
    """Bar the destructor of a link that is not closed in good order.

    It joins threads that still try to reach a peer, so with a dead peer it would hang
    whichever thread happens to drop the last reference, or the interpreter's exit.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))


def _let_go(context: Any) -> None:
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(context))
