"""Who runs a computation: floats, the simulator, or three parties on shares.

All take the same inputs and give the same results, so whatever is written for one is
measured against the others.
"""

import contextlib
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

import jax
import numpy as np

from ditto.api.local import Run, audit_costs, audit_text, step_costs
from ditto.api.warm import WarmDeployment
from ditto.client import (
    Signature,
    answer_in_range,
    open_outputs,
    share_question,
)
from ditto.errors import WarmProcessError, WarmWarning
from ditto.files import warm_socket
from ditto.fixedpoint import Array
from ditto.frames import Arrays
from ditto.launch import Launched
from ditto.models import Model
from ditto.models.computation import Computation, function_of
from ditto.models.family import Cache
from ditto.owner import Publisher
from ditto.owner.plans import Plans, grown
from ditto.party import LocalDeployment
from ditto.plan import Audit, Plan, Tree, check_audit, part_of
from ditto.runtime import Trio
from ditto.simulation import Headroom, Simulated, Simulator
from ditto.wire import (
    Deployment,
    DropState,
    Json,
    PartyStatus,
    RunPlan,
    Status,
    Turn,
)

Mode = Literal["float", "simulate", "mpc"]
State = Cache | Turn | None
"""What the next computation continues: the cache, or the turn at the parties."""
OnPart = Callable[[str, int, int], None]
"""Called with the part of the model that is computed, the step, and how many there
are."""
OnStage = Callable[[str], None]
"""Called with what is being prepared."""

AT_ONCE = 16
"""Texts that are simulated at once, if they are short."""
_TOKENS_AT_ONCE = 2048
_SPENT = ("seconds", "cpu", "waiting", "copies", "inside")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a computation."""

    result: Tree
    state: State = None
    """What the next computation continues."""
    in_range: bool | None = None
    """Whether no value left its range; None if nobody has looked."""
    wide: bool = False
    """Whether it is the plan with wide margins that gave it."""


class Backend(ABC):
    """Runs computations."""

    def at_once(self, length: int) -> int:
        """How many texts of a length one call may hold, of a plan that takes one."""
        del length
        return 1

    @abstractmethod
    def run(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> Outcome:
        """The results of a computation, and the state that the next one continues."""

    def release(self, state: State) -> None:  # noqa: B027  (most keep nothing)
        """Free a state that will not be continued."""

    def close(self) -> None:  # noqa: B027  (most have nothing to close)
        """End whatever computes."""


class FloatBackend(Backend):
    """The model as it was trained."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._functions: dict[tuple[str, str], Callable[..., Tree]] = {}

    def run(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> Outcome:
        """See Backend."""
        key = computation.phase, computation.reveal
        if key not in self._functions:
            self._functions[key] = jax.jit(function_of(self._model, computation))
        given = [] if state is None else [grown(cast(Cache, state), computation.length)]
        result = self._functions[key](self._model.params, *inputs, *given)
        return Outcome(*_settled(computation, result))


class SimulatedBackend(Backend):
    """The plan on plain integers; notes how close to their bounds values came."""

    def __init__(self, plans: Plans, on_stage: OnStage | None = None) -> None:
        self._plans = plans
        self._on_stage = on_stage or (lambda _: None)
        self._simulators: dict[Computation, Simulator] = {}
        self._at_once: dict[Computation, int] = {}
        self.headroom: dict[str, Headroom] = {}
        """The tightest tensor of every part of the model so far."""

    def run(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> Outcome:
        """See Backend. Raises CapacityError if the parties' answer would be wrong."""
        if state is None and len(inputs[0]) > computation.batch_size:
            every = self.simulate_each(computation, inputs)
            results = [np.asarray(each.check().result) for each in every]
            return Outcome(np.concatenate(results), in_range=True)
        simulator = self._simulator(computation)
        given = [] if state is None else [grown(cast(Cache, state), computation.length)]
        found = simulator((self._plans.model.params, *inputs, *given))
        self._note(found)
        return Outcome(*_settled(computation, found.check().result), in_range=True)

    def at_once(self, length: int) -> int:
        """See Backend: as many as do not take much memory."""
        return max(1, min(AT_ONCE, _TOKENS_AT_ONCE // length))

    def simulate_each(
        self, computation: Computation, inputs: Sequence[Array]
    ) -> list[Simulated]:
        """Several batches at once, each as if it were alone."""
        count = len(inputs[0]) // computation.batch_size
        parts = zip(*(np.split(x, count) for x in inputs), strict=True)
        params = self._plans.model.params
        arguments = [(params, *part) for part in parts]
        compiled = max(self._at_once.get(computation, 0), count)
        self._at_once[computation] = compiled  # repeats cost less than to compile anew
        arguments += [arguments[-1]] * (compiled - count)
        found = self._simulator(computation).many(arguments)[:count]
        for each in found:
            self._note(each)
        return found

    def _simulator(self, computation: Computation) -> Simulator:
        if computation not in self._simulators:
            plan = self._plans.plan(computation, self._on_stage)
            self._on_stage("compiling the simulator")
            self._simulators[computation] = Simulator(plan)
        return self._simulators[computation]

    def _note(self, found: Simulated) -> None:
        for head in found.headroom:
            part = part_of(head.scope) or "(rest)"
            if part not in self.headroom or head.bits < self.headroom[part].bits:
                self.headroom[part] = head


class PartiesBackend(Backend):
    """Three parties on shares: those given, or three processes with TLS.

    Composed of an owner that publishes plans and weights to the parties, and a client
    that shares what it asks and opens the answer. If ``warm``, the parties of a process
    that keeps them serve, where there is one with this model.
    """

    def __init__(
        self,
        plans: Plans,
        trio: Trio | Launched | None = None,
        *,
        on_stage: OnStage | None = None,
        on_part: OnPart | None = None,
        cache: Path | None = None,
        warm: bool = False,
        audit: Audit = "off",
    ) -> None:
        self._audit = check_audit(audit)
        self._plans = plans
        self._warm: WarmDeployment | None = None
        self._may_be_warm = warm
        self._on_stage = on_stage or (lambda _: None)
        self._on_part = on_part
        self._deployment = LocalDeployment(trio, cache)
        self._model = uuid.uuid4().hex
        self.runs: list[Run] = []
        """What every computation cost, in order."""
        self.uploaded: list[int] = []
        """What the client sent to the parties for every computation, in bytes."""
        self.spent: list[list[Json]] = []
        """For every computation, how each party spent its seconds."""
        self.dealt: Sequence[Arrays] = ()
        """What each party got of the last question."""

    @cached_property
    def _owner(self) -> Publisher:
        weights = jax.tree_util.tree_leaves(self._plans.model.params)
        return Publisher(self._deployment, self._model, "local", weights)

    @property
    def trio(self) -> Trio:
        """The parties, started when they are first needed, and after an interrupt."""
        if not self._deployment.running:
            self._on_stage("starting three parties")
        return self._deployment.trio

    def run(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> Outcome:
        """See Backend."""
        if self._may_be_warm and not self._deployment.running:
            self._may_be_warm = False
            if warm_socket().exists():
                self._warm = WarmDeployment.find(self._plans.identity)
            if self._warm is not None:
                self._on_stage("found the parties of ditto serve")
        if self._warm is None:
            self._deployment.launch()  # they import while the plan is made
        plan = self._plans.plan(computation, self._on_stage)
        turn = cast(Turn | None, state)
        if self._warm is not None:
            try:
                return self._run_warm(self._warm, computation, plan, inputs, turn)
            except WarmProcessError as lost:
                warnings.warn(f"{lost} Going on alone.", WarmWarning, stacklevel=2)
                if turn is not None:  # which they alone could continue
                    raise
        try:
            _ = self.trio  # started before anything is shared
            signature = self._owner.publish(plan, self._on_stage)
            parties = self._deployment, self._model
            return self._run(*parties, computation, plan, signature, inputs, turn)
        except Exception:
            raise
        except BaseException:  # interrupted: who knows what the parties hold now
            self._deployment.interrupt()
            raise

    def _run_warm(
        self,
        warm: WarmDeployment,
        computation: Computation,
        plan: Plan,
        inputs: Sequence[Array],
        turn: Turn | None,
    ) -> Outcome:
        """At the parties of the warm process."""
        try:
            signature = warm.publish(plan, self._on_stage)
            return self._run(
                warm, warm.model, computation, plan, signature, inputs, turn
            )
        except WarmProcessError:
            self._warm = None
            warm.close()
            raise
        except Exception:
            raise
        except BaseException:  # interrupted: its answer would come to the next call
            self._warm, self._may_be_warm = None, True
            warm.close()
            raise

    def _run(
        self,
        deployment: Deployment,
        model: str,
        computation: Computation,
        plan: Plan,
        signature: Signature,
        inputs: Sequence[Array],
        turn: Turn | None,
    ) -> Outcome:
        public = [k - 1 for k in computation.public_argnums]  # after the weights
        dealt = share_question(signature, inputs, public)
        if turn is None and computation.retain_outputs:
            turn = Turn(uuid.uuid4().hex)
        replies = deployment.call(
            [
                RunPlan(model, signature.digest, turn, arrays, audit=self._audit)
                for arrays in dealt
            ],
            on_progress=self._show,
        )
        sent = [reply.arrays for reply in replies]
        result, in_range = (
            open_outputs(signature, sent),
            answer_in_range(signature, sent),
        )
        seconds = max(reply.seconds for reply in replies)
        steps = step_costs(plan, [reply.steps for reply in replies])
        steps += audit_costs([reply.audit for reply in replies])
        self.dealt = dealt
        self.uploaded.append(sum(a.nbytes for arrays in dealt for a in arrays.values()))
        covered = audit_text(plan, self._audit)
        self.runs.append(Run(None, steps, seconds, in_range, plan.digest, covered))
        self.spent.append([{k: getattr(r, k) for k in _SPENT} for r in replies])
        if turn is None:
            return Outcome(result, in_range=in_range)
        return Outcome(result[0], turn.next, in_range)

    def _show(self, rank: int, progress: Json) -> None:
        if rank == 0 and self._on_part is not None:
            self._on_part(progress["scope"], progress["step"], progress["steps"])

    def release(self, state: State) -> None:
        """See Backend."""
        if not isinstance(state, Turn):
            return
        if self._warm is not None:
            with contextlib.suppress(WarmProcessError):
                self._warm.call_all(DropState(state.conversation))
        elif self._deployment.running:
            self._deployment.call_all(DropState(state.conversation))

    def peak_memory(self) -> list[int]:
        """The most bytes that the process of each party has held."""
        return [reply.peak_memory for reply in self.status()]

    def status(self) -> list[PartyStatus]:
        """What each party keeps."""
        return (self._warm or self._deployment).call_all(Status())

    def close(self) -> None:
        """See Backend."""
        if self._warm is not None:
            self._warm.close()
            self._warm, self._may_be_warm = None, True
        self._deployment.close()


def _settled(computation: Computation, result: Tree) -> tuple[Tree, State]:
    if not computation.retain_outputs:
        return jax.tree.map(np.asarray, result), None
    answer, cache = result
    return np.asarray(answer), cache
