"""A party as a process of its own: store, lanes, calls and pages, from start to drain.

States of a party: *starting*; *peers verified* when the links are up and the greetings
agree; *models agreed* when the three have compared what they have; *ready*; *draining*.
Only a party that is ready takes runs.
"""

import json
import logging
import threading
import time
import uuid
from typing import Any

from ditto.audit import PROOFS
from ditto.errors import AuditError, DittoError, PeerError, PeerLostError, SetupError
from ditto.party.server.calls import CallServer
from ditto.party.server.config import PartyConfig
from ditto.party.server.handlers import Handlers
from ditto.party.server.lane import LaneSetup, Models
from ditto.party.server.lanes import Greeting, Lanes
from ditto.party.server.library import Library
from ditto.party.server.links import link_config
from ditto.party.server.logs import note
from ditto.party.server.metrics import Metrics
from ditto.party.server.operators import OperatorPages
from ditto.party.server.queue import RunQueue, Ticket
from ditto.party.store import PartyStore
from ditto.runtime import LinkedSession, open_sessions
from ditto.sharing import RANKS, Rank
from ditto.trust import Credentials, load_credentials
from ditto.wire import RunReply
from ditto.wire.agreement import Agreement, read_agreement
from ditto.wire.catalogue import ServedModel, ServiceStatus, State
from ditto.wire.manifest import VERSION

_STOP_SECONDS = 5.0


class PartyHost:
    """One party of one trio, running."""

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        self.agreement = read_agreement(config.deployment)
        self._rank = Rank(config.rank)
        self._check()
        self._boot = uuid.uuid4().hex
        self._names = _names(self.agreement)
        self._lock = threading.Lock()
        self._state: State = "starting"
        self._problem: str | None = None
        self._lost: str | None = None
        """The peer because of which the links are down, if it is known."""
        self._agreed: Models = {}
        self._draining = False
        limits = self.agreement.limits
        self._store = PartyStore(
            keep_states_for=limits.state_seconds,
            states_per_client=limits.states_per_client,
        )
        self._queue = RunQueue(limits.queue_length)
        self._library = Library(
            config.store,
            self._rank,
            self._store,
            most_models=limits.models,
            most_bytes=limits.max_model_bytes,
            on_change=self._queue.wake,
        )
        peers = [self._names[rank] for rank in RANKS if rank != self._rank]
        self._metrics = Metrics(peers)
        self._metrics.before_reading(self._update_gauges)
        greeting = Greeting(
            agreement=self.agreement.digest,
            version=VERSION,
            proofs=PROOFS,
            trio=config.trio,
            boot=self._boot,
        )
        self._lanes = Lanes(self._lane_setup(), greeting, self._open_sessions, self)
        self._handlers = Handlers(
            self._store,
            self._library,
            self._queue,
            status=self.status,
            models_when_ready=self._models_when_ready,
            on_gone=self._lanes.drop,
            agreement=self.agreement,
            rank=self._rank,
        )
        self._calls: CallServer | None = None
        self._pages: OperatorPages | None = None

    # From start to end

    def start(self) -> None:
        """Load the models, listen, and look for the peers."""
        if self._config.listen_http is not None:
            self._pages = OperatorPages(
                self._config.listen_http,
                {
                    "/health": self._health,
                    "/ready": self._ready,
                    "/metrics": self._text,
                },
            )
        for name, error in self._library.load().items():
            note("model not loaded", logging.ERROR, model=name, text=str(error))
        for name, release in self._library.releases().items():
            note("model loaded", model=name, digest=release.digest[:12])
        address = self.agreement.parties[self._rank].grpc_address(self._config.trio)
        self._calls = CallServer(
            self._config.listen_grpc or address,
            self.agreement,
            self._credentials,
            self._handlers.by_method(),
        )
        self._calls.start()
        note(
            "started",
            rank=int(self._rank),
            trio=self._config.trio,
            version=VERSION,
            agreement=self.agreement.digest[:12],
            address=self._config.listen_grpc or address,
        )
        self._lanes.start()

    def drain(self, seconds: float) -> None:
        """Take no more runs, and finish those that are here."""
        self._draining = True
        self._set_state("draining")
        note("draining", seconds=seconds)
        end = time.monotonic() + seconds
        while self._queue.waiting + self._queue.running and time.monotonic() < end:
            time.sleep(0.05)

    def stop(self) -> None:
        """End everything."""
        if self._calls is not None:
            self._calls.stop(1.0)
        self._lanes.stop(_STOP_SECONDS)
        if self._pages is not None:
            self._pages.close()
        note("stopped")

    # What it is asked

    def status(self) -> ServiceStatus:
        """How this party is."""
        with self._lock:
            state, problem, agreed = self._state, self._problem, self._agreed
        up = state not in ("starting",) and problem is None
        peers = {
            str(self.agreement.party_identity(rank)): up
            for rank in RANKS
            if rank != self._rank
        }
        models = tuple(
            ServedModel(
                release=release,
                digest=release.digest,
                agreed=agreed.get(name) == release.digest,
            )
            for name, release in sorted(self._library.releases().items())
        )
        return ServiceStatus(
            rank=int(self._rank),
            trio=self._config.trio,
            identity=str(self.agreement.party_identity(self._rank)),
            version=VERSION,
            agreement=self.agreement.digest,
            boot=self._boot,
            state=state,
            peers=peers,
            problem=problem,
            running=self._queue.running,
            waiting=self._queue.waiting,
            models=models,
            time=time.time(),
        )

    def _models_when_ready(self) -> Models:
        """What all three serve; raises if this party takes no runs."""
        with self._lock:
            state, problem, lost = self._state, self._problem, self._lost
            agreed = self._agreed
        if state != "ready":
            name = self._names[self._rank]
            why = f": {problem.rstrip('.')}" if problem else ""
            raise PeerLostError(
                f"{name} takes no runs now, it is {state}{why}. Ask again later.",
                peer=name if state == "draining" else lost or name,
            )
        return agreed

    # What the lanes tell

    def on_up(self) -> None:
        """See LinkEvents."""
        with self._lock:
            self._problem = self._lost = None
        self._set_state("peers verified")

    def on_agreed(self, models: Models) -> None:
        """See LinkEvents."""
        with self._lock:
            before, self._agreed = self._agreed, models
            state = self._state
        if state not in ("ready", "draining"):
            self._set_state("models agreed")
            self._set_state("ready")
        for name in sorted(models.keys() - before.keys()):
            note("model agreed", model=name, digest=models[name][:12])
        for name in sorted(before.keys() - models.keys()):
            note("model no longer agreed", model=name)

    def on_down(self, error: DittoError) -> None:
        """See LinkEvents."""
        before = self.status().state
        self._set_state("starting")  # first: nobody is told that models are gone
        with self._lock:
            self._problem = error.public_message()  # it is told to whoever may ask
            self._lost = error.peer if isinstance(error, PeerError) else None
            self._agreed = {}
        level = logging.DEBUG if before == "starting" else logging.WARNING
        note(
            "links down", level, error=error.code, peer=self._lost,
            text=str(error)[:300],
        )  # fmt: skip

    def on_run(self, ticket: Ticket, outcome: RunReply | DittoError) -> None:
        """See LinkEvents."""
        now = time.monotonic()
        seconds = now - ticket.received
        queued = (ticket.started or now) - ticket.received
        request = ticket.run.request
        self._metrics.queue_time.observe(queued)
        self._metrics.latency.observe(seconds)
        fields: dict[str, Any] = {
            "request": ticket.request_id,
            "identity": ticket.run.client,
            "model": request.model,
            "plan": request.plan[:12],
            "seconds": round(seconds, 3),
            "queued": round(queued, 3),
        }
        if isinstance(outcome, DittoError):
            self._metrics.failure.labels(outcome.code).inc()
            peer = outcome.peer if isinstance(outcome, PeerError) else None
            if isinstance(outcome, AuditError):
                fields["suspects"] = outcome.suspects
            note("run failed", logging.WARNING, **fields, error=outcome.code, peer=peer)
            return
        self._metrics.success.inc()
        for peer, count in ticket.sent.items():
            self._metrics.link_bytes.labels(peer).inc(count)
        self._metrics.rounds.inc(sum(step[1] for step in outcome.steps))
        if request.turn is not None:
            first = request.turn.number == 0
            kind = self._metrics.first_token if first else self._metrics.token
            kind.observe(seconds)
        note("run finished", **fields)

    # Inside

    def _check(self) -> None:
        agreement, config = self.agreement, self._config
        mine = self._credentials().identity
        expected = agreement.party_identity(self._rank)
        if mine != expected:
            raise SetupError(
                f"The credentials are those of {mine}, but party {config.rank} of the "
                f"agreement is {expected}. Set rank or credentials."
            )
        if config.trio >= agreement.trios:
            raise SetupError(
                f"The agreement has {agreement.trios} trios, numbered from 0; got trio "
                f"{config.trio}."
            )
        if not agreement.versions.admit(VERSION):
            raise SetupError(
                f"The agreement admits Ditto {agreement.versions.min} to "
                f"{agreement.versions.max}; this is {VERSION}."
            )

    def _credentials(self) -> Credentials:
        return load_credentials(
            self._config.credentials, self.agreement.trusted_domains
        )

    def _lane_setup(self) -> LaneSetup:
        return LaneSetup(
            rank=self._rank,
            names=self._names,
            store=self._store,
            queue=self._queue,
            models=lambda: {
                name: release.digest
                for name, release in self._library.releases().items()
            },
            run_seconds=float(self.agreement.limits.deadline_seconds),
        )

    def _open_sessions(self) -> list[LinkedSession]:
        return open_sessions(
            link_config(self.agreement, self._config, self._credentials()),
            self.agreement.limits.lanes,
        )

    def _set_state(self, state: State) -> None:
        with self._lock:
            if self._draining:
                state = "draining"
            before, self._state = self._state, state
        ready = state == "ready"
        if self._calls is not None:
            self._calls.set_ready(ready)
        for rank in RANKS:
            if rank != self._rank:
                self._metrics.peer_up.labels(self._names[rank]).set(state != "starting")
        self._metrics.ready.set(ready)
        if before != state:
            note("state", state=state)

    def _update_gauges(self) -> None:
        self._metrics.running.set(self._queue.running)
        self._metrics.waiting.set(self._queue.waiting)
        self._metrics.states.set(len(self._store.conversations()))

    def _health(self) -> tuple[int, str, bytes]:
        return 200, "text/plain", b"ok\n"

    def _ready(self) -> tuple[int, str, bytes]:
        status = self.status()
        body = {
            "state": status.state,
            "problem": status.problem,
            "models": [m.release.name for m in status.models if m.agreed],
        }
        code = 200 if status.state == "ready" else 503
        return code, "application/json", json.dumps(body).encode() + b"\n"

    def _text(self) -> tuple[int, str, bytes]:
        return 200, "text/plain; version=0.0.4", self._metrics.text()


def _names(agreement: Agreement) -> tuple[str, str, str]:
    """What the parties are called in errors and logs: their trust domains."""
    p0, p1, p2 = (party.trust_domain for party in agreement.parties)
    return p0, p1, p2
