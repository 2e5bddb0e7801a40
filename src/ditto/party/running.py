"""A run of a plan at one party: admitted, reserved, executed.

``admit`` checks all that a request brings and changes nothing, so a queue may hold what
it returns. ``reserve`` takes the state of the conversation out of the store, so that
the run cannot be refused any more, and ``execute`` takes the steps with the other
parties and commits the new state at the end. A run that failed or was given up leaves
the old state where it was.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ditto.errors import RequestError, StateLostError
from ditto.fixedpoint import FxpType
from ditto.party.comparison import Comparison, ShareDigests
from ditto.party.inputs import Held, receive_input
from ditto.party.lots import is_drawn
from ditto.party.store import HeldPlan, PartyStore, State
from ditto.plan import RANGE_WORD, InputSpec, Plan, part_of
from ditto.protocols import reveal_range_word, reveal_to_client
from ditto.runtime import Session
from ditto.runtime.auditing import Proofs, noting, part_ends
from ditto.runtime.executor import Spent, keep_weights
from ditto.runtime.executor import execute as execute_plan
from ditto.sharing import Shared
from ditto.steps.base import Held as HeldValue
from ditto.steps.base import as_shared
from ditto.steps.coverage import check_coverage
from ditto.wire import Arrays, RunPlan, RunReply


@dataclass(frozen=True, eq=False)
class Admitted:
    """A run that nothing speaks against at this party."""

    request: RunPlan
    client: str
    """Who asks; states belong to whoever began them."""
    held_plan: HeldPlan = field(repr=False)
    held: Held = field(repr=False)
    digests: dict[int, ShareDigests] = field(repr=False)

    @property
    def begins(self) -> bool:
        """Whether the run begins a conversation, if it is part of one."""
        return not self.held_plan.plan.state


def admit(store: PartyStore, request: RunPlan, client: str = "") -> Admitted:
    """Check everything that a request brings; raises RequestError."""
    held_plan = store.plan(request.model, request.plan)
    plan, turn = held_plan.plan, request.turn
    keeps = any(output.retained for output in plan.outputs)
    if (turn is not None) != bool(keeps or plan.state):
        raise RequestError(
            "A run names the turn of a conversation if and only if its plan keeps "
            "a state."
        )
    check_coverage(plan, request.audit)
    held, digests = _held(store, plan, request)
    return Admitted(request, client, held_plan, held, digests)


def reserve(store: PartyStore, run: Admitted) -> State:
    """Take the state that a run continues; nobody else gets it meanwhile.

    ``execute`` or ``release`` follows.
    """
    if run.request.turn is None:
        return ()
    state = store.check_out(
        run.request.turn,
        run.request.model,
        run.request.plan,
        begins=run.begins,
        client=run.client,
    )
    try:
        _resumed(run.held_plan.plan, state)
    except BaseException:
        release(store, run)
        raise
    return state


def release(store: PartyStore, run: Admitted) -> None:
    """Give back what was reserved for a run that does not take place."""
    if run.request.turn is not None:
        store.give_back(run.request.turn)


def execute(
    store: PartyStore, session: Session, run: Admitted, state: State
) -> RunReply:
    """Run a plan on the client's shares; answers with this party's summands.

    It answers, and keeps a state, only if the three parties were given the same, and if
    the proofs that were asked for are right.
    """
    request, turn = run.request, run.request.turn
    committed = False
    try:
        held = run.held | _resumed(run.held_plan.plan, state)
        session.begin()  # from here on the parties take steps together
        with session.run(_context(request)), noting(session, request.audit):
            reply, left = _compute(session, run, held)
        if turn is not None:
            store.commit(turn, request.plan, left)
        committed = True
        return reply
    finally:
        if not committed:
            release(store, run)


def _held(
    store: PartyStore, plan: Plan, request: RunPlan
) -> tuple[Held, dict[int, ShareDigests]]:
    """Weights from the store, with their digests, and the client's inputs."""
    held: Held = {}
    digests: dict[int, ShareDigests] = {}
    for spec in plan.inputs:
        if spec.role == "weight":
            for v in spec.encodings:
                key = request.model, spec.name, plan.values[v].fxp
                weight = store.weight(key)
                if weight is None or weight[0].shape != spec.shape:
                    raise RequestError(f"This party has no shares of {spec.name}.")
                held[v], digests[v] = weight
        elif spec.role != "state":
            held |= receive_input(plan, spec, request.arrays)
    return held, digests


def _compute(session: Session, run: Admitted, held: Held) -> tuple[RunReply, State]:
    plan, regions = run.held_plan.plan, run.held_plan.regions
    comparison = Comparison(session, held, run.digests)
    runtimes = None
    if plan.regions:
        runtimes = session.runtimes
        keep_weights(plan, regions, runtimes, held)
    stopwatch = Stopwatch(session)
    report, proofs = _reporter(session, plan), _proofs(session, run, comparison)

    def on_step(i: int) -> None:
        report(i)
        if proofs is not None:
            proofs.on_step(i)

    outputs, spent = execute_plan(
        plan, session, held, regions=regions, runtimes=runtimes, on_step=on_step
    )
    proved = _proved(session, run.request, comparison, proofs)
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
        audit=None if proved is None else (proved.bytes, proved.rounds, proved.seconds),
    )
    return reply, tuple(state)


def _proofs(session: Session, run: Admitted, comparison: Comparison) -> Proofs | None:
    """Of a run that may be audited: in parts, unless that is a secret until its end."""
    if run.request.audit == "off":
        return None
    if run.request.lot is not None:
        return Proofs(session)
    ends = part_ends(run.held_plan.plan)
    return Proofs(session, ends, partial(comparison.check, told=True))


def _proved(
    session: Session,
    request: RunPlan,
    comparison: Comparison,
    proofs: Proofs | None,
) -> Spent | None:
    """The end of a run: what its proofs cost, if there are any."""
    if proofs is None:
        comparison.check(told=False)
        return None
    if request.lot is not None:
        comparison.check(told=True)
        if not is_drawn(session, request.lot):
            return None
    return proofs.finish()


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
    bound = [request.plan, request.model, turn, request.request_id]
    if request.audit != "off":
        bound.append(request.audit)
        bound += [] if request.lot is None else request.lot.digests
    return json.dumps(bound).encode()


def _resumed(plan: Plan, state: State) -> Held:
    """The state that a plan continues from, with room for more."""
    if len(state) != len(plan.state):
        raise StateLostError
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
    """Reports each part of the model as it is reached, by the steps that talk, and the
    first of these in any case: who asked then knows that the run has begun."""
    last = ""

    def on_step(i: int) -> None:
        nonlocal last
        step = plan.steps[i]
        if not step.kind.interactive:
            return
        scope = part_of(step.scope) or last or "the function"
        if scope != last:
            last = scope
            session.report({"step": i, "steps": len(plan.steps), "scope": scope})

    return on_step
