"""The last touch to a plan: no step without use, and a good order."""

from dataclasses import replace

from ditto.compiler.passes.schedule import scheduled
from ditto.plan import Plan, Step
from ditto.steps import definition


def without_waste(plan: Plan) -> tuple[Plan, list[int]]:
    """Steps that lead to a result, and what they use, numbered anew; tells the values
    that are left."""
    alive = {output.value for output in plan.outputs}
    steps: list[Step] = []
    for step in reversed(plan.steps):
        if alive & set(step.outputs):
            steps.append(step)
            alive |= {*step.inputs, *step.outputs}
    steps = scheduled(plan, steps[::-1])
    alive |= {v for spec in plan.inputs for v in spec.encodings}
    number = {v: k for k, v in enumerate(sorted(alive))}
    kinds = [definition(step) for step in steps]
    constants = sorted({k for d in kinds if (k := d.constant_used()) is not None})
    regions = sorted({k for d in kinds if (k := d.region_used()) is not None})

    def moved(step: Step) -> Step:
        inputs, outputs = (
            tuple(number[v] for v in side) for side in (step.inputs, step.outputs)
        )
        kind = definition(step).renumbered(constants, regions)
        return replace(step, kind=kind, inputs=inputs, outputs=outputs)

    shorter = replace(
        plan,
        inputs=tuple(
            replace(spec, encodings=tuple(number[v] for v in spec.encodings))
            for spec in plan.inputs
        ),
        values=tuple(plan.values[v] for v in sorted(alive)),
        constants=tuple(plan.constants[k] for k in constants),
        regions=tuple(plan.regions[k] for k in regions),
        steps=tuple(moved(step) for step in steps),
        outputs=tuple(replace(o, value=number[o.value]) for o in plan.outputs),
    )
    return shorter, sorted(alive)
