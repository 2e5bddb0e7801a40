"""Three parties on this machine, each behind the very service that a server offers.

They are threads or child processes; requests reach them as the same data that crosses
a network, and each has a store of its own.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from ditto.launch import Launched
from ditto.party.bundle import load_bundle
from ditto.party.inputs import receive_inputs
from ditto.party.running import to_client
from ditto.party.service import PartyService
from ditto.party.store import PartyStore
from ditto.plan import RANGE_WORD, Audit, Plan, check_audit
from ditto.protocols import reveal_range_word
from ditto.runtime import ProcessTrio, Session, Trio
from ditto.runtime.auditing import Proofs, noting, part_ends
from ditto.runtime.executor import execute
from ditto.sharing import RANKS
from ditto.steps import plan_from_bytes
from ditto.steps.coverage import check_coverage
from ditto.wire import (
    Arrays,
    Deployment,
    Json,
    OnProgress,
    Request,
    decode_reply,
    decode_request,
    encode,
)
from ditto.wire.messages import ReplyT

TIMEOUT = 600.0
"""Seconds within which a local party that stands still is reported: a large plan may
compile for minutes."""


def store_of(session: Session) -> PartyStore:
    """The store of the party of a session."""
    store = session.storage.setdefault("store", PartyStore())
    if not isinstance(store, PartyStore):
        raise TypeError("The storage of a session belongs to its party.")
    return store


def serve(session: Session, body: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """Answer one request at a party of a trio."""
    request = decode_request(body, arrays)
    return encode(PartyService(store_of(session), session).answer(request))


class LocalDeployment(Deployment):
    """Three parties of this machine: those of a trio, or three processes with TLS.

    Processes start when they are first needed, or were launched before. They keep what
    JAX compiles in ``cache``, and end with this object if not before.
    """

    def __init__(
        self, trio: Trio | Launched | None = None, cache: Path | None = None
    ) -> None:
        self._launched = trio if isinstance(trio, Launched) else None
        self._given = self._trio = None if isinstance(trio, Launched) else trio
        self._cache = cache
        self._closed = 0

    def launch(self) -> None:
        """Start the processes, and do not wait until they are ready."""
        if self._trio is None and self._launched is None:
            self._launched = Launched(compiled=self._cache)

    @property
    def running(self) -> bool:
        """Whether the parties were started and not interrupted since."""
        return self._trio is not None and not self._trio.interrupted

    @property
    def trio(self) -> Trio:
        """The parties: started when needed, connected again after a run that failed."""
        if self._trio is None:
            self.launch()
            launched, self._launched = self._launched, None
            self._trio = ProcessTrio(
                timeout=TIMEOUT, launched=launched, compiled=self._cache
            )
        self._trio.restart()
        if self._trio.failed:
            self._trio.reconnect()
        return self._trio

    @property
    def generation(self) -> int:
        """See Deployment."""
        return self._closed + (self._trio.starts if self._trio is not None else 0)

    def call(
        self,
        requests: Sequence[Request[ReplyT]],
        on_progress: OnProgress | None = None,
    ) -> list[ReplyT]:
        """See Deployment."""
        encoded = [encode(request) for request in requests]
        replies = self.trio.call(
            serve,
            [body for body, _ in encoded],
            [arrays for _, arrays in encoded],
            on_progress=on_progress,
        )
        return [
            decode_reply(request, body, arrays)
            for request, (body, arrays) in zip(requests, replies, strict=True)
        ]

    def interrupt(self) -> None:
        """End the parties at once; the next call starts them again."""
        if self._trio is not None:
            self._trio.interrupt()

    def close(self) -> None:
        """End the parties, if they were started here."""
        if self._launched is not None:
            self._launched.kill()
            self._launched = None
        if self._given is None and self._trio is not None:
            self._trio.close()
            self._closed += self._trio.starts
            self._trio = None


def run_once(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """Run a plan on shares of all of its inputs, and give up every output.

    For whoever owns all inputs and tries a plan out; a service never does this.
    """
    plan = plan_from_bytes(arrays["plan"].tobytes())
    audit = check_audit(parameters.get("audit", "off"))
    return run_held_plan(plan, session, arrays, audit)


def run_held_plan(
    plan: Plan, session: Session, arrays: Arrays, audit: Audit = "off"
) -> tuple[Json, Arrays]:
    """As ``run_once``, when the plan is at hand."""
    check_coverage(plan, audit)
    started = time.perf_counter()
    proofs = None if audit == "off" else Proofs(session, part_ends(plan))
    with noting(session, audit):
        held = receive_inputs(plan, arrays)
        on_step = proofs.on_step if proofs else None
        outputs, spent = execute(plan, session, held, on_step=on_step)
        proved = proofs.finish() if proofs else None
    revealed: Arrays = {}
    for k, value in enumerate(outputs):
        revealed |= to_client(session, value, str(k))
    if plan.range_check:
        revealed[RANGE_WORD] = reveal_range_word(session.party)
    costs = [
        None if s is None else [s.bytes, s.rounds, s.seconds] for s in (*spent, proved)
    ]
    seconds = time.perf_counter() - started
    return {"steps": costs[:-1], "audit": costs[-1], "seconds": seconds}, revealed


def load_folder(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """At each party: load its own folder of a bundle."""
    load_bundle(store_of(session), Path(parameters["folder"]), session.party.rank)
    return {}, {}


def load_local_bundle(trio: Trio, bundle: Path) -> None:
    """Have each of three local parties load its own folder of a bundle."""
    folders = [str((bundle / f"party{rank:d}").resolve()) for rank in RANKS]
    trio.call(load_folder, [{"folder": folder} for folder in folders])
