"""One party's links to the two others: a mailbox, and an ear for who is alive.

A thread for each peer takes every message off the native link and puts it into the
mailbox under its key; protocols and SPU alike wait there. A native wait cannot be
broken off, a wait at the mailbox ends as soon as the session is known to be over.

Once the parties have agreed on keys (``seal``), every message is encrypted and
authenticated from party to party with AES-128-GCM, under a key of its direction and a
counter that only goes up. The links' TLS checks that a peer's certificate comes from
the right authority but not whose it is; the seal is what ties a message to the party
that proved its name when the keys were agreed.

Beats tell one silence from another. When a peer dies, the party that waits for it
hears nothing, and so does the party that waits for that one. Beats go over a sub-link
of their own, so that a large message does not hold them up, at a fixed pace, and say
whom their sender is waiting for or, once it has given up, whom it blames. So a wait
ends with a name:

- a peer that has given up said so at once, and whom it blames: believe it;
- a peer that has been silent for eight beats, and did not say goodbye, is gone;
- if both beat but a wait has lasted most of the timeout, follow who waits for whom
  to the one that waits for nobody: that one has stalled.

A beat is three bytes of public state; no secret and no share is in it.
"""

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ditto.engine.config import LinkConfig
from ditto.engine.connection import connect
from ditto.errors import MessageError, PeerError, PeerLostError, PeerStalledError
from ditto.protocols import Channel
from ditto.protocols.channel import Buffer, peers_of
from ditto.sharing import Rank

_HEADER = struct.Struct("<HQ")  # length of the key, number of the message
_NONCE = struct.Struct(">4xQ")
_BEAT = struct.Struct("<BBB")  # kind, rank it is about, whether that one is gone
_ALIVE, _GAVE_UP, _LEAVING = 0, 1, 2
_NOBODY = 255
_GOODBYE = b""
_WIND_UP = 1.0  # seconds for yacl to say its own goodbyes
_LAST_REPLIES = 0.05  # seconds for brpc to send them

BEATS = 20
"""Beats in one timeout."""
SILENT_BEATS = 8
"""Beats missed after which a peer is gone."""
STALLED_AFTER = 0.8
"""The part of the timeout after which a wait for a living peer ends."""
MAILBOX_BYTES = 16 << 30
"""What may lie unread before a peer is held to be out of its mind."""

Blame = tuple[str, Rank, bool]
"""The text of an accusation, whom it names, and whether that one is gone."""

_GONE = (
    "{name} is gone: no sign of life for {silence}. Check its process and its host, "
    "then start the session anew on all three parties."
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


class Links:
    """One party's open links to the two others."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        self._peers = peers_of(config.rank)
        self._context = connect(config)
        _keep_alive(self._context)
        self._link, self._beats = self._context.spawn(), self._context.spawn()
        self._sending = threading.Lock()
        lock = threading.Lock()
        self._changed = threading.Condition(lock)  # for who beats
        self._arrived = threading.Condition(lock)  # for who waits for mail
        self._mail: dict[tuple[Rank, bytes], tuple[int, memoryview]] = {}
        self._unread = 0
        self._sent = dict.fromkeys(self._peers, 0)
        self.opening = 0.0
        """Seconds spent opening sealed messages."""
        self._seals: dict[Rank, tuple[AESGCM, AESGCM]] = {}
        now = time.monotonic()
        self._heard = dict.fromkeys(self._peers, now)
        self._said = dict.fromkeys(self._peers, (_ALIVE, _NOBODY, 0))
        self._waiting = _NOBODY
        self._blames: Blame | None = None
        self._leaving = self._closed = self._urgent = False
        jobs: list[Callable[[], None]] = [self._beat]
        for peer in self._peers:
            jobs += [partial(self._listen, peer), partial(self._hear, peer)]
        self._threads = [_start(job) for job in jobs]

    def seal(self, keys: Mapping[Rank, tuple[bytes, bytes]]) -> None:
        """Encrypt from now on, with a key to send and a key to receive per peer."""
        for peer, (outward, inward) in keys.items():
            self._seals[peer] = AESGCM(outward), AESGCM(inward)

    def post(self, to: Rank, key: bytes, parts: Sequence[Buffer]) -> None:
        """Send the parts as one message; never blocks on the receiver."""
        with self._sending:
            self._sent[to] += 1
            number = self._sent[to]
            if to in self._seals:
                sealed = self._seals[to][0].encrypt(
                    _NONCE.pack(number), b"".join(parts), key
                )
                parts = [sealed]
            header = _HEADER.pack(len(key), number)
            self._link.send_async(int(to), b"".join([header, key, *parts]))

    def fetch(self, source: Rank, key: bytes) -> memoryview:
        """The message of this key; raises PeerError within the timeout."""
        slot, started = (source, key), time.monotonic()
        with self._arrived:
            self._waiting = int(source)
            try:
                while slot not in self._mail:
                    self._give_up_if_over(source, started)
                    self._arrived.wait(self.config.timeout / BEATS)
                number, body = self._mail.pop(slot)
                self._unread -= len(body)
            finally:
                self._waiting = _NOBODY
        if source not in self._seals:
            return body
        started = time.perf_counter()
        try:
            opened = self._seals[source][1].decrypt(_NONCE.pack(number), body, key)
        except InvalidTag:
            raise MessageError(
                f"A message on the link of {self.config.names[source]} was not sealed "
                f"by {self.config.names[source]}: somebody stands between."
            ) from None
        self.opening += time.perf_counter() - started
        return memoryview(opened)

    def channel(self) -> "LinkChannel":
        """A protocol channel."""
        return LinkChannel(self)

    def native(self) -> Any:
        """A bare SPU link without mailbox and seal, to measure SPU by itself."""
        return self._context.spawn()

    def abort(self) -> None:
        """Tell the peers at once that this party has failed and the session is over."""
        with self._changed:
            if self._blames is None and not self._closed:
                self._blames = (_FAILED, self.config.rank, False)
                self._urgent = True
                self._changed.notify_all()
                self._arrived.notify_all()

    def close(self) -> None:
        """Leave when the peers do, or at the latest when the timeout has passed, so
        that they get everything that was sent."""
        with self._changed:
            if self._closed:
                return
            self._closed = self._leaving = True
            self._changed.notify_all()
            self._arrived.notify_all()
        deadline = time.monotonic() + self.config.timeout
        self._threads[0].join(self.config.timeout)
        if self._blames is not None or self._told() is not None:
            return  # the session failed: nobody waits for what is left
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._flush():
            _let_go(self._context)

    def _flush(self) -> bool:
        """Let yacl wind up; whether it did, so that the link may be destroyed.

        Peers that said goodbye have finished and need nothing more of us. One of them
        may be gone before its last reply is out, and then yacl would ask it for ever.
        """
        flushed: list[bool] = []

        def stop() -> None:
            try:
                self._context.stop_link()
            except RuntimeError:
                return
            flushed.append(True)

        _start(stop).join(_WIND_UP)
        time.sleep(_LAST_REPLIES)
        return bool(flushed)

    def _give_up_if_over(self, source: Rank, started: float) -> None:
        if self._blames is None:
            self._blames = self._judge(source, started)
            if self._blames is None:
                return
            self._urgent = True
            self._changed.notify_all()
        raise self._accusation(*self._blames)

    def _judge(self, source: Rank, started: float) -> Blame | None:
        told = self._told()
        if told is not None:
            return told
        if self._said[source][0] == _LEAVING:
            return _LEFT, source, True
        now, timeout = time.monotonic(), self.config.timeout
        staying = [peer for peer in self._peers if self._said[peer][0] != _LEAVING]
        lost = min(staying, key=lambda peer: self._heard[peer])
        if now - self._heard[lost] > SILENT_BEATS * timeout / BEATS:
            return _GONE, lost, True
        if now - started > STALLED_AFTER * timeout:
            waits_for = self._said[source][1]
            innocent = waits_for in (_NOBODY, int(self.config.rank))
            return _STALLED, source if innocent else Rank(waits_for), False
        return None

    def _told(self) -> Blame | None:
        """What a peer that has given up said of it."""
        for peer, (kind, about, gone) in self._said.items():
            if kind == _GAVE_UP and about == self.config.rank:
                return _GAVE_UP_ON_US, peer, False
            if kind == _GAVE_UP and about == peer:
                return _FAILED, peer, False
            if kind == _GAVE_UP:
                return (_GONE if gone else _STALLED), Rank(about), bool(gone)
        return None

    def _accusation(self, text: str, culprit: Rank, gone: bool) -> PeerError:
        name, timeout = self.config.names[culprit], self.config.timeout
        kind = PeerLostError if gone else PeerStalledError
        message = text.format(
            name=name,
            silence=f"{SILENT_BEATS * timeout / BEATS:g} s",
            patience=f"{STALLED_AFTER * timeout:g} s",
            timeout=f"{timeout:g} s",
        )
        return kind(message, peer=name)

    def _state(self) -> bytes:
        if self._blames is None:
            return _BEAT.pack(_LEAVING if self._leaving else _ALIVE, self._waiting, 0)
        text, culprit, gone = self._blames
        if text == _GAVE_UP_ON_US:
            culprit = self.config.rank
        return _BEAT.pack(_GAVE_UP, culprit, gone)

    def _beat(self) -> None:
        pace = self.config.timeout / BEATS
        last = False
        while not last:
            with self._changed:
                self._changed.wait_for(lambda: self._leaving or self._urgent, pace)
                self._urgent = False
                last, beat, now = self._leaving, self._state(), time.monotonic()
                living = [p for p in self._peers if now - self._heard[p] < 4 * pace]
            for peer in living:  # a send to the dead is retried for ever: send few
                if self._said[peer][0] == _LEAVING and not last:
                    continue
                self._beats.send_async(int(peer), beat)
                if last:
                    self.post(peer, _GOODBYE, [])

    def _hear(self, peer: Rank) -> None:
        while True:
            try:
                beat = self._beats.recv(int(peer))
            except RuntimeError:
                return  # silence for the whole timeout
            with self._changed:
                self._heard[peer] = time.monotonic()
                if len(beat) == _BEAT.size and beat[1] in (0, 1, 2, _NOBODY):
                    self._said[peer] = _BEAT.unpack(beat)
                self._arrived.notify_all()
                if self._said[peer][0] != _ALIVE:
                    return

    def _listen(self, peer: Rank) -> None:
        last = 0
        while True:
            try:
                message = memoryview(self._link.recv(int(peer)))
            except RuntimeError:
                return  # neither message nor beat for the whole timeout
            if len(message) < _HEADER.size:
                continue
            length, number = _HEADER.unpack_from(message)
            start = _HEADER.size + length
            key, body = bytes(message[_HEADER.size : start]), message[start:]
            if key == _GOODBYE:
                return
            with self._arrived:
                if number <= last or self._unread + len(body) > MAILBOX_BYTES:
                    return  # replayed, or flooded: let the wait for it run out
                last = number
                self._unread += len(body)
                self._mail[peer, key] = number, body
                self._heard[peer] = time.monotonic()
                self._arrived.notify_all()


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
        before = self._links.opening
        message = self._links.fetch(source, b"p%d" % self._fetched[source])
        spent = self._links.opening - before
        self.copied += spent
        self.waited -= spent
        return message


def _start(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, name="ditto-links", daemon=True)
    thread.start()
    return thread


def _keep_alive(context: Any) -> None:
    """Bar the destructor of a link that is not closed in good order.

    It joins threads that still try to reach a peer, so with a dead peer it would hang
    whichever thread happens to drop the last reference, or the interpreter's exit.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))


def _let_go(context: Any) -> None:
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(context))
