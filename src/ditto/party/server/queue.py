"""Runs that wait at a party, and how each of them ends.

Whoever asked waits at its ticket. Lanes take tickets: at rank 0 in the order in which
they came, at the others by the request id that rank 0 names. A ticket ends once, with a
reply or an error; whoever is late with another end changes nothing.
"""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from ditto.errors import BusyError, DeadlineError, DittoError, RequestError
from ditto.files import Json
from ditto.party.running import Admitted
from ditto.wire import RunReply

REMEMBERED = 200_000
"""Request ids that are known to have been used; older ones are forgotten."""

Clock = Callable[[], float]


class Ticket:
    """A run that waits or is executed; one thread waits for its end."""

    def __init__(self, run: Admitted, deadline: float, clock: Clock) -> None:
        self.run, self.deadline = run, deadline
        self.request_id = run.request.request_id
        self.received = clock()
        self.started: float | None = None
        self.not_before = self.received
        """When rank 0 may name it again, after a peer that had not got it yet."""
        self.sent: dict[str, int] = {}
        """Bytes that the run has sent to each peer, by name."""
        self._clock = clock
        self._events: queue.SimpleQueue[Json | RunReply | DittoError] = (
            queue.SimpleQueue()
        )
        self._over = threading.Event()
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def report(self, progress: Json) -> None:
        """The run has come so far."""
        self._events.put(progress)

    def end(self, outcome: RunReply | DittoError) -> bool:
        """The run has ended; False if it had before."""
        with self._lock:
            if self._over.is_set():
                return False
            self._over.set()
        self._events.put(outcome)
        return True

    def events(self) -> Iterator[Json | RunReply]:
        """How far it is, again and again, and at last the reply; raises its error."""
        while True:
            left = self.deadline - self._clock()
            try:
                event = self._events.get(timeout=max(left, 0.0))
            except queue.Empty:
                error = DeadlineError(
                    "The run was not finished within the time given for it."
                    if self.started
                    else "The run waited for its turn until its time was over."
                )
                self.end(error)
                raise error from None
            if isinstance(event, DittoError):
                raise event
            yield event
            if isinstance(event, RunReply):
                return


class RunQueue:
    """The tickets that wait at a party, at most ``length`` of them."""

    def __init__(self, length: int, clock: Clock = time.monotonic) -> None:
        self._length, self._clock = length, clock
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, Ticket] = OrderedDict()
        self._known: OrderedDict[str, bool] = OrderedDict()
        self._running = 0
        self._news = 0
        """Counts what those who wait for a ticket are to be told besides."""
        self.mean_seconds = 1.0
        """Of recent runs, for who is told when to come back."""

    def remember(self, request_id: str) -> None:
        """Note that a request id is used; raises RequestError if it was before.

        ``put`` or ``refuse`` follows.
        """
        plain = request_id.isascii() and request_id.isalnum()
        if not (plain and 16 <= len(request_id) <= 64):
            raise RequestError(
                "A request id has 16 to 64 letters and digits, drawn at random."
            )
        with self._changed:
            if request_id in self._known:
                raise RequestError(
                    "This request id was used before. Draw a new one for every "
                    "request: masks are bound to it."
                )
            self._known[request_id] = False
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def refuse(self, request_id: str) -> None:
        """A request of this id was refused, so that nobody waits for it here."""
        with self._changed:
            self._known[request_id] = True
            self._changed.notify_all()

    def put(self, run: Admitted, deadline: float) -> Ticket:
        """Have a run wait for its turn; its id is remembered already."""
        with self._changed:
            if len(self._waiting) >= self._length:
                raise BusyError(
                    f"{len(self._waiting)} requests wait at this party, as many as the "
                    f"agreement allows. Ask again later.",
                    retry_after=min(60.0, max(1.0, self.mean_seconds)),
                )
            ticket = Ticket(run, deadline, self._clock)
            self._waiting[ticket.request_id] = ticket
            self._known[ticket.request_id] = True
            self._changed.notify_all()
            return ticket

    def next(self, patience: float) -> Ticket | None:
        """The ticket whose turn it is, or None if none comes within ``patience``."""
        end = self._clock() + patience
        with self._changed:
            news = self._news
            while True:
                now = self._clock()
                self._drop_ended(now)
                for ticket in self._waiting.values():
                    if ticket.not_before <= now:
                        del self._waiting[ticket.request_id]
                        return ticket
                if now >= end or self._news != news:
                    return None
                soon = 0.05 if self._waiting else end - now
                self._changed.wait(min(soon, end - now))

    def wake(self) -> None:
        """Have ``next`` return at once, for there is other news."""
        with self._changed:
            self._news += 1
            self._changed.notify_all()

    def postpone(self, ticket: Ticket, seconds: float) -> None:
        """Put back a ticket that a peer has not got yet; others go first meanwhile."""
        with self._changed:
            ticket.not_before = self._clock() + seconds
            self._waiting[ticket.request_id] = ticket
            self._waiting.move_to_end(ticket.request_id, last=False)

    def claim(self, request_id: str, patience: float) -> Ticket | None:
        """The ticket of an id, if it is here within ``patience``; None if it is not,
        or was refused or given up."""
        end = self._clock() + patience
        with self._changed:
            while True:
                self._drop_ended(self._clock())
                ticket = self._waiting.pop(request_id, None)
                left = end - self._clock()
                if ticket is not None or self._known.get(request_id) or left <= 0:
                    return ticket
                self._changed.wait(left)

    def was_refused(self, request_id: str) -> bool:
        """Of an id that cannot be claimed: whether it will never be."""
        with self._changed:
            return self._known.get(request_id, False)

    def drop(self, request_id: str, error: DittoError) -> None:
        """End a ticket that waits, if there is one."""
        with self._changed:
            ticket = self._waiting.pop(request_id, None)
        if ticket is not None:
            ticket.end(error)

    def fail_all(self, error: DittoError) -> None:
        """End every ticket that waits."""
        with self._changed:
            tickets = list(self._waiting.values())
            self._waiting.clear()
        for ticket in tickets:
            ticket.end(error)

    def begin(self, ticket: Ticket) -> None:
        """Its run begins."""
        ticket.started = self._clock()
        with self._changed:
            self._running += 1

    def finish(self, ticket: Ticket) -> None:
        """Its run has ended."""
        seconds = self._clock() - (ticket.started or ticket.received)
        with self._changed:
            self._running -= 1
            self.mean_seconds += (seconds - self.mean_seconds) / 8
            self._changed.notify_all()

    @property
    def running(self) -> int:
        """Runs that are being executed."""
        return self._running

    @property
    def waiting(self) -> int:
        """Runs that wait."""
        with self._changed:
            self._drop_ended(self._clock())
            return len(self._waiting)

    def _drop_ended(self, now: float) -> None:
        for name, ticket in list(self._waiting.items()):
            if ticket.over or ticket.deadline <= now:
                del self._waiting[name]
