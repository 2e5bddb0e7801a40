"""A lane: the links of a trio that run one plan at a time, and re-form by themselves.

Each party has a thread for it. When the links are up, the parties greet each other and
compare what must be the same. Then rank 0 leads, in exchanges of three messages:

1. rank 0 names the run that is next, or none, and says which models it has;
2. the others say whether they have that run and nothing speaks against it, and which
   models they have;
3. rank 0 says whether it runs, and which models all three have.

So a run is executed by all three or by none. The exchange with no run, every second,
shows that all are there. A run that fails ends the links, whoever waits is told whom it
was lost to, and the lane forms again with new keys.
"""

import contextlib
import hashlib
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ditto.errors import (
    DisagreementError,
    DittoError,
    MessageError,
    PeerError,
    PeerLostError,
    RequestError,
    TrioMismatchError,
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
_AGAIN = 0.5
"""Seconds, about, before the links are tried again."""
_MAX = 4 << 20
_FORBID = ConfigDict(frozen=True, extra="forbid")

Models = dict[str, str]
"""Digests by name."""


class Greeting(BaseModel):
    """What the three parties of a trio must agree on."""

    model_config = _FORBID

    agreement: str = Field(max_length=128)
    version: str = Field(max_length=64)
    trio: int
    boot: str = Field(max_length=64)


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
    run: bool = False
    lost: str | None = None
    """Why a run that was named is not run, for whoever asked."""


class LaneEvents(Protocol):
    """What a lane tells the party that it belongs to."""

    def on_up(self) -> None:
        """The links are up and the greetings agree."""

    def on_agreed(self, models: Models) -> None:
        """All three have these models."""

    def on_down(self, error: DittoError) -> None:
        """The links are down, because of this."""

    def on_run(self, ticket: Ticket, outcome: RunReply | DittoError) -> None:
        """A run has ended."""


@dataclass(frozen=True)
class LaneSetup:
    """What a lane works on."""

    rank: Rank
    names: tuple[str, str, str]
    """The parties' names by rank."""
    open_session: Callable[[], Session]
    store: PartyStore
    queue: RunQueue
    greeting: Greeting
    models: Callable[[], Models]
    """What this party has now."""
    run_seconds: float
    """The longest that a run may take."""


class Lane:
    """One party's end of the lane of its trio."""

    def __init__(self, setup: LaneSetup, events: LaneEvents) -> None:
        self._setup, self._events = setup, events
        self._stopping = threading.Event()
        self._dropped: list[str] = []
        self._up = False
        self._thread = threading.Thread(
            target=self._work, name="ditto-lane", daemon=True
        )

    def start(self) -> None:
        """Connect, and serve runs from now on."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Leave after the run that is being executed."""
        self._stopping.set()
        self._setup.queue.wake()
        if self._up:  # else it looks for peers, and there is nothing to finish
            self._thread.join(patience)

    def drop(self, request_id: str) -> None:
        """Whoever asked for a run is gone; the others will be told."""
        if self._setup.rank == Rank.P0:
            self._dropped.append(request_id)

    def _work(self) -> None:
        while not self._stopping.is_set():
            session: Session | None = None
            try:
                session = self._setup.open_session()
                self._greet(session)
                self._up = True
                self._events.on_up()
                if self._setup.rank == Rank.P0:
                    self._lead(session)
                else:
                    self._follow(session)
                session.close()
            except Exception as error:
                self._fall(session, error)
                self._stopping.wait(random.uniform(0.2, 2 * _AGAIN))  # noqa: S311

    def _fall(self, session: Session | None, error: Exception) -> None:
        """The links are over: tell the peers, and all who wait here."""
        self._up = False
        self._dropped.clear()
        if session is not None:
            with contextlib.suppress(Exception):
                session.abort()
            with contextlib.suppress(Exception):
                session.close()
        known = error if isinstance(error, DittoError) else DittoError(repr(error))
        self._events.on_down(known)
        self._setup.queue.fail_all(self._lost(known))

    def _lost(self, error: DittoError) -> PeerError:
        """What is told to who asked for a run that was lost; it may be asked again."""
        name = self._setup.names[self._setup.rank]
        peer = error.peer if isinstance(error, PeerError) else name
        return PeerLostError(
            f"The run was lost: {peer} failed or was cut off. The parties connect "
            f"again by themselves; ask again.",
            peer=peer,
        )

    # The greeting

    def _greet(self, session: Session) -> None:
        mine = self._setup.greeting
        for peer in peers_of(self._setup.rank):
            _post(session, peer, b"greeting", mine)
        for peer in peers_of(self._setup.rank):
            theirs = _fetch(session, peer, b"greeting", Greeting)
            name = self._setup.names[peer]
            for what in ("agreement", "version", "trio"):
                got, due = getattr(theirs, what), getattr(mine, what)
                if got != due:
                    raise TrioMismatchError(
                        f"{name} was started with another {what}: {str(got)[:16]} "
                        f"there, {str(due)[:16]} here. Give all three parties of a "
                        f"trio the same."
                    )

    # Rank 0

    def _lead(self, session: Session) -> None:
        number = 0
        while not self._stopping.is_set():
            ticket = self._setup.queue.next(IDLE_SECONDS if number else 0.0)
            state: State = ()
            if ticket is not None:
                try:
                    state = reserve(self._setup.store, ticket.run)
                except RequestError as error:
                    self._end(ticket, error)
                    self._dropped.append(ticket.request_id)
                    ticket = None
            number += 1
            try:
                runs = self._propose(session, number, ticket)
            except BaseException as error:
                if ticket is not None:
                    release(self._setup.store, ticket.run)
                    self._end(ticket, self._lost(_as_ours(error)))
                raise
            if ticket is not None and runs:
                self._run(session, ticket, state)

    def _propose(self, session: Session, number: int, ticket: Ticket | None) -> bool:
        dropped, self._dropped = self._dropped[:1000], self._dropped[1000:]
        models = self._setup.models()
        proposal = _Proposal(
            models=models,
            run=None if ticket is None else ticket.request_id,
            about="" if ticket is None else _about(ticket.run),
            dropped=tuple(dropped),
        )
        peers = peers_of(self._setup.rank)
        for peer in peers:
            _post(session, peer, b"proposal%d" % number, proposal)
        answers = {
            peer: _fetch(session, peer, b"answer%d" % number, _Answer) for peer in peers
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
        decision = _Decision(agreed=agreed, run=runs and ticket is not None, lost=lost)
        for peer in peers:
            _post(session, peer, b"decision%d" % number, decision)
        self._events.on_agreed(agreed)
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

    def _follow(self, session: Session) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            proposal = _fetch(session, Rank.P0, b"proposal%d" % number, _Proposal)
            for request_id in proposal.dropped:
                self._setup.queue.drop(request_id, _without(self._setup.names[0]))
            ticket, state, word = self._claim(proposal)
            answer = _Answer(models=self._setup.models(), run=word)
            try:
                _post(session, Rank.P0, b"answer%d" % number, answer)
                key = b"decision%d" % number
                decision = _fetch(session, Rank.P0, key, _Decision)
            except BaseException as error:
                if ticket is not None:
                    release(self._setup.store, ticket.run)
                    self._end(ticket, self._lost(_as_ours(error)))
                raise
            self._events.on_agreed(decision.agreed)
            if ticket is None:
                if proposal.run and decision.lost:
                    self._refuse(proposal.run, decision.lost)
            elif decision.run:
                self._run(session, ticket, state)
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

    def _run(self, session: Session, ticket: Ticket, state: State) -> None:
        """Execute a run; raises what ends the links."""
        queue = self._setup.queue
        queue.begin(ticket)
        session.begun = False
        session.report = ticket.report
        limit = threading.Timer(self._setup.run_seconds, session.abort)
        limit.daemon = True
        limit.start()
        before = _sent(session)
        try:
            reply = execute(self._setup.store, session, ticket.run, state)
        except DisagreementError as error:  # all steps were taken: the links are good
            self._end(ticket, error)
        except Exception as error:
            known = _as_ours(error)
            lost = self._lost(known) if isinstance(known, PeerError) else known
            self._end(ticket, lost)
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
    """Who asks for what: what three parties must have been told alike."""
    request = run.request
    turn = (request.turn.conversation, request.turn.number) if request.turn else None
    text = json.dumps([run.client, request.model, request.plan, turn])
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


def _as_ours(error: BaseException) -> DittoError:
    return error if isinstance(error, DittoError) else DittoError(repr(error))


def _post(session: Session, to: Rank, key: bytes, message: BaseModel) -> None:
    session.mailbox.post(to, b"lane." + key, [message.model_dump_json().encode()])


MessageT = TypeVar("MessageT", bound=BaseModel)


def _fetch(
    session: Session, source: Rank, key: bytes, kind: type[MessageT]
) -> MessageT:
    content = bytes(session.mailbox.fetch(source, b"lane." + key))
    try:
        if len(content) > _MAX:
            raise ValueError
        return kind.model_validate_json(content)
    except (ValidationError, ValueError):
        raise MessageError(f"P{source:d} sent no {kind.__name__}.") from None
