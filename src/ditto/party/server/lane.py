"""A lane: a session of the three parties in which they run one plan at a time.

Each party has a thread for it. Rank 0 leads, in exchanges of three messages:

1. rank 0 names the run that is next, or none, and says which models it has;
2. the others say whether they have that run and nothing speaks against it, and which
   models they have;
3. rank 0 says whether it runs, and which models all three have.

So a run is executed by all three or by none. The exchange with no run, every second,
shows that all are there. ``lanes`` opens lanes and closes them.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ditto.errors import (
    DisagreementError,
    DittoError,
    MessageError,
    PeerError,
    PeerLostError,
    RequestError,
)
from ditto.party.running import Admitted, execute, release, reserve
from ditto.party.server.queue import RunQueue, Ticket
from ditto.party.store import PartyStore, State
from ditto.protocols.channel import peers_of
from ditto.runtime import Session
from ditto.sharing import Rank
from ditto.wire import RunReply

IDLE_SECONDS = 1.0
"""Between two exchanges when there is nothing to run."""
CLAIM_SECONDS = 0.3
"""That a party waits for its part of a run which rank 0 names."""
POSTPONE_SECONDS = 0.2
"""Until rank 0 names a run again that some party had no part of; then twice as long."""
ABSENT_SECONDS = 30.0
"""After which a run is given up that some party has no part of."""
_MAX = 4 << 20
_FORBID = ConfigDict(frozen=True, extra="forbid")

Models = dict[str, str]
"""Digests by name."""


class _Proposal(BaseModel):
    model_config = _FORBID

    models: Models
    run: str | None = None
    """The request id of the run that is next."""
    about: str = ""
    """A hash of who asks and of all that is public about the run."""
    dropped: tuple[str, ...] = ()
    """Request ids that will not be run."""


class _Answer(BaseModel):
    model_config = _FORBID

    models: Models
    run: Literal["yes", "absent", "refused", "differs", "none"] = "none"


class _Decision(BaseModel):
    model_config = _FORBID

    agreed: Models
    number: int
    """Of the exchange, among those of all lanes: the last one knows best."""
    run: bool = False
    lost: str | None = None
    """Why a run that was named is not run, for whoever asked."""


class LaneEvents(Protocol):
    """What a lane tells the party that it belongs to."""

    def on_agreed(self, models: Models) -> None:
        """All three have these models."""

    def on_run(self, ticket: Ticket, outcome: RunReply | DittoError) -> None:
        """A run has ended."""


@dataclass(frozen=True)
class LaneSetup:
    """What the lanes of a party work on."""

    rank: Rank
    names: tuple[str, str, str]
    """The parties' names by rank."""
    store: PartyStore
    queue: RunQueue
    models: Callable[[], Models]
    """What this party has now."""
    run_seconds: float
    """The longest that a run may take."""


@dataclass
class CommonState:
    """What the lanes of a party know together."""

    stopping: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _dropped: list[str] = field(default_factory=list)
    _begun: int = 0
    _ended: int = 0

    def drop(self, request_id: str) -> None:
        """Whoever asked for a run is gone."""
        with self._lock:
            self._dropped.append(request_id)

    def take_dropped(self) -> tuple[str, ...]:
        """Request ids that the other parties are to be told, at most 1,000."""
        with self._lock:
            taken, self._dropped = self._dropped[:1000], self._dropped[1000:]
        return tuple(taken)

    def next_number(self) -> int:
        """At rank 0: of the exchange that begins."""
        with self._lock:
            self._begun += 1
            return self._begun

    def is_news(self, number: int) -> bool:
        """Whether no later exchange has ended before, in another lane."""
        with self._lock:
            news = number > self._ended
            self._ended = max(number, self._ended)
            return news

    def forget(self) -> None:
        """The lanes are over; others will begin."""
        with self._lock:
            self._dropped.clear()
            self._begun = self._ended = 0


class Lane:
    """One party's end of a lane."""

    def __init__(
        self,
        setup: LaneSetup,
        shared: CommonState,
        events: LaneEvents,
        session: Session,
    ) -> None:
        self._setup, self._shared, self._events = setup, shared, events
        self._session = session

    def work(self) -> None:
        """Serve runs until the party stops; raises what ends the links."""
        if self._setup.rank == Rank.P0:
            self._lead()
        else:
            self._follow()

    # Rank 0

    def _lead(self) -> None:
        number = 0
        while not self._shared.stopping.is_set():
            ticket = self._setup.queue.next(IDLE_SECONDS if number else 0.0)
            state: State = ()
            if ticket is not None:
                try:
                    state = reserve(self._setup.store, ticket.run)
                except RequestError as error:
                    self._end(ticket, error)
                    self._shared.drop(ticket.request_id)
                    ticket = None
            number += 1
            try:
                runs = self._propose(number, ticket)
            except BaseException as error:
                if ticket is not None:
                    release(self._setup.store, ticket.run)
                    self._end(ticket, lost_run(self._setup, error))
                raise
            if ticket is not None and runs:
                self._run(ticket, state)

    def _propose(self, number: int, ticket: Ticket | None) -> bool:
        session, order = self._session, self._shared.next_number()
        models = self._setup.models()
        proposal = _Proposal(
            models=models,
            run=None if ticket is None else ticket.request_id,
            about="" if ticket is None else _about(ticket.run),
            dropped=self._shared.take_dropped(),
        )
        peers = peers_of(self._setup.rank)
        for peer in peers:
            post(session, peer, b"proposal%d" % number, proposal)
        answers = {
            peer: fetch(session, peer, b"answer%d" % number, _Answer) for peer in peers
        }
        agreed = {
            name: digest
            for name, digest in models.items()
            if all(answer.models.get(name) == digest for answer in answers.values())
        }
        runs = all(answer.run == "yes" for answer in answers.values())
        lost = None
        if ticket is not None and not runs:
            lost = self._give_up(ticket, answers)
        decision = _Decision(
            agreed=agreed, number=order, run=runs and ticket is not None, lost=lost
        )
        for peer in peers:
            post(session, peer, b"decision%d" % number, decision)
        self._tell(decision)
        return runs

    def _give_up(self, ticket: Ticket, answers: dict[Rank, _Answer]) -> str | None:
        """Put a run off that a party has not got yet, or end it; says why it ends."""
        release(self._setup.store, ticket.run)
        said = {answer.run: peer for peer, answer in answers.items()}
        waited = ticket.not_before - ticket.received
        if "differs" in said:
            name = self._setup.names[said["differs"]]
            self._end(ticket, DisagreementError(f"{name} was asked for another run."))
            return "differs"
        if "refused" in said or waited > ABSENT_SECONDS:
            peer = said.get("refused", said.get("absent", self._setup.rank))
            self._end(ticket, _without(self._setup.names[peer]))
            return self._setup.names[peer]
        self._setup.queue.postpone(ticket, max(POSTPONE_SECONDS, waited))
        return None

    # Ranks 1 and 2

    def _follow(self) -> None:
        session, number = self._session, 0
        while not self._shared.stopping.is_set():
            number += 1
            proposal = fetch(session, Rank.P0, b"proposal%d" % number, _Proposal)
            for request_id in proposal.dropped:
                self._setup.queue.drop(request_id, _without(self._setup.names[0]))
            ticket, state, word = self._claim(proposal)
            answer = _Answer(models=self._setup.models(), run=word)
            try:
                post(session, Rank.P0, b"answer%d" % number, answer)
                key = b"decision%d" % number
                decision = fetch(session, Rank.P0, key, _Decision)
            except BaseException as error:
                if ticket is not None:
                    release(self._setup.store, ticket.run)
                    self._end(ticket, lost_run(self._setup, error))
                raise
            self._tell(decision)
            if ticket is None:
                if proposal.run and decision.lost:
                    self._refuse(proposal.run, decision.lost)
            elif decision.run:
                self._run(ticket, state)
            else:
                release(self._setup.store, ticket.run)
                if decision.lost:
                    self._end(ticket, _reason(decision.lost))
                else:
                    self._setup.queue.postpone(ticket, 0.0)

    def _refuse(self, request_id: str, reason: str) -> None:
        """A run is given up of which this party has no part yet, or another one."""
        self._setup.queue.drop(request_id, _reason(reason))

    def _claim(
        self, proposal: _Proposal
    ) -> tuple[
        Ticket | None, State, Literal["yes", "absent", "refused", "differs", "none"]
    ]:
        """This party's part of a run that rank 0 names, with its state reserved."""
        queue = self._setup.queue
        if proposal.run is None:
            return None, (), "none"
        ticket = queue.claim(proposal.run, CLAIM_SECONDS)
        if ticket is None:
            refused = queue.was_refused(proposal.run)
            return None, (), "refused" if refused else "absent"
        if _about(ticket.run) != proposal.about:
            self._end(ticket, DisagreementError("P0 was asked for another run."))
            return None, (), "differs"
        try:
            return ticket, reserve(self._setup.store, ticket.run), "yes"
        except RequestError as error:
            self._end(ticket, error)
            return None, (), "refused"

    # All

    def _tell(self, decision: _Decision) -> None:
        if self._shared.is_news(decision.number):
            self._events.on_agreed(decision.agreed)

    def _run(self, ticket: Ticket, state: State) -> None:
        """Execute a run; raises what ends the links."""
        queue, session = self._setup.queue, self._session
        queue.begin(ticket)
        session.begun = False
        session.report = ticket.report
        limit = threading.Timer(self._setup.run_seconds, session.abort)
        limit.daemon = True
        limit.start()
        before = _sent(session)
        try:
            reply = execute(self._setup.store, session, ticket.run, state)
        except DisagreementError as error:
            # found when all three await the same: the links are good
            self._end(ticket, error)
        except Exception as error:
            known = as_ours(error)
            by_peer = isinstance(known, PeerError)
            self._end(ticket, lost_run(self._setup, known) if by_peer else known)
            raise
        else:
            names = self._setup.names
            after = zip(names, _sent(session), before, strict=True)
            ticket.sent = {name: now - then for name, now, then in after if now > then}
            self._end(ticket, reply)
        finally:
            limit.cancel()
            session.report = lambda _: None
            queue.finish(ticket)

    def _end(self, ticket: Ticket, outcome: RunReply | DittoError) -> None:
        ticket.end(outcome)
        self._events.on_run(ticket, outcome)


def _sent(session: Session) -> tuple[int, ...]:
    """Bytes that this party has sent to each rank, by protocols and by SPU."""
    native, spu = session.party.channel.traffic(), session.spu_link.traffic()
    return tuple(a + b for a, b in zip(native.sent, spu.sent, strict=True))


def _about(run: Admitted) -> str:
    """Who asks for what: what three parties must have been told alike. Where they prove
    what follows from the plan, the audit and whether a lot decides on it."""
    request = run.request
    lots = None if request.lot is None else request.lot.digests
    turn = (request.turn.conversation, request.turn.number) if request.turn else None
    text = json.dumps(
        [run.client, request.model, request.plan, turn, request.audit, lots]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _without(name: str) -> PeerError:
    return PeerLostError(
        f"The run was not started: {name} refused it or has no part of it. Ask all "
        f"three parties at the same time; ask again.",
        peer=name,
    )


def _reason(lost: str) -> DittoError:
    if lost == "differs":
        return DisagreementError("The parties were asked for different runs.")
    return _without(lost)


def lost_run(setup: LaneSetup, error: BaseException) -> PeerError:
    """What is told to who asked for a run that was lost; it may be asked again."""
    name = setup.names[setup.rank]
    peer = error.peer if isinstance(error, PeerError) else name
    return PeerLostError(
        f"The run was lost: {peer} failed or was cut off. The parties connect again by "
        f"themselves; ask again.",
        peer=peer,
    )


def as_ours(error: BaseException) -> DittoError:
    """An error as clients and peers may see it."""
    return error if isinstance(error, DittoError) else DittoError(repr(error))


def post(session: Session, to: Rank, key: bytes, message: BaseModel) -> None:
    """Send a message that belongs to no run."""
    session.mailbox.post(to, b"lane." + key, [message.model_dump_json().encode()])


MessageT = TypeVar("MessageT", bound=BaseModel)


def fetch(session: Session, source: Rank, key: bytes, kind: type[MessageT]) -> MessageT:
    """Wait for one; raises MessageError for any other."""
    content = bytes(session.mailbox.fetch(source, b"lane." + key))
    try:
        if len(content) > _MAX:
            raise ValueError
        return kind.model_validate_json(content)
    except (ValidationError, ValueError):
        raise MessageError(f"P{source:d} sent no {kind.__name__}.") from None
