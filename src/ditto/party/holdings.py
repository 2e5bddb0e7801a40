"""What a party does when it is asked: every function here runs at all three.

Each checks all that it is given before it changes or sends anything, so that a call
which is refused leaves the party as it was.

A party holds plans by digest, a model's weights in the types that plans use them in,
and for every running conversation its state, the kept results of the run before. It
sees shares, public lengths and positions, and what the plan says; never a plain value.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ditto.compiler.execute import execute, keep_weights, prepare
from ditto.compiler.local import held_input
from ditto.compiler.plan import TALKING, Input, Plan
from ditto.engine import Region, Runtimes, Session
from ditto.engine.frames import Arrays, Json
from ditto.errors import MessageError
from ditto.fixedpoint import FxpType
from ditto.protocols import reveal_to_client
from ditto.protocols.kernels import resident
from ditto.sharing import Shared

Reply = tuple[Json, Arrays]


@dataclass
class Holdings:
    """All that a party keeps between calls."""

    plans: dict[str, tuple[Plan, list[Region]]] = field(default_factory=dict)
    weights: dict[tuple[str, str, FxpType], Shared] = field(default_factory=dict)
    """By the model's name, the input's name, and the type."""
    states: dict[str, list[Shared]] = field(default_factory=dict)
    runtimes: Runtimes | None = None
    """What SPU's regions run on, if not on the session's own runtimes."""

    def plan(self, digest: str) -> tuple[Plan, list[Region]]:
        """A plan that was handed over before."""
        if digest not in self.plans:
            raise MessageError("This party does not hold that plan.")
        return self.plans[digest]


def holdings(session: Session) -> Holdings:
    """What the party of a session keeps."""
    held = session.holdings.setdefault("party", Holdings())
    if not isinstance(held, Holdings):
        raise TypeError("The holdings of a session belong to its party.")
    return held


def hold_plan(session: Session, _: Json, arrays: Arrays) -> Reply:
    """Take a plan, check it, and compile its regions; answers with its digest."""
    plan = Plan.from_bytes(arrays["plan"].tobytes())
    holdings(session).plans[plan.digest] = (plan, prepare(plan))
    return {"digest": plan.digest}, {}


def hold_weights(session: Session, parameters: Json, arrays: Arrays) -> Reply:
    """Take shares of weights, in forms that a plan names."""
    kept = holdings(session)
    plan, _ = kept.plan(parameters["plan"])
    added: dict[tuple[str, str, FxpType], Shared] = {}
    for index in parameters["inputs"]:
        if not 0 <= index < len(plan.inputs) or plan.inputs[index].role != "weight":
            raise MessageError("Weights were sent for what is no weight of the plan.")
        given = plan.inputs[index]
        for v, shared in held_input(plan, given, arrays).items():
            key = parameters["model"], given.name, plan.values[v].fxp
            if key in kept.weights or key in added:
                raise MessageError(f"This party has shares of {given.name} already.")
            added[key] = resident(shared)
    kept.weights |= added  # all or, after a refusal, none
    return {}, {}


def run(session: Session, parameters: Json, arrays: Arrays) -> Reply:
    """Run a plan on the client's shares; sends the client its part of the answer.

    ``model`` names whose weights are meant, ``state`` the conversation whose state is
    taken up and left, if the plan keeps any.
    """
    kept = holdings(session)
    plan, regions = kept.plan(parameters["plan"])
    name = parameters.get("state")
    held = _held(kept, plan, arrays, parameters["model"], name)
    session.begin()
    if plan.state:
        del kept.states[name or ""]
    runtimes = None
    if plan.regions:
        runtimes = kept.runtimes or session.runtimes
        keep_weights(plan, regions, runtimes, held)
    watch = Stopwatch(session)
    outputs, spent = execute(
        plan,
        session,
        held,
        regions=regions,
        runtimes=runtimes,
        on_step=_reporter(session, plan),
    )
    results: Arrays = {}
    state: list[Shared] = []
    for k, (output, value) in enumerate(zip(plan.outputs, outputs, strict=True)):
        if output.kept:
            state.append(value)
        elif isinstance(value, Shared):
            results[str(k)] = reveal_to_client(session.party, value)
        else:
            results[str(k)] = np.asarray(value)
    if name is not None and state:
        kept.states[name] = state
    costs = [[s.bytes, s.rounds, s.seconds] for s in spent]
    inside = sum(s.seconds for s in spent)
    return {"steps": costs, "inside": inside, **watch.read()}, results


class Stopwatch:
    """How long a party took, and what it did meanwhile."""

    def __init__(self, session: Session) -> None:
        self._channel = session.party.channel
        self._before = self._now()

    def _now(self) -> tuple[float, ...]:
        channel = self._channel
        return (
            time.perf_counter(),
            time.process_time(),
            channel.waited,
            channel.copied,
        )

    def read(self) -> Json:
        """Seconds since it was made: by the clock, of all threads, waiting, copying."""
        names = ("seconds", "cpu", "waiting", "copies")
        pairs = zip(self._now(), self._before, strict=True)
        return dict(zip(names, (b - a for b, a in pairs), strict=True))


def forget(session: Session, parameters: Json, _: Arrays) -> Reply:
    """Drop the state of a conversation."""
    holdings(session).states.pop(parameters["state"], None)
    return {}, {}


def resources(session: Session, _: Json, __: Arrays) -> Reply:
    """The most memory this party's process has held so far, in bytes."""
    held = holdings(session)
    weights = sum(w.first.nbytes + w.second.nbytes for w in held.weights.values())
    return {"peak_rss": _peak_memory(), "weights": weights}, {}


def _peak_memory() -> int:
    """Bytes; getrusage would also count the process that started this one."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) * 1024


def _held(
    kept: Holdings, plan: Plan, arrays: Arrays, model: str, name: str | None
) -> dict[int, Any]:
    held: dict[int, Any] = {}
    for given in plan.inputs:
        if given.role == "weight":
            for v in given.forms:
                shared = kept.weights.get((model, given.name, plan.values[v].fxp))
                if shared is None or shared.shape != given.shape:
                    raise MessageError(f"This party has no shares of {given.name}.")
                held[v] = shared
        elif given.role != "state":
            held |= held_input(plan, given, arrays)
    if not plan.state:
        if name in kept.states:
            raise MessageError("A conversation that goes on cannot begin again.")
        return held
    state = kept.states.get(name or "")
    if state is None or len(state) != len(plan.state):
        raise MessageError("This party does not hold the state that the plan goes on.")
    for given, shared in zip(plan.state, state, strict=True):
        for v in given.forms:
            held[v] = grown(shared, given, plan.values[v].fxp)
    return held


def grown(shared: Shared, given: Input, kind: FxpType) -> Shared:
    """A state with room for more: zeros are shared as zeros, without a message."""
    room = [due - has for due, has in zip(given.shape, shared.shape, strict=True)]
    if shared.type != kind or min(room, default=0) < 0:
        raise MessageError("The state does not fit the plan that is to go on with it.")
    if not any(room):
        return shared
    widths = [(0, n) for n in room]
    return shared.map(lambda share: np.pad(share, widths))


def _reporter(session: Session, plan: Plan) -> Any:
    """Reports each part of the model as it is reached, by the steps that talk."""
    last = ""

    def on_step(i: int) -> None:
        nonlocal last
        step = plan.steps[i]
        scope = part_of(step.scope) if step.op in TALKING else ""
        if scope and scope != last:
            last = scope
            session.report({"step": i, "steps": len(plan.steps), "scope": scope})

    return on_step


def part_of(scope: str) -> str:
    """The part of a model that a scope belongs to: its first name."""
    return scope.split("/", maxsplit=1)[0]
