"""The parties' integers and the simulator's, at every value of a plan.

All that is shared is made an output, so that nothing is hidden by what follows it.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from ditto.api.local import run_local
from ditto.compiler import PROFILES
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import OutputSpec, Plan
from ditto.runtime import ThreadTrio
from ditto.simulation import Nearest
from ditto.simulation.bounds import _errors
from ditto.simulation.machine import Machine, encode_inputs

TOKENS, WORDS = 4, 32
DITTO = PROFILES["ditto"]
HASTY = {"xla_backend_optimization_level": 0}
"""What is run once need not be compiled well."""


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def opening_all(plan: Plan) -> Plan:
    """The plan, with every shared value that a step makes as a result."""
    made = [v for step in plan.steps for v in step.outputs]
    shared = [v for v in made if plan.values[v].is_shared]
    outputs = tuple(OutputSpec(v, "float32") for v in shared)
    return replace(plan, outputs=outputs, result=list(range(len(shared))))


def simulated(plan: Plan, leaves: list[Any]) -> tuple[Any, Any]:
    """All values, and how far from them the parties' may be."""
    values = Machine(plan).run(encode_inputs(plan, leaves, Nearest()))
    return values, _errors(plan, values)


@pytest.mark.parametrize("gelu", ["accurate", "quad"])
def test_every_value_is_within_its_bound(gelu: str, trio: ThreadTrio) -> None:
    profile = DITTO.replace(gelu=gelu)
    model = random_model("bert-tiny", vocab_size=WORDS, num_hidden_layers=1)
    plans = Plans(model, profile, RandomSamples(WORDS), rows=4)
    plan = opening_all(plans.plan(Computation(Phase.FORWARD, 1, TOKENS)))
    ids = np.array([[3, 1, 4, 5]], np.int32)
    mask = np.array([[1, 1, 1, 0]], np.int32)
    arguments = (plans.model.params, ids, mask)
    run = run_local(plan, arguments, trio=trio)
    with jax.enable_x64(True):
        leaves = jax.tree_util.tree_leaves(arguments)
        values, errors = jax.jit(partial(simulated, plan), compiler_options=HASTY)(
            leaves
        )
    assert len(run.result) > 40
    apart = 0
    for output, opened in zip(plan.outputs, run.result, strict=True):
        kind = plan.values[output.value].fxp
        got = np.asarray(opened, np.float64) * 2.0**kind.frac
        expected = np.asarray(values[output.value])
        whole = 2.0**kind.bits  # what is not looked at may have wrapped around
        gap = np.abs(np.mod(got - expected + whole / 2, whole) - whole / 2)
        maker = next(s for s in plan.steps if output.value in s.outputs)
        cast = np.abs(got) * 2.0**-24  # what a client gets is float32
        bound = np.asarray(errors[output.value]) + cast
        assert (gap <= bound).all(), (maker.kind.name, maker.scope, gap.max())
        apart += int((gap > cast).sum())
    assert apart > 0  # the parties round at random
