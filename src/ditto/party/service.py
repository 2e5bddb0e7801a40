"""What a party does when it is asked: one method for each verb.

Each checks all that it is given before it changes or sends anything, so that a call
which is refused leaves the party as it was. A run commits the state of its conversation
at its end: after a run that failed the old state is still there.

A party sees shares, public lengths and positions, and what the plan says; never a plain
value. It has no code that combines shares.
"""

import json
import time
from collections.abc import Callable
from typing import cast

import numpy as np

from ditto.errors import PlanError, RequestError
from ditto.fixedpoint import FxpType
from ditto.party.comparison import Comparison, ShareDigests
from ditto.party.inputs import Held, receive_input, receive_value
from ditto.party.store import HeldPlan, PartyStore, State, WeightKey
from ditto.plan import RANGE_WORD, InputSpec, Plan, part_of
from ditto.protocols import reveal_range_word, reveal_to_client
from ditto.protocols.kernels import resident
from ditto.runtime import Session
from ditto.runtime.executor import execute, keep_weights, prepare
from ditto.sharing import Shared
from ditto.steps import plan_from_bytes
from ditto.steps.base import Held as HeldValue
from ditto.steps.base import as_shared
from ditto.wire import (
    Accepted,
    Arrays,
    DropState,
    PartyStatus,
    PlanAccepted,
    PutPlan,
    PutWeights,
    RegisterModel,
    Request,
    RunPlan,
    RunReply,
    Status,
)
from ditto.wire.messages import AnyRequest, Message, ReplyT


class PartyService:
    """One party: answers requests out of its store, over one session with its peers."""

    def __init__(self, store: PartyStore, session: Session) -> None:
        self._store = store
        self._session = session

    def answer(self, request: Request[ReplyT]) -> ReplyT:
        """The reply to a request of any verb."""
        return cast(ReplyT, self._answer(request))

    def _answer(self, request: AnyRequest) -> Message:
        match request:
            case RegisterModel():
                return self.register_model(request)
            case PutPlan():
                return self.put_plan(request)
            case PutWeights():
                return self.put_weights(request)
            case RunPlan():
                return self.run_plan(request)
            case DropState():
                return self.drop_state(request)
            case Status():
                return self.status(request)
        raise RequestError(f"A party cannot be asked for {type(request).__name__}.")

    def register_model(self, request: RegisterModel) -> Accepted:
        """Note whose a model is and which plans may run with its weights."""
        self._store.register_model(
            request.model, request.owner, request.plans, request.continues
        )
        return Accepted()

    def put_plan(self, request: PutPlan) -> PlanAccepted:
        """Check a plan, compile its regions and keep it."""
        try:
            plan = plan_from_bytes(request.plan)
        except PlanError as error:  # it speaks of what whoever asks has sent
            raise RequestError(str(error)) from None
        digest = plan.digest
        self._store.check_approved(request.model, digest)  # before the long work
        self._store.put_plan(request.model, HeldPlan(plan, prepare(plan)))
        return PlanAccepted(digest)

    def put_weights(self, request: PutWeights) -> Accepted:
        """Keep shares of weights, in encodings that a plan names."""
        plan = self._store.plan(request.model, request.plan).plan
        weights = {
            v: spec
            for spec in plan.inputs
            if spec.role == "weight"
            for v in spec.encodings
        }
        added: dict[WeightKey, Shared] = {}
        for v in request.values:
            if v not in weights:
                raise RequestError(
                    "Weights were sent for what is no weight of the plan."
                )
            key = request.model, weights[v].name, plan.values[v].fxp
            if key in added:
                raise RequestError(f"This party has shares of {key[1]} already.")
            weight = receive_value(plan, weights[v], v, request.arrays)
            added[key] = resident(as_shared(weight))
        self._store.put_weights(added)
        return Accepted()

    def run_plan(self, request: RunPlan) -> RunReply:
        """Run a plan on the client's shares; answers with this party's summands.

        It answers, and keeps a state, only if the three parties were given the same.
        """
        held_plan = self._store.plan(request.model, request.plan)
        plan, turn = held_plan.plan, request.turn
        keeps = any(output.retained for output in plan.outputs)
        if (turn is not None) != bool(keeps or plan.state):
            raise RequestError(
                "A run names the turn of a conversation if and only if its plan keeps "
                "a state."
            )
        held, digests = self._held(plan, request)
        if turn is None:
            reply, _ = self._execute(request, held_plan, held, digests)
            return reply
        before = self._store.check_out(
            turn, request.model, request.plan, begins=not plan.state
        )
        committed = False
        try:
            held |= _resumed(plan, before)
            reply, state = self._execute(request, held_plan, held, digests)
            self._store.commit(turn, request.plan, state)
            committed = True
            return reply
        finally:
            if not committed:
                self._store.give_back(turn)

    def drop_state(self, request: DropState) -> Accepted:
        """Free the state of a conversation that will not be continued."""
        self._store.drop_state(request.conversation)
        return Accepted()

    def status(self, _: Status) -> PartyStatus:
        """What this party keeps."""
        weights = self._store.weights().values()
        return PartyStatus(
            models={
                name: tuple(sorted(record.plans))
                for name, record in self._store.models().items()
            },
            plans=self._store.plans(),
            weights=sum(w.first.nbytes + w.second.nbytes for w in weights),
            states=len(self._store.conversations()),
            peak_memory=_peak_memory(),
        )

    def _held(
        self, plan: Plan, request: RunPlan
    ) -> tuple[Held, dict[int, ShareDigests]]:
        """Weights from the store, with their digests, and the client's inputs."""
        held: Held = {}
        digests: dict[int, ShareDigests] = {}
        for spec in plan.inputs:
            if spec.role == "weight":
                for v in spec.encodings:
                    key = request.model, spec.name, plan.values[v].fxp
                    weight = self._store.weight(key)
                    if weight is None or weight[0].shape != spec.shape:
                        raise RequestError(f"This party has no shares of {spec.name}.")
                    held[v], digests[v] = weight
            elif spec.role != "state":
                held |= receive_input(plan, spec, request.arrays)
        return held, digests

    def _execute(
        self,
        request: RunPlan,
        held_plan: HeldPlan,
        held: Held,
        digests: dict[int, ShareDigests],
    ) -> tuple[RunReply, State]:
        """From here on the parties take steps together, with masks of this run."""
        self._session.begin()
        with self._session.run(_context(request)):
            return self._compute(held_plan, held, digests)

    def _compute(
        self, held_plan: HeldPlan, held: Held, digests: dict[int, ShareDigests]
    ) -> tuple[RunReply, State]:
        session, plan, regions = self._session, held_plan.plan, held_plan.regions
        comparison = Comparison(session, held, digests)
        runtimes = None
        if plan.regions:
            runtimes = session.runtimes
            keep_weights(plan, regions, runtimes, held)
        stopwatch = Stopwatch(session)
        outputs, spent = execute(
            plan,
            session,
            held,
            regions=regions,
            runtimes=runtimes,
            on_step=_reporter(session, plan),
        )
        comparison.check()
        revealed: Arrays = {}
        state: list[Shared] = []
        for k, (output, value) in enumerate(zip(plan.outputs, outputs, strict=True)):
            if output.retained:
                state.append(as_shared(value))
            else:
                revealed |= to_client(session, value, str(k))
        if plan.range_check:
            revealed[RANGE_WORD] = reveal_range_word(session.party)
        seconds, cpu, waiting, copies = stopwatch.read()
        reply = RunReply(
            steps=tuple((s.bytes, s.rounds, s.seconds) for s in spent),
            seconds=seconds + comparison.seconds,
            cpu=cpu,
            waiting=waiting,
            copies=copies,
            inside=sum(s.seconds for s in spent),
            arrays=revealed,
        )
        return reply, tuple(state)


class Stopwatch:
    """How long a party took, and what it did meanwhile."""

    def __init__(self, session: Session) -> None:
        self._channel = session.party.channel
        self._before = self._now()

    def _now(self) -> tuple[float, float, float, float]:
        channel = self._channel
        return (
            time.perf_counter(),
            time.process_time(),
            channel.waited,
            channel.copied,
        )

    def read(self) -> tuple[float, ...]:
        """Seconds since it was made: by the clock, of all threads, waiting, copying."""
        return tuple(b - a for b, a in zip(self._now(), self._before, strict=True))


def to_client(session: Session, value: HeldValue, name: str) -> Arrays:
    """What this party sends to the client of a value."""
    if isinstance(value, Shared):
        return reveal_to_client(session.party, value).to_arrays(name)
    return {name: np.asarray(value)}


def _context(request: RunPlan) -> bytes:
    """What the masks of a run are bound to."""
    turn = (request.turn.conversation, request.turn.number) if request.turn else None
    return json.dumps([request.plan, request.model, turn]).encode()


def _resumed(plan: Plan, state: State) -> Held:
    """The state that a plan continues from, with room for more."""
    if len(state) != len(plan.state):
        raise RequestError(
            "This party does not hold the state that the plan continues."
        )
    return {
        v: _grown(shared, spec, plan.values[v].fxp)
        for spec, shared in zip(plan.state, state, strict=True)
        for v in spec.encodings
    }


def _grown(shared: Shared, spec: InputSpec, kind: FxpType) -> Shared:
    """A state with room for more: zeros are shared as zeros, without a message."""
    room = [due - has for due, has in zip(spec.shape, shared.shape, strict=True)]
    if shared.type != kind or min(room, default=0) < 0:
        raise RequestError("The state does not fit the plan that is to continue it.")
    if not any(room):
        return shared
    widths = [(0, n) for n in room]
    return shared.map(lambda share: np.pad(share, widths))


def _reporter(session: Session, plan: Plan) -> Callable[[int], None]:
    """Reports each part of the model as it is reached, by the steps that talk."""
    last = ""

    def on_step(i: int) -> None:
        nonlocal last
        step = plan.steps[i]
        scope = part_of(step.scope) if step.kind.interactive else ""
        if scope and scope != last:
            last = scope
            session.report({"step": i, "steps": len(plan.steps), "scope": scope})

    return on_step


def _peak_memory() -> int:
    """Bytes; getrusage would also count the process that started this one."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) * 1024
