"""What every step of a plan will cost: exactly for native steps, closely for SPU's."""

from dataclasses import dataclass, replace

from ditto.compiler.execute import prepare
from ditto.compiler.plan import TALKING, Plan, Step, curve_of, grid_of
from ditto.compiler.spu_cost import region_cost
from ditto.protocols import (
    FREE,
    Cost,
    coarse_max_cost,
    curve_cost,
    product_cost,
    product_type,
    recast_cost,
)
from ditto.protocols.paper import downcast_paper_cost, upcast_paper_cost


@dataclass(frozen=True)
class Predicted:
    """Of one step: bytes of all parties together, and rounds.

    Steps that are taken together share the rounds of the longest: the first has them.
    """

    bytes: float
    rounds: float
    native: bool
    unknown: tuple[str, ...] = ()
    """SPU operations that the cost table does not know, and that are not counted."""


def predict(plan: Plan) -> list[Predicted]:
    """The cost of every step, in order."""
    priced = [region_cost(region) for region in prepare(plan)]
    found: list[Predicted] = []
    for step in plan.steps:
        if step.op == "region":
            cost = priced[step.params["region"]]
            found.append(Predicted(cost.bits / 8, cost.rounds, False, cost.unknown))
        else:
            native = native_cost(plan, step)
            found.append(Predicted(native.bits / 8, native.rounds, True))
    for group in plan.groups():
        longest = max(found[i].rounds for i in group)
        for k, i in enumerate(group):
            found[i] = replace(found[i], rounds=0 if k else longest)
    return found


_TALKING = frozenset(("recast", "multiply", "einsum", "lookup", "maximum", "curve"))


def native_cost(plan: Plan, step: Step) -> Cost:
    """The declared cost of a native step."""
    if step.op not in TALKING:
        return FREE
    rounds = step.params["rounds"]
    if step.op in ("maximum", "curve"):
        (given,), (made,) = (
            [plan.values[v] for v in side] for side in (step.inputs, step.outputs)
        )
        if step.op == "curve":
            shape = curve_of(step, given.fxp, made.fxp)
            return curve_cost(given.size, shape, rounds)
        grid = grid_of(step, given.fxp)
        return coarse_max_cost(made.size, given.shape[-1], grid, rounds)
    types = [plan.values[v].type for v in step.inputs]
    out = plan.values[step.outputs[0]]
    sources = [t for t in types if t is not None]
    assert out.type is not None  # noqa: S101  (verified)
    if step.op == "recast":
        (source,) = sources
        if step.params["casts"] == "paper":
            upward = out.type.bits > source.bits
            price = upcast_paper_cost if upward else downcast_paper_cost
            return price(out.size, source, out.type)
        return recast_cost(out.size, source, out.type, rounds)
    source = sources[1] if step.op == "lookup" else product_type(*sources)
    to = None if source == out.type else out.type
    return product_cost(out.size, source, to, rounds)
