"""Rules that every plan keeps, whoever made it."""

from dataclasses import fields, replace

import numpy as np
import pytest

import ditto
from ditto.errors import PlanError
from ditto.plan import Plan, Representation
from ditto.steps import STEPS, check_plan

X = np.ones((2, 3), np.float32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ditto.compile(lambda x: x * x + 1, (X,), calibration=[(X,)])


@pytest.mark.parametrize("name", STEPS)
def test_a_kind_of_step_is_known_by_its_name(name: str) -> None:
    kind = STEPS[name]
    assert kind.name == name
    assert kind.__doc__
    assert all(field.init for field in fields(kind))
    assert not kind.batchable or kind.interactive


def test_a_plan_cannot_have_a_secret_sent_in_the_clear(plan: Plan) -> None:
    (encoding,) = plan.inputs[0].encodings
    values = list(plan.values)
    values[encoding] = replace(
        values[encoding], representation=Representation.BITS, type=None, dtype="bool"
    )
    spec = replace(plan.inputs[0], dtype="bool")
    open_plan = replace(plan, values=tuple(values), inputs=(spec,))
    with pytest.raises(PlanError, match="cannot be encoded as bits"):
        check_plan(open_plan)


def test_steps_are_made_before_they_are_used_and_once(plan: Plan) -> None:
    check_plan(plan)
    with pytest.raises(PlanError, match="not there"):
        check_plan(replace(plan, steps=plan.steps[::-1]))
    with pytest.raises(PlanError, match="a second time"):
        check_plan(replace(plan, steps=plan.steps + plan.steps[-1:]))
    with pytest.raises(PlanError, match="never computed"):
        check_plan(replace(plan, steps=plan.steps[:-1]))
