"""Run a plan here, with three parties: to try it, to test it, to measure it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from ditto.client import Signature, answer_in_range, open_outputs, share_arguments
from ditto.operations.arguments import check_arguments
from ditto.owner import signature_of
from ditto.party.local import run_held_plan, run_once
from ditto.plan import Audit, Plan, Tree, check_audit, needs_provable
from ditto.runtime import ProcessTrio, ThreadTrio, Trio
from ditto.runtime.executor import prepare
from ditto.steps.coverage import check_coverage, coverage
from ditto.wire import Arrays

Spent = Sequence[Sequence[float]]
"""For each step what it cost one party: bytes, rounds, seconds."""


@dataclass(frozen=True)
class MeasuredStep:
    """One step of a run: bytes of all parties, rounds, seconds of the slowest."""

    kind: str
    scope: str
    bytes: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """What the client got, and what it cost."""

    result: Tree
    steps: tuple[MeasuredStep, ...]
    """Those of the plan, and one more for the proofs of a run that is audited."""
    seconds: float
    """Of the slowest party, from the first step to the last."""
    in_range: bool | None = None
    """Whether no value left its range, if the plan tells."""
    digest: str = ""
    """Of the plan that ran."""
    audit: str = ""
    """What the audit of this run covers and what it does not, if there was one."""

    @property
    def bytes(self) -> int:
        """Sent by all parties together."""
        return sum(step.bytes for step in self.steps)

    @property
    def rounds(self) -> int:
        """Of all steps, one after the other."""
        return sum(step.rounds for step in self.steps)

    def by_scope(self) -> dict[str, MeasuredStep]:
        """Costs summed over each scope, in order of appearance."""
        sums: dict[str, MeasuredStep] = {}
        for step in self.steps:
            before = sums.get(step.scope, MeasuredStep("", step.scope, 0, 0, 0.0))
            sums[step.scope] = MeasuredStep(
                "",
                step.scope,
                before.bytes + step.bytes,
                before.rounds + step.rounds,
                before.seconds + step.seconds,
            )
        return sums


def run_local(
    plan: Plan,
    arguments: Sequence[Tree],
    *,
    processes: bool = False,
    trio: Trio | None = None,
    audit: Audit = "off",
) -> Run:
    """Run the plan with three parties of this machine and open all results.

    The parties are threads, or with ``processes`` three processes over TLS links.
    ``trio`` takes parties that are already there, and leaves them there. With ``audit``
    "products" the parties prove their products to each other before they answer, with
    "recasts" those and all recasts, which are provable ones then. "full" is refused if
    the plan has steps that nothing proves.
    """
    check_arguments(arguments)
    if needs_provable(check_audit(audit)):
        plan = replace(plan, provable=True)
    check_coverage(plan, audit)
    leaves = jax.tree_util.tree_leaves(tuple(arguments))
    signature = signature_of(plan)
    shares = share_arguments(signature, leaves)
    if trio is not None:
        return _run(plan, signature, shares, trio, audit)
    prepare(plan)  # a refusal comes before any party starts
    with ProcessTrio() if processes else ThreadTrio() as parties:
        return _run(plan, signature, shares, parties, audit)


def _run(
    plan: Plan, signature: Signature, shares: list[Arrays], trio: Trio, audit: Audit
) -> Run:
    if isinstance(trio, ThreadTrio):
        replies = trio.call(
            lambda session, _, arrays: run_held_plan(plan, session, arrays, audit),
            arrays=shares,
        )
    else:
        data = np.frombuffer(plan.to_bytes(), np.uint8)
        replies = trio.call(
            run_once,
            [{"audit": audit}] * len(shares),
            [{"plan": data, **s} for s in shares],
        )
    costs = [reply for reply, _ in replies]
    sent = [arrays for _, arrays in replies]
    result, in_range = open_outputs(signature, sent), answer_in_range(signature, sent)
    steps = step_costs(plan, [cost["steps"] for cost in costs])
    steps += audit_costs([cost["audit"] for cost in costs])
    seconds = max(cost["seconds"] for cost in costs)
    covered = audit_text(plan, audit)
    return Run(result, steps, seconds, in_range, plan.digest, covered)


def audit_text(plan: Plan, audit: Audit) -> str:
    """What a run tells of its audit."""
    return "" if audit == "off" else f"audit {audit}: {coverage(plan)}"


def step_costs(plan: Plan, spent: Sequence[Spent]) -> tuple[MeasuredStep, ...]:
    """What every step cost the three parties, from what each counted."""
    return tuple(
        MeasuredStep(
            step.kind.name,
            step.scope,
            int(sum(s[0] for s in parties)),
            int(max(s[1] for s in parties)),
            max(s[2] for s in parties),
        )
        for step, parties in zip(plan.steps, zip(*spent, strict=True), strict=True)
    )


def audit_costs(spent: Sequence[Sequence[float] | None]) -> tuple[MeasuredStep, ...]:
    """What the proofs cost the three parties, as a step more, if there were any."""
    proved = [each for each in spent if each is not None]
    if not proved:
        return ()
    sent, rounds, seconds = zip(*proved, strict=True)
    return (
        MeasuredStep("audit", "audit", int(sum(sent)), int(max(rounds)), max(seconds)),
    )
