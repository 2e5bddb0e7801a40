"""Run a plan here, with three parties: to try it, to test it, to measure it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ditto.compiler.execute import execute, prepare
from ditto.compiler.plan import Input, Plan, Value, is_one_hot
from ditto.engine import ProcessTrio, Session, ThreadTrio, Trio
from ditto.engine.frames import Arrays, Json
from ditto.errors import SetupError
from ditto.fixedpoint import decode, encode
from ditto.protocols import open_at_client, reveal_to_client
from ditto.sharing import Shared, deal


@dataclass(frozen=True)
class StepCost:
    """One step of a run: bytes of all parties, rounds, seconds of the slowest."""

    op: str
    scope: str
    bytes: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """What the client got, and what it cost."""

    result: Any
    steps: tuple[StepCost, ...]

    @property
    def bytes(self) -> int:
        """Sent by all parties together."""
        return sum(step.bytes for step in self.steps)

    @property
    def rounds(self) -> int:
        """Of all steps, one after the other."""
        return sum(step.rounds for step in self.steps)

    @property
    def seconds(self) -> float:
        """Of the slowest party in every step."""
        return sum(step.seconds for step in self.steps)

    def by_scope(self) -> dict[str, StepCost]:
        """Costs summed over each scope, in order of appearance."""
        found: dict[str, StepCost] = {}
        for step in self.steps:
            held = found.get(step.scope, StepCost("", step.scope, 0, 0, 0.0))
            found[step.scope] = StepCost(
                "",
                step.scope,
                held.bytes + step.bytes,
                held.rounds + step.rounds,
                held.seconds + step.seconds,
            )
        return found


def run_local(
    plan: Plan,
    arguments: Sequence[Any],
    *,
    processes: bool = False,
    trio: Trio | None = None,
) -> Run:
    """Run the plan with three parties of this machine and open the result.

    The parties are threads, or with ``processes`` three processes over TLS links.
    ``trio`` takes parties that are already there, and leaves them there.
    """
    shares = deal_arguments(plan, arguments)
    if trio is not None:
        return _run(plan, shares, trio)
    prepare(plan)  # a refusal comes before any party starts
    with ProcessTrio() if processes else ThreadTrio() as parties:
        return _run(plan, shares, parties)


def deal_arguments(plan: Plan, arguments: Sequence[Any]) -> list[Arrays]:
    """What each party gets of the arguments, as arrays by value."""
    leaves = jax.tree_util.tree_leaves(tuple(arguments))
    if len(leaves) != len(plan.inputs):
        raise SetupError(
            f"The plan takes {len(plan.inputs)} arrays, got {len(leaves)}."
        )
    dealt: list[Arrays] = [{}, {}, {}]
    for given, leaf in zip(plan.inputs, leaves, strict=True):
        array = np.asarray(leaf)
        if array.shape != given.shape:
            raise SetupError(
                f"{given.name} has shape {given.shape} in the plan, got {array.shape}. "
                f"A plan is made for one shape; pad, or compile another."
            )
        for v in given.forms:
            kind = plan.values[v].type
            if kind is None:
                for arrays in dealt:
                    arrays[f"public{v}"] = array.astype(given.dtype)
                continue
            plain = form_of(given, plan.values[v], array)
            shares = deal(encode(plain, kind, name=given.name), kind)
            for arrays, share in zip(dealt, shares, strict=True):
                arrays[f"first{v}"], arrays[f"second{v}"] = share.first, share.second
    return dealt


def form_of(given: Input, form: Value, array: Any) -> Any:
    """An argument in one of the forms a plan takes it in."""
    if not is_one_hot(given, form):
        return array
    depth = form.shape[-1]
    if array.size and not (array.min() >= 0 and array.max() < depth):
        raise SetupError(
            f"{given.name} holds an index outside 0..{depth - 1}, the table's rows."
        )
    return np.arange(depth) == np.asarray(array)[..., None]


def held_arguments(plan: Plan, arrays: Arrays) -> dict[int, Any]:
    """The inverse of ``deal_arguments``, at a party."""
    held: dict[int, Any] = {}
    for given in plan.inputs:
        for v in given.forms:
            kind = plan.values[v].type
            if kind is None:
                held[v] = arrays[f"public{v}"]
            else:
                held[v] = Shared(arrays[f"first{v}"], arrays[f"second{v}"], kind)
    return held


def run_plan(session: Session, _: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """What each party does."""
    plan = Plan.from_bytes(arrays["plan"].tobytes())
    return run_held_plan(plan, session, arrays)


def run_held_plan(plan: Plan, session: Session, arrays: Arrays) -> tuple[Json, Arrays]:
    """As ``run_plan``, when the plan is at hand."""
    outputs, spent = execute(plan, session, held_arguments(plan, arrays))
    results: Arrays = {}
    for k, output in enumerate(outputs):
        shared = isinstance(output, Shared)
        array = reveal_to_client(session.party, output) if shared else output
        results[str(k)] = np.asarray(array)
    costs = [[s.bytes, s.rounds, s.seconds] for s in spent]
    return {"steps": costs}, results


def _run(plan: Plan, shares: list[Arrays], trio: Trio) -> Run:
    if isinstance(trio, ThreadTrio):
        replies = trio.call(
            lambda session, _, arrays: run_held_plan(plan, session, arrays),
            arrays=shares,
        )
    else:
        data = np.frombuffer(plan.to_bytes(), np.uint8)
        replies = trio.call(run_plan, arrays=[{"plan": data, **s} for s in shares])
    steps = step_costs(plan, [reply for reply, _ in replies])
    return Run(opened(plan, [arrays for _, arrays in replies]), steps)


def step_costs(plan: Plan, replies: Sequence[Json]) -> tuple[StepCost, ...]:
    """What every step cost the three parties, from what each counted."""
    spent = zip(*(reply["steps"] for reply in replies), strict=True)
    return tuple(
        StepCost(
            step.op,
            step.scope,
            sum(s[0] for s in parties),
            max(s[1] for s in parties),
            max(s[2] for s in parties),
        )
        for step, parties in zip(plan.steps, spent, strict=True)
    )


def opened(plan: Plan, replies: Sequence[Arrays]) -> Any:
    """The result, from what the three parties sent to the client."""
    results = []
    for k, output in enumerate(plan.outputs):
        arrays = [reply[str(k)] for reply in replies]
        kind = plan.values[output.value].type
        if kind is None:
            results.append(arrays[0].astype(output.dtype))
            continue
        numbers = decode(open_at_client(arrays, kind), kind)
        whole = output.dtype != "float32"
        results.append((np.rint(numbers) if whole else numbers).astype(output.dtype))
    return plan.arrange(results)
