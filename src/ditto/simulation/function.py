"""A plan as a pure JAX function: to train on the plan's own arithmetic."""

from collections.abc import Callable, Sequence

import jax

from ditto.plan import Plan, Tree, arrange
from ditto.simulation.machine import Machine, encode_inputs
from ditto.simulation.rounding import Rounding, StraightThrough


def as_function(
    plan: Plan, rounding: Rounding | None = None
) -> Callable[[Sequence[Tree]], Tree]:
    """The plan as a function of its arguments, in the precision that JAX is in.

    Under ``jax.enable_x64`` it is exact, in float64. Else it rounds the same way on
    numbers of 24 bits, in float32: fast enough to train in, and now and then a unit
    beside. It can be differentiated, jitted and mapped over a batch of inputs; weights
    that are not mapped are rounded once. By default gradients pass straight through
    every rounding.
    """
    chosen = rounding or StraightThrough()

    def function(arguments: Sequence[Tree]) -> Tree:
        leaves = jax.tree_util.tree_leaves(tuple(arguments))
        machine = Machine(plan, chosen)
        values = machine.run(encode_inputs(plan, leaves, chosen))
        results = [machine.opened(values, output) for output in plan.outputs]
        return arrange(plan.result, results)

    return function
