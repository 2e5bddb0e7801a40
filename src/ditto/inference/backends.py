"""Who computes a job: floats, the simulator, or three parties on shares.

All take the same inputs and give the same results, so whatever is written for one is
measured against the others.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import numpy as np

from ditto.compiler import Plan, Simulator
from ditto.compiler.local import Run, deal_input, opened, step_costs
from ditto.compiler.simulator import Headroom
from ditto.engine import ProcessTrio, Trio
from ditto.engine.frames import Arrays, Json
from ditto.errors import PlanError
from ditto.inference.jobs import Job, function_of
from ditto.inference.plans import Plans, grown
from ditto.models import Model
from ditto.party import forget, hold_plan, hold_weights, resources, run
from ditto.party.holdings import part_of

Mode = Literal["float", "simulate", "mpc"]
State = Any
OnPart = Callable[[str, int, int], None]
"""Told the part of the model that is being computed, the step and their number."""
OnStage = Callable[[str], None]
"""Told what is being prepared."""

_SPENT = ("seconds", "cpu", "waiting", "copies", "inside")
_CHUNK = 1 << 23
"""Elements of weights that are shared in one message."""


class Backend(ABC):
    """Computes jobs."""

    @abstractmethod
    def run(
        self, job: Job, inputs: Sequence[Any], state: State = None
    ) -> tuple[Any, State]:
        """The results of a job, and the state that the next one goes on with."""

    def release(self, state: State) -> None:  # noqa: B027  (most keep nothing)
        """The state will not be gone on with."""

    def close(self) -> None:  # noqa: B027  (most have nothing to close)
        """End whatever computes."""


class FloatBackend(Backend):
    """The model as it was trained."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._functions: dict[tuple[str, bool], Any] = {}

    def run(
        self, job: Job, inputs: Sequence[Any], state: State = None
    ) -> tuple[Any, State]:
        """See Backend."""
        key = job.kind, job.inside
        if key not in self._functions:
            self._functions[key] = jax.jit(function_of(self._model, job))
        given = [] if state is None else [grown(state, job.length)]
        result = self._functions[key](self._model.params, *inputs, *given)
        return _settled(job, result)


class SimulatedBackend(Backend):
    """The plan on plain integers; notes how close to their bounds values came."""

    def __init__(self, model: Model, plans: Plans) -> None:
        self._model, self._plans = model, plans
        self._simulators: dict[Job, Simulator] = {}
        self.headroom: dict[str, Headroom] = {}
        """The tightest tensor of every part of the model so far."""

    def run(
        self, job: Job, inputs: Sequence[Any], state: State = None
    ) -> tuple[Any, State]:
        """See Backend. Raises CapacityError if the parties' answer would be wrong."""
        if job not in self._simulators:
            self._simulators[job] = Simulator(self._plans.plan(job))
        given = [] if state is None else [grown(state, job.length)]
        found = self._simulators[job]((self._model.params, *inputs, *given))
        for head in found.headroom:
            part = part_of(head.scope) or "(rest)"
            if part not in self.headroom or head.bits < self.headroom[part].bits:
                self.headroom[part] = head
        return _settled(job, found.check().result)


class PartiesBackend(Backend):
    """Three parties on shares: those given, or three processes with TLS."""

    def __init__(
        self,
        model: Model,
        plans: Plans,
        trio: Trio | None = None,
        *,
        on_stage: OnStage | None = None,
        on_part: OnPart | None = None,
    ) -> None:
        self._model, self._plans = model, plans
        self._on_stage = on_stage or (lambda _: None)
        self._on_part = on_part
        self._own = trio is None
        self._trio = trio
        self._name = uuid.uuid4().hex
        self._starts = 0
        self._held: dict[Job, Plan] = {}
        self._shared: set[tuple[str, Any]] = set()
        self.runs: list[Run] = []
        """What every job cost, in order."""
        self.uploaded: list[int] = []
        """What the client sent to the parties for every job, in bytes."""
        self.spent: list[list[Json]] = []
        """For every job, how each party spent its seconds."""

    @property
    def trio(self) -> Trio:
        """The parties, started when they are first needed, and after an interrupt."""
        if self._trio is None or self._trio.interrupted:
            self._on_stage("starting three parties")
        if self._trio is None:
            self._trio = ProcessTrio(timeout=600.0)
        self._trio.restart()
        if self._trio.starts != self._starts:  # what was held is gone
            self._starts = self._trio.starts
            self._held.clear()
            self._shared.clear()
        return self._trio

    def run(
        self, job: Job, inputs: Sequence[Any], state: State = None
    ) -> tuple[Any, State]:
        """See Backend."""
        if job not in self._held:
            self._on_stage("calibrating and compiling")
        plan = self._plans.plan(job)
        try:
            self._hand_out(job, plan)
            return self._run(job, plan, inputs, state)
        except Exception:
            raise
        except BaseException:  # interrupted: who knows what the parties hold now
            if self._trio is not None:
                self._trio.interrupt()
            raise

    def _run(
        self, job: Job, plan: Plan, inputs: Sequence[Any], state: State
    ) -> tuple[Any, State]:
        dealt = self._deal(job, plan, inputs)
        name = state if state is not None else (uuid.uuid4().hex if job.keep else None)
        replies = self.trio.call(
            run,
            {"plan": plan.digest, "model": self._name, "state": name},
            dealt,
            on_progress=self._show,
        )
        result = opened(plan, [arrays for _, arrays in replies])
        costs = [reply for reply, _ in replies]
        seconds = max(c["seconds"] for c in costs)
        self.uploaded.append(sum(a.nbytes for arrays in dealt for a in arrays.values()))
        self.runs.append(Run(None, step_costs(plan, costs), seconds))
        self.spent.append([{k: c[k] for k in _SPENT} for c in costs])
        return (result[0], name) if job.keep else (result, None)

    def _show(self, rank: int, said: Json) -> None:
        if rank == 0 and self._on_part is not None:
            self._on_part(said["scope"], said["step"], said["steps"])

    def release(self, state: State) -> None:
        """See Backend."""
        if state is None or self._trio is None or self._trio.interrupted:
            return  # there is none
        self._trio.call(forget, {"state": state})

    def peak_memory(self) -> list[int]:
        """The most bytes that the process of each party has held."""
        return [reply["peak_rss"] for reply, _ in self.trio.call(resources)]

    def close(self) -> None:
        """See Backend."""
        if self._own and self._trio is not None:
            self._trio.close()
            self._trio = None
            self._held.clear()
            self._shared.clear()

    def _hand_out(self, job: Job, plan: Plan) -> None:
        """Have all parties hold the plan of a job and the weights it needs."""
        trio = self.trio
        if job in self._held:
            return
        self._on_stage("handing out the plan")
        data = np.frombuffer(plan.to_bytes(), np.uint8)
        replies = trio.call(hold_plan, arrays=[{"plan": data}] * 3)
        if any(reply["digest"] != plan.digest for reply, _ in replies):
            raise RuntimeError("A party made another plan of the same bytes.")
        self._on_stage("sharing the weights")
        self._share_weights(plan)
        self._held[job] = plan

    def _share_weights(self, plan: Plan) -> None:
        """The owner's part: shares of what no plan before has used in this type."""
        leaves = jax.tree_util.tree_leaves(self._model.params)
        chunk: list[int] = []
        size = 0
        for k, leaf in enumerate(leaves):
            forms = _forms(plan, k)
            if forms <= self._shared:
                continue
            chunk.append(k)
            size += leaf.size * len(forms)
            if size > _CHUNK:
                self._send_weights(plan, chunk, leaves)
                chunk, size = [], 0
        if chunk:
            self._send_weights(plan, chunk, leaves)

    def _send_weights(self, plan: Plan, chunk: list[int], leaves: list[Any]) -> None:
        dealt: list[Arrays] = [{}, {}, {}]
        for k in chunk:
            parts = deal_input(plan, plan.inputs[k], leaves[k])
            for arrays, part in zip(dealt, parts, strict=True):
                arrays.update(part)
        parameters = {"plan": plan.digest, "model": self._name, "inputs": chunk}
        self.trio.call(hold_weights, parameters, dealt)
        self._shared.update(*(_forms(plan, k) for k in chunk))

    @staticmethod
    def _deal(job: Job, plan: Plan, inputs: Sequence[Any]) -> list[Arrays]:
        """The client's part: shares of what it asks, public lengths as they are."""
        asked = [g for g in plan.inputs if g.role in ("secret", "public")]
        for k, given in enumerate(asked, 1):  # argument 0 is the weights
            if given.role == "public" and k not in job.public:
                raise PlanError(f"The plan would make {given.name} public.")
        dealt: list[Arrays] = [{}, {}, {}]
        for given, value in zip(asked, inputs, strict=True):
            parts = deal_input(plan, given, value)
            for arrays, part in zip(dealt, parts, strict=True):
                arrays.update(part)
        return dealt


def _forms(plan: Plan, index: int) -> set[tuple[str, Any]]:
    """An input by name, in each type that the plan takes it in."""
    given = plan.inputs[index]
    return {(given.name, plan.values[v].type) for v in given.forms}


def _settled(job: Job, result: Any) -> tuple[Any, State]:
    if not job.keep:
        return jax.tree.map(np.asarray, result), None
    answer, cache = result
    return np.asarray(answer), cache
