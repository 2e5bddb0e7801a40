"""The lanes of a trio: over one set of links, which re-form by themselves.

When the links are up, the parties greet each other and compare what must be the same.
Then each lane serves runs in a thread of its own, so that one run computes while
another waits for messages. A run that fails ends the links and all lanes, whoever waits
is told whom it was lost to, and the lanes begin again with new keys.
"""

import contextlib
import queue
import random
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from ditto.errors import DittoError, TrioMismatchError
from ditto.party.server.lane import (
    CommonState,
    Lane,
    LaneEvents,
    LaneSetup,
    as_ours,
    fetch,
    lost_run,
    post,
)
from ditto.protocols.channel import peers_of
from ditto.runtime import Session
from ditto.sharing import Rank

_AGAIN = 0.5
"""Seconds, about, before the links are tried again."""


_COMPARED = {
    "agreement": "agreement",
    "version": "version",
    "proofs": "version of the proofs, so another build of Ditto",
    "trio": "trio",
}
"""In this order, and how each is called."""


class Greeting(BaseModel):
    """What the three parties of a trio must agree on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agreement: str = Field(max_length=128)
    version: str = Field(max_length=64)
    proofs: int | None = None
    """The version of their proofs (``ditto.audit``); None of builds that tell none."""
    trio: int
    boot: str = Field(max_length=64)


class LinkEvents(LaneEvents, Protocol):
    """What the lanes tell the party that they belong to."""

    def on_up(self) -> None:
        """The links are up and the greetings agree."""

    def on_down(self, error: DittoError) -> None:
        """The links are down, because of this."""


class Lanes:
    """One party's end of the lanes of its trio."""

    def __init__(
        self,
        setup: LaneSetup,
        greeting: Greeting,
        open_sessions: Callable[[], Sequence[Session]],
        events: LinkEvents,
    ) -> None:
        self._setup, self._greeting, self._events = setup, greeting, events
        self._open_sessions = open_sessions
        self._shared = CommonState()
        self._up = False
        self._thread = threading.Thread(
            target=self._work, name="ditto-lanes", daemon=True
        )

    def start(self) -> None:
        """Connect, and serve runs from now on."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Leave after the runs that are being executed."""
        self._shared.stopping.set()
        self._setup.queue.wake()
        if self._up:  # else it looks for peers, and there is nothing to finish
            self._thread.join(patience)

    def drop(self, request_id: str) -> None:
        """Whoever asked for a run is gone; the others will be told."""
        if self._setup.rank == Rank.P0:
            self._shared.drop(request_id)

    def _work(self) -> None:
        while not self._shared.stopping.is_set():
            sessions: Sequence[Session] = ()
            try:
                sessions = self._open_sessions()
                self._greet(sessions[0])
                self._up = True
                self._events.on_up()
                self._serve(sessions)
            except Exception as error:
                self._fall(sessions, error)
            finally:
                for session in sessions:
                    with contextlib.suppress(Exception):
                        session.close()
            self._shared.stopping.wait(random.uniform(0.2, 2 * _AGAIN))  # noqa: S311

    def _serve(self, sessions: Sequence[Session]) -> None:
        """Until the party stops or a lane fails, which ends them all."""
        ends: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

        def work(lane: Lane) -> None:
            try:
                lane.work()
                ends.put(None)
            except Exception as error:
                ends.put(error)

        threads = []
        for session in sessions:
            lane = Lane(self._setup, self._shared, self._events, session)
            threads.append(
                threading.Thread(
                    target=work, args=(lane,), name="ditto-lane", daemon=True
                )
            )
        for thread in threads:
            thread.start()
        for _ in threads:
            error = ends.get()
            if error is not None:
                self._fall(sessions, error)  # at once: the others may compute for long
                break
        for thread in threads:
            thread.join()

    def _fall(self, sessions: Sequence[Session], error: Exception) -> None:
        """The links are over: tell the peers, and all who wait here."""
        self._up = False
        self._shared.forget()
        for session in sessions:
            with contextlib.suppress(Exception):
                session.abort()
        known = as_ours(error)
        self._events.on_down(known)
        self._setup.queue.fail_all(lost_run(self._setup, known))

    def _greet(self, session: Session) -> None:
        mine = self._greeting
        for peer in peers_of(self._setup.rank):
            post(session, peer, b"greeting", mine)
        for peer in peers_of(self._setup.rank):
            theirs = fetch(session, peer, b"greeting", Greeting)
            name = self._setup.names[peer]
            for what, called in _COMPARED.items():
                got, due = getattr(theirs, what), getattr(mine, what)
                if got != due:
                    raise TrioMismatchError(
                        f"{name} was started with another {called}: {str(got)[:16]} "
                        f"there, {str(due)[:16]} here. Give all three parties of a "
                        f"trio the same."
                    )
