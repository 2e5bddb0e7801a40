"""Which steps of a plan an audit proves, and which plans an audit is for."""

from collections import Counter

from ditto.errors import RequestError
from ditto.plan import Audit, Plan, needs_provable
from ditto.steps.base import Site, definition


def unproved_steps(plan: Plan) -> Counter[str]:
    """How many steps of each kind have messages that no audit of the plan proves."""
    sites = [Site.of(plan, i) for i in range(len(plan.steps))]
    return Counter(
        site.step.kind.name
        for site in sites
        if not definition(site.step).is_proved(site)
    )


def coverage(plan: Plan) -> str:
    """What audits of the plan do not prove, as a sentence."""
    missing = unproved_steps(plan)
    if not missing:
        return "an audit proves the messages of all steps"
    return f"no audit proves the messages of these steps: {_listed(missing)}"


def _listed(steps: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(steps.items()))


def check_coverage(plan: Plan, audit: Audit) -> None:
    """Refuse an audit that the plan is not made for, or that would be a part of what
    it is called."""
    if not needs_provable(audit):
        return
    if not plan.provable:
        raise RequestError(
            f"audit={audit!r} is for plans with provable recasts, and this one has "
            f"others. Prepare the model with audit={audit!r}, or export it with "
            f"--provable."
        )
    missing = unproved_steps(plan)
    if audit == "full" and missing:
        raise RequestError(
            f"audit='full' is refused: nothing proves the messages of these steps: "
            f"{_listed(missing)}. audit='recasts' proves all others, and says so."
        )
