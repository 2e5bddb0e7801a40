"""Rules that plans keep. What breaks one is never run.

Plans are checked when they are made and when they are read, so that a party that
executes one need not.
"""

from ditto.errors import DittoError, PlanError
from ditto.plan import InputRole, InputSpec, Plan, Representation, Value
from ditto.plan.reader import MALFORMED
from ditto.steps.base import Site, definition, demand
from ditto.steps.rules import check_graph


def check_plan(plan: Plan) -> None:
    """Raise PlanError naming the first step that breaks a rule."""
    ready: set[int] = set()
    for spec in plan.inputs:
        for v in spec.encodings:
            encoding = plan.values[v]
            fits = _is_encoding(spec, encoding) and v not in ready
            demand(fits, f"Input {spec.name!r} cannot be encoded as {encoding}")
            ready.add(v)
    for value in plan.values:
        _check_value(value)
    regions = {definition(step).region_used() for step in plan.steps} - {None}
    demand(regions == set(range(len(plan.regions))), "A region is never run")
    for region in plan.regions:
        try:
            check_graph(region.graph)
        except PlanError as broken:
            raise PlanError(f"A region of the plan: {broken}") from None
    for i in range(len(plan.steps)):
        _check_step(plan, i, ready)
    for output in plan.outputs:
        value = plan.values[output.value]
        demand(output.value in ready, "A result is never computed")
        demand(value.is_shared or value.is_public, "A result is numbers", value)
        demand(value.is_shared or not output.retained, "A retained result is shared")
    single = all(len(spec.encodings) <= 1 for spec in plan.state)
    demand(single, "A state has one encoding")


def _is_encoding(spec: InputSpec, encoding: Value) -> bool:
    if spec.role is InputRole.PUBLIC:
        return spec.is_plain(encoding) and encoding.is_public
    if spec.is_plain(encoding) and encoding.is_shared:
        return True
    return spec.role is InputRole.SECRET and spec.is_indices(encoding)


def _check_value(value: Value) -> None:
    typed = (Representation.SHARED, Representation.INDICES)
    fits = (value.type is not None) == (value.representation in typed)
    demand(fits, "Shares, and nothing else, have a type", value)
    bits = value.representation is Representation.BITS
    demand(not bits or value.dtype == "bool", "Bits are bool", value)


def _check_step(plan: Plan, i: int, ready: set[int]) -> None:
    site = Site.of(plan, i)
    step = site.step
    place = f"Step {i} ({step.kind.name}, scope {step.scope!r})"
    try:
        demand(all(v in ready for v in step.inputs), "uses a value that is not there")
        fresh = len(set(step.outputs)) == len(step.outputs)
        demand(fresh and not ready & set(step.outputs), "makes a value a second time")
        if definition(step).region_used() is None:
            demand(len(step.outputs) == 1, "has one result", len(step.outputs))
        definition(step).check(site)
    except PlanError as broken:
        raise PlanError(f"{place}: {broken}. Compile the plan anew.") from None
    except (DittoError, *MALFORMED):
        raise PlanError(
            f"{place} has parameters or types that do not fit. Compile the plan anew."
        ) from None
    ready.update(step.outputs)
