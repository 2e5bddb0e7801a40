"""Weights and states serve the plans that their owner named, and no others."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ditto
from ditto.client import open_outputs
from ditto.errors import DittoError
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment, PartyStore, store_of
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.wire import PutPlan, RegisterModel, RunPlan, Status, Turn

from .test_refusals import W, X, call, compiled, first, further, refused, shares


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled(X)


@pytest.fixture(scope="module")
def opener(plans: tuple[Plan, Plan]) -> Plan:
    """Takes the very state that ``first`` leaves, and opens it."""
    arguments = (W, X, np.asarray(first(W, X)[1]))
    return ditto.compile(
        lambda w, x, y: (y * 1.0, y),
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        state_argnums=(2,),
        retain_outputs=(1,),
        reuse_shares_of=plans[0],
    )


@pytest.fixture
def trio(plans: tuple[Plan, Plan]) -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=20.0) as parties:
        owner = Publisher(LocalDeployment(parties), "m", "owner", [W])
        for plan in plans:
            owner.publish(plan)
        yield parties


def runs(plan: Plan, turn: Turn, x: Any = X, model: str = "m") -> list[RunPlan]:
    return [RunPlan(model, plan.digest, turn, a) for a in shares(plan, 1, x)]


def test_the_weights_are_not_opened_by_another_plan(trio: ThreadTrio) -> None:
    thief = ditto.compile(
        lambda w, x: w + 0 * x[0, 0], (W, X), calibration=[(W, X)], weight_argnums=(0,)
    )
    put = [PutPlan("m", thief.to_bytes())] * 3
    assert "has not approved" in refused(trio, put)
    mine = [RegisterModel("m", "thief", (thief.digest,))] * 3
    assert "another owner" in refused(trio, mine)
    call(trio, [RegisterModel("mine", "thief", (thief.digest,))] * 3)
    call(trio, [PutPlan("mine", thief.to_bytes())] * 3)
    dealt = shares(thief, 1, X)
    run = [RunPlan("m", thief.digest, None, a) for a in dealt]
    assert "has not approved" in refused(trio, run)
    run = [RunPlan("mine", thief.digest, None, a) for a in dealt]
    assert "has no shares of" in refused(trio, run)  # of that model's own


def test_a_state_is_not_opened_by_a_plan_of_another_model(
    trio: ThreadTrio, plans: tuple[Plan, Plan], opener: Plan
) -> None:
    call(trio, runs(plans[0], Turn("s")))
    assert "does not hold that plan" in refused(trio, runs(opener, Turn("s", 1)))
    Publisher(LocalDeployment(trio), "mine", "thief", [W]).publish(opener)
    assert "has not approved" in refused(trio, runs(opener, Turn("s", 1)))
    foreign = runs(opener, Turn("s", 1), model="mine")
    assert "another model" in refused(trio, foreign)


def test_a_state_is_not_opened_by_a_plan_that_merely_fits(
    trio: ThreadTrio, plans: tuple[Plan, Plan], opener: Plan
) -> None:
    """The owner approved it for the model, but not to continue that state."""
    begin, go_on = plans
    call(trio, runs(begin, Turn("s")))
    call(trio, [RegisterModel("m", "owner", (opener.digest,))] * 3)
    call(trio, [PutPlan("m", opener.to_bytes())] * 3)
    said = refused(trio, runs(opener, Turn("s", 1)))
    assert f"has not said that plan {opener.digest[:12]} may continue" in said
    replies = call(trio, runs(go_on, Turn("s", 1), -X))  # the state was not lost
    answer = open_outputs(signature_of(go_on), [r.arrays for r in replies])[0]
    assert np.abs(answer - further(W, -X, first(W, X)[1])[0]).max() < 0.02
    assert "may continue" in refused(trio, runs(opener, Turn("s", 2)))
    assert "may continue" in refused(trio, runs(opener, Turn("s", 1)))  # the one before
    pair = (opener.digest, go_on.digest)
    call(trio, [RegisterModel("m", "owner", (), (pair,))] * 3)
    assert "may continue" in refused(trio, runs(opener, Turn("s", 1)))
    call(trio, runs(opener, Turn("s", 2)))  # now its owner has said so


def test_only_approved_plans_can_be_said_to_continue(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    before = store_of(trio.sessions[0]).models()
    pair = ("unknown plan", plans[0].digest)
    request = [RegisterModel("m", "owner", ("another",), (pair,))] * 3
    assert "Plan unknown plan is to continue" in refused(trio, request)
    assert store_of(trio.sessions[0]).models() == before


# States of clients that have gone


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def filled(clock: Clock, **settings: float) -> PartyStore:
    """With the state of a conversation, just left."""
    store = PartyStore(clock=clock, **settings)
    store.register_model("m", "owner", ["p"], [("p", "p")])
    store.check_out(Turn("s"), "m", "p", begins=True)
    store.commit(Turn("s"), "p", ())
    return store


def test_a_state_expires_after_its_last_use() -> None:
    clock = Clock()
    store = filled(clock)
    clock.now += 3599
    store.check_out(Turn("s", 1), "m", "p", begins=False)
    clock.now += 7200
    assert "s" in store.conversations()  # a run uses it
    store.give_back(Turn("s", 1))
    clock.now += 3599
    assert "s" in store.conversations()
    clock.now += 2
    assert store.conversations() == {}
    with pytest.raises(DittoError, match="does not hold the state"):
        store.check_out(Turn("s", 1), "m", "p", begins=False)


def test_every_call_drops_what_has_expired() -> None:
    clock = Clock()
    store = filled(clock, keep_states_for=10.0)
    clock.now += 11
    store.check_out(Turn("other"), "m", "p", begins=True)
    assert set(store._conversations) == {"other"}
    store.commit(Turn("other"), "p", ())
    clock.now += 11
    with pytest.raises(DittoError, match="does not hold that plan"):
        store.plan("m", "p")
    assert store._conversations == {}


def test_status_counts_no_expired_states(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    call(trio, runs(plans[0], Turn("s")))
    assert [s.states for s in call(trio, [Status()] * 3)] == [1, 1, 1]
    for session in trio.sessions:
        store: Any = store_of(session)
        later = store._clock() + 3601
        store._clock = lambda later=later: later
    assert [s.states for s in call(trio, [Status()] * 3)] == [0, 0, 0]
