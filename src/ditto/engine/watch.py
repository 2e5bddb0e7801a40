"""Who is alive: small beats between the parties, on a sub-link of their own.

When a peer dies, the party that waits for it sees only silence, and so does the party
that waits for that one. Beats tell silence from silence: they come from a thread of
their own at a fixed pace, say whom their sender is waiting for, and carry its verdict
when it has given up. From them ``diagnose`` finds the party at the root of a wait that
took too long:

- a peer that has given up said whom it blames: believe it;
- a peer whose beats have stopped is gone;
- if both beat, follow who waits for whom to the one that waits for nobody.

A beat is three bytes of public state; no secret and no share is in it.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ditto.errors import PeerError, PeerLostError, PeerStalledError
from ditto.protocols.channel import peers_of
from ditto.sharing import Rank

_BEAT = struct.Struct("<BBB")  # kind, rank it is about, whether that one is gone
_ALIVE, _GAVE_UP, _LEAVING = 0, 1, 2
_NOBODY = 255

BEATS_PER_TIMEOUT = 20
SILENT_BEATS = 4


class Watch:
    """One party's ears: knows which peers beat and what they last said."""

    def __init__(
        self, link: Any, rank: Rank, names: tuple[str, str, str], timeout: float
    ) -> None:
        self._link = link
        self._rank = rank
        self._names = names
        self._timeout = timeout
        self._pace = timeout / BEATS_PER_TIMEOUT
        self._lock = threading.Condition()
        self._waiting = _NOBODY
        self._verdict: tuple[int, bool] | None = None
        self._leaving = False
        self._heard = dict.fromkeys(peers_of(rank), time.monotonic())
        self._said = dict.fromkeys(peers_of(rank), (_ALIVE, _NOBODY, 0))
        self._threads = [self._start(self._beat)]
        for peer in peers_of(rank):
            self._threads.append(self._start(partial(self._listen, peer)))

    @contextmanager
    def waiting_for(self, peer: Rank) -> Iterator[None]:
        """Tell the peers, while inside, whom this party waits for."""
        self._waiting = int(peer)
        try:
            yield
        finally:
            self._waiting = _NOBODY

    def diagnose(self, suspect: Rank) -> PeerError:
        """The error to raise after waiting in vain for ``suspect``."""
        asked = time.monotonic()
        settled = asked + SILENT_BEATS * self._pace
        with self._lock:
            while time.monotonic() < settled and not self._blamed():
                if all(self._heard[p] > asked for p in self._heard):
                    break
                self._lock.wait(self._pace / 4)
            culprit, gone = self._culprit(suspect, asked)
            self._verdict = (int(culprit), gone)
            self._lock.notify_all()
        name = self._names[culprit]
        if gone:
            return PeerLostError(
                f"{name} is gone: no sign of life within the timeout of "
                f"{self._timeout:g} s. Check its process and its host, then start "
                f"the session anew on all three parties.",
                peer=name,
            )
        return PeerStalledError(
            f"{name} is alive but did not send what was due within the timeout of "
            f"{self._timeout:g} s. It may be overloaded or run another plan; "
            f"a larger timeout helps in the first case.",
            peer=name,
        )

    @property
    def gave_up(self) -> bool:
        """Whether this party has blamed a peer."""
        return self._verdict is not None

    def close(self) -> None:
        """Say goodbye and stop; returns within the timeout."""
        with self._lock:
            self._leaving = True
            self._lock.notify_all()
        deadline = time.monotonic() + self._timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _blamed(self) -> bool:
        return any(kind == _GAVE_UP for kind, *_ in self._said.values())

    def _culprit(self, suspect: Rank, asked: float) -> tuple[Rank, bool]:
        for kind, about, gone in self._said.values():
            if kind == _GAVE_UP and about != self._rank:
                return Rank(about), bool(gone)
        silent = [p for p, heard in self._heard.items() if heard <= asked]
        if silent:
            return min(silent, key=lambda p: self._heard[p]), True
        _, waits_for, _ = self._said[suspect]
        if waits_for not in (_NOBODY, int(self._rank)):
            return Rank(waits_for), False
        return suspect, False

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name="ditto-watch", daemon=True)
        thread.start()
        return thread

    def _beat(self) -> None:
        said = False
        while not said:
            with self._lock:
                if not self._leaving and self._verdict is None:
                    self._lock.wait(self._pace)
                verdict, said = self._verdict, self._leaving
                now = time.monotonic()
                living = [
                    peer
                    for peer, heard in self._heard.items()
                    if now - heard < SILENT_BEATS * self._pace
                ]
            if said:
                beat = _BEAT.pack(_LEAVING, _NOBODY, 0)
            elif verdict is not None:
                beat = _BEAT.pack(_GAVE_UP, *verdict)
            else:
                beat = _BEAT.pack(_ALIVE, self._waiting, 0)
            for peer in living:
                self._link.send_async(int(peer), beat)
            if verdict is not None and not said:
                with self._lock:
                    self._lock.wait(self._pace)

    def _listen(self, peer: Rank) -> None:
        while True:
            try:
                beat = self._link.recv(int(peer))
            except RuntimeError:
                return  # silence for half the timeout: the peer is gone
            if len(beat) != _BEAT.size:
                return
            kind, about, gone = _BEAT.unpack(beat)
            with self._lock:
                if kind != _LEAVING:
                    self._heard[peer] = time.monotonic()
                if about in (0, 1, 2, _NOBODY):
                    self._said[peer] = (kind, about, gone)
                self._lock.notify_all()
            if kind == _LEAVING:
                return
