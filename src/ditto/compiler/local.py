"""Run a plan here, with three parties: to try it, to test it, to measure it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ditto.compiler.execute import execute, prepare
from ditto.compiler.plan import Input, Plan, Value, is_indices
from ditto.engine import ProcessTrio, Session, ThreadTrio, Trio
from ditto.engine.frames import Arrays, Json
from ditto.errors import MessageError, SetupError
from ditto.fixedpoint import decode, encode
from ditto.protocols import open_at_client, reveal_to_client
from ditto.sharing import Shared, SharedIndices, deal, deal_indices


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
    seconds: float
    """Of the slowest party, from the first step to the last."""

    @property
    def bytes(self) -> int:
        """Sent by all parties together."""
        return sum(step.bytes for step in self.steps)

    @property
    def rounds(self) -> int:
        """Of all steps, one after the other."""
        return sum(step.rounds for step in self.steps)

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
    """Run the plan with three parties of this machine and open all results.

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
        for arrays, part in zip(dealt, deal_input(plan, given, leaf), strict=True):
            arrays.update(part)
    return dealt


def deal_input(plan: Plan, given: Input, leaf: Any) -> list[Arrays]:
    """What each party gets of one argument, in all its forms."""
    array = np.asarray(leaf)
    if array.shape != given.shape:
        raise SetupError(
            f"{given.name} has shape {given.shape} in the plan, got {array.shape}. "
            f"A plan is made for one shape; pad, or compile another."
        )
    dealt: list[Arrays] = [{}, {}, {}]
    for v in given.forms:
        form = plan.values[v]
        if form.type is None:
            for arrays in dealt:
                arrays[f"public{v}"] = array.astype(given.dtype)
        elif is_indices(given, form):
            depth = check_indices(given, form, array)
            indices = deal_indices(array, depth=depth, bits=form.type.bits)
            for arrays, held in zip(dealt, indices, strict=True):
                arrays[f"keys{v}"] = held.keys
        else:
            shares = deal(encode(array, form.type, name=given.name), form.type)
            for arrays, share in zip(dealt, shares, strict=True):
                arrays[f"first{v}"], arrays[f"second{v}"] = share.first, share.second
    return dealt


def check_indices(given: Input, form: Value, array: Any) -> int:
    """The length of the table that an argument holds indices of; they are in it."""
    depth = form.shape[-1]
    if array.size and not (array.min() >= 0 and array.max() < depth):
        raise SetupError(
            f"{given.name} holds an index outside 0..{depth - 1}, the table's rows."
        )
    return depth


def held_arguments(plan: Plan, arrays: Arrays) -> dict[int, Any]:
    """The inverse of ``deal_arguments``, at a party."""
    held: dict[int, Any] = {}
    for given in plan.inputs:
        held |= held_input(plan, given, arrays)
    return held


def held_input(plan: Plan, given: Input, arrays: Arrays) -> dict[int, Any]:
    """The inverse of ``deal_input``, at a party: what it holds, by value.

    The arrays come from outside: what does not fit the plan is refused.
    """
    held: dict[int, Any] = {}
    for v in given.forms:
        form = plan.values[v]
        try:
            if form.type is None:
                public = arrays[f"public{v}"]
                if (public.shape, public.dtype.name) != (given.shape, given.dtype):
                    raise MessageError(f"{given.name} does not fit the plan.")
                held[v] = public
            elif is_indices(given, form):
                keys = arrays[f"keys{v}"]
                depth, bits = form.shape[-1], form.type.bits
                held[v] = SharedIndices(keys, given.shape, depth, bits)
            else:
                shared = Shared(arrays[f"first{v}"], arrays[f"second{v}"], form.type)
                if shared.shape != form.shape:
                    raise MessageError(f"{given.name} does not fit the plan.")
                held[v] = shared
        except KeyError:
            raise MessageError(f"Of {given.name} nothing was sent.") from None
    return held


def run_plan(session: Session, _: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """What each party does."""
    plan = Plan.from_bytes(arrays["plan"].tobytes())
    return run_held_plan(plan, session, arrays)


def run_held_plan(plan: Plan, session: Session, arrays: Arrays) -> tuple[Json, Arrays]:
    """As ``run_plan``, when the plan is at hand."""
    started = time.perf_counter()
    outputs, spent = execute(plan, session, held_arguments(plan, arrays))
    results: Arrays = {}
    for k, output in enumerate(outputs):
        shared = isinstance(output, Shared)
        array = reveal_to_client(session.party, output) if shared else output
        results[str(k)] = np.asarray(array)
    costs = [[s.bytes, s.rounds, s.seconds] for s in spent]
    return {"steps": costs, "seconds": time.perf_counter() - started}, results


def _run(plan: Plan, shares: list[Arrays], trio: Trio) -> Run:
    if isinstance(trio, ThreadTrio):
        replies = trio.call(
            lambda session, _, arrays: run_held_plan(plan, session, arrays),
            arrays=shares,
        )
    else:
        data = np.frombuffer(plan.to_bytes(), np.uint8)
        replies = trio.call(run_plan, arrays=[{"plan": data, **s} for s in shares])
    costs = [reply for reply, _ in replies]
    result = opened(plan, [arrays for _, arrays in replies])
    return Run(result, step_costs(plan, costs), max(c["seconds"] for c in costs))


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
    """The result, from what the three parties sent to the client.

    What they keep is None.
    """
    results: list[Any] = []
    for k, output in enumerate(plan.outputs):
        if output.kept and str(k) not in replies[0]:
            results.append(None)
            continue
        arrays = [reply[str(k)] for reply in replies]
        kind = plan.values[output.value].type
        if kind is None:
            results.append(arrays[0].astype(output.dtype))
            continue
        numbers = decode(open_at_client(arrays, kind), kind)
        whole = output.dtype != "float32"
        results.append((np.rint(numbers) if whole else numbers).astype(output.dtype))
    return plan.arrange(results)
