"""How far the parties' result may be from the simulator's: a proof, step by step.

Every value gets, element by element, a bound on the difference of its integers between
a run on shares and the simulator. Recasts add the error their protocol declares, SPU's
approximations the one measured for them; all other steps only pass errors on.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import Array
from ditto.plan import Plan, Representation, Tree, Value
from ditto.simulation.machine import Machine, encode_inputs
from ditto.simulation.rounding import Nearest
from ditto.steps import Numbers, Site, definition


def error_bounds(plan: Plan, arguments: Sequence[Tree]) -> list[Array]:
    """For each output, the largest difference to the simulator, element by element."""
    leaves = jax.tree_util.tree_leaves(tuple(arguments))
    with jax.enable_x64(True):
        values = Machine(plan).run(encode_inputs(plan, leaves, Nearest()))
        errors = _errors(plan, values)
        return [
            np.asarray(errors[o.value]) * _ulp(plan.values[o.value])
            for o in plan.outputs
        ]


def _ulp(value: Value) -> float:
    return 1.0 if value.type is None else value.type.ulp


def _errors(plan: Plan, values: dict[int, Numbers]) -> dict[int, Numbers]:
    """The bound of every value of the plan."""
    errors: dict[int, Numbers] = {}
    for spec in plan.inputs:
        for v in spec.encodings:
            value = plan.values[v]
            indices = value.representation is Representation.INDICES
            errors[v] = jnp.zeros(() if indices else value.shape)
    for i, step in enumerate(plan.steps):
        operands = [values[v] for v in step.inputs]
        before = [errors[v] for v in step.inputs]
        found = definition(step).error(Site.of(plan, i), operands, before)
        for v, error in zip(step.outputs, found, strict=True):
            errors[v] = jnp.broadcast_to(error, plan.values[v].shape)
    return errors
