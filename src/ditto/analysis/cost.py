"""What every step of a plan will cost: exactly for native steps, closely for SPU's."""

from dataclasses import dataclass, replace

from ditto.analysis.spu_cost import region_cost
from ditto.plan import Plan
from ditto.runtime.executor import prepare
from ditto.steps import Site, StepCost, definition


@dataclass(frozen=True)
class Predicted:
    """Of one step: bytes of all parties together, and rounds.

    Steps that share their rounds take those of the longest: the first has them.
    """

    bytes: float
    rounds: float
    native: bool
    unknown: tuple[str, ...] = ()
    """SPU operations that the cost table does not know, and that are not counted."""


def predict(plan: Plan, *, audited: bool = False) -> list[Predicted]:
    """The cost of every step, in order; in a run that is proved some send more."""
    regions = _region_costs(plan)
    sites = [Site.of(plan, i, audited=audited) for i in range(len(plan.steps))]
    costs = [definition(site.step).cost(site, regions) for site in sites]
    predicted = [Predicted(c.bits / 8, c.rounds, c.native, c.unknown) for c in costs]
    for group in plan.round_groups():
        longest = max(predicted[i].rounds for i in group)
        for k, i in enumerate(group):
            predicted[i] = replace(predicted[i], rounds=0 if k else longest)
    return predicted


def _region_costs(plan: Plan) -> list[StepCost]:
    priced = (region_cost(region) for region in prepare(plan))
    return [StepCost(c.bits, c.rounds, False, c.unknown) for c in priced]
