"""A call that all parties refuse leaves everything as it was; others end at once."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.compiler import Plan
from ditto.compiler.local import deal_input, opened
from ditto.engine import NAMES, ProcessTrio, Session, ThreadTrio, Trio
from ditto.engine.frames import Arrays, Json
from ditto.errors import DittoError, MessageError, PeerError
from ditto.party import hold_plan, hold_weights, run

TIMEOUT = 20.0
TRIOS: dict[str, Callable[..., Trio]] = {"threads": ThreadTrio, "links": ProcessTrio}

rng = np.random.default_rng(0)
W = rng.normal(size=(6, 6)).astype(np.float32)
X = rng.normal(size=(4, 6)).astype(np.float32)


def first(w: Any, x: Any) -> Any:
    y = x @ w
    return jnp.tanh(y).sum(-1), y


def further(w: Any, x: Any, y: Any) -> Any:
    y = jnp.where(np.arange(len(x))[:, None] < 2, x @ w, y)
    return jnp.tanh(y).sum(-1), y


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled(X)


def compiled(x: Any) -> tuple[Plan, Plan]:
    begin = ditto.compile(first, (W, x), calibration=[(W, x)], weights=(0,), keep=(1,))
    arguments = (W, x, np.asarray(first(W, x)[1]))
    go_on = ditto.compile(
        further,
        arguments,
        calibration=[arguments],
        weights=(0,),
        state=(2,),
        keep=(1,),
        like=begin,
    )
    return begin, go_on


@pytest.fixture(params=TRIOS)
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    with TRIOS[request.param](timeout=TIMEOUT) as parties:
        yield parties


def hold(trio: Trio, *plans: Plan) -> None:
    for plan in plans:
        data = np.frombuffer(plan.to_bytes(), np.uint8)
        trio.call(hold_plan, arrays=[{"plan": data}] * 3)


def weights(plan: Plan, index: int = 0, model: str = "m") -> tuple[Json, list[Arrays]]:
    asked = {"plan": plan.digest, "model": model, "inputs": [index]}
    return asked, deal_input(plan, plan.inputs[0], W)


def ask(trio: Trio, plan: Plan, state: str, x: Any = X) -> tuple[Any, int]:
    """The answer, and the bytes that the parties sent for it."""
    asked = {"plan": plan.digest, "model": "m", "state": state}
    replies = trio.call(run, asked, deal_input(plan, plan.inputs[1], x))
    result = opened(plan, [arrays for _, arrays in replies])
    return result[0], sum(step[0] for reply, _ in replies for step in reply["steps"])


def refused(trio: Trio, function: Any, *given: Any) -> str:
    """What all three say."""
    outcomes = trio.outcomes(function, *given)
    assert all(isinstance(outcome, DittoError) for outcome in outcomes), outcomes
    assert not any(isinstance(outcome, PeerError) for outcome in outcomes), outcomes
    (said,) = {str(outcome) for outcome in outcomes}
    return said


def test_refused_calls_leave_the_session_as_it_was(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    begin, go_on = plans
    shares = deal_input(begin, begin.inputs[1], X)
    asked = {"plan": begin.digest, "model": "m", "state": "s"}
    assert "does not hold that plan" in refused(trio, run, asked, shares)
    junk = np.frombuffer(b"no plan at all", np.uint8)
    assert "not a plan" in refused(trio, hold_plan, None, [{"plan": junk}] * 3)
    hold(trio, begin, go_on)
    assert "has no shares of" in refused(trio, run, asked, shares)
    given, dealt = weights(begin)
    trio.call(hold_weights, given, dealt)
    assert "already" in refused(trio, hold_weights, given, dealt)
    assert "no weight" in refused(trio, hold_weights, *weights(begin, index=1))
    assert "nothing was sent" in refused(trio, run, asked)
    expected, cache = first(W, X)
    answer, sent = ask(trio, begin, "s")
    assert np.abs(answer - expected).max() < 0.01
    assert "cannot begin again" in refused(trio, run, asked, shares)
    missing = {"plan": go_on.digest, "model": "m", "state": "none"}
    shares = deal_input(go_on, go_on.inputs[1], X)
    assert "does not hold the state" in refused(trio, run, missing, shares)
    here = {**missing, "state": "s"}
    cut = [{name: a[:3] for name, a in arrays.items()} for arrays in shares]
    assert "[1] does not fit the plan" in refused(trio, run, here, cut)
    _, smaller = compiled(X[:3])
    hold(trio, smaller)
    small = {**here, "plan": smaller.digest}
    shares = deal_input(smaller, smaller.inputs[1], X[:3])
    assert "state does not fit the plan" in refused(trio, run, small, shares)
    answer, _ = ask(trio, go_on, "s", -X)  # the state was not lost
    assert np.abs(answer - further(W, -X, cache)[0]).max() < 0.02
    again, cost = ask(trio, begin, "t")
    assert np.abs(again - expected).max() < 0.01
    assert cost == sent


def test_weights_are_taken_all_or_none(trio: Trio, plans: tuple[Plan, Plan]) -> None:
    hold(trio, plans[0])
    given, dealt = weights(plans[0])
    twice = {**given, "inputs": [0, 0]}
    assert "already" in refused(trio, hold_weights, twice, dealt)
    trio.call(hold_weights, given, dealt)
    assert np.isfinite(ask(trio, plans[0], "s")[0]).all()


def test_a_call_that_one_refuses_ends_at_once(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    """It goes on at two, which wait for the third."""
    begin, _ = plans
    hold(trio, begin)
    trio.call(hold_weights, *weights(begin))
    asked = {"plan": begin.digest, "model": "m", "state": "s"}
    started = time.monotonic()
    outcomes = trio.outcomes(
        run,
        [asked, {**asked, "plan": "none"}, asked],
        deal_input(begin, begin.inputs[1], X),
    )
    assert time.monotonic() - started < TIMEOUT / 4
    assert isinstance(outcomes[1], MessageError)
    for outcome in (outcomes[0], outcomes[2]):
        assert isinstance(outcome, PeerError)
        assert outcome.peer == NAMES[1]


def test_a_call_that_one_refuses_and_two_answer_ends_the_session(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    """The parties do not hold the same from here on."""
    begin, _ = plans
    hold(trio, begin)
    given, dealt = weights(begin)
    outcomes = trio.outcomes(hold_weights, [given, given, {**given, "plan": ""}], dealt)
    assert [isinstance(o, MessageError) for o in outcomes] == [False, False, True]
    asked = {"plan": begin.digest, "model": "m", "state": "s"}
    started = time.monotonic()
    outcomes = trio.outcomes(run, asked, deal_input(begin, begin.inputs[1], X))
    assert time.monotonic() - started < TIMEOUT / 4
    assert all(isinstance(outcome, DittoError) for outcome in outcomes)


def test_a_function_that_does_not_exist_is_refused() -> None:
    with ProcessTrio(timeout=TIMEOUT) as trio:
        missing: Any = type("F", (), {"__module__": "ditto.party", "__qualname__": "f"})
        assert "no attribute 'f'" in refused(trio, missing)
        assert [reply["rank"] for reply, _ in trio.call(pass_around)] == [2, 0, 1]
        odd: Sequence[Any] = [{"x": np.zeros(1, np.complex64)}] * 3
        assert "not allowed" in refused(trio, pass_around, None, odd)
        assert [reply["rank"] for reply, _ in trio.call(pass_around)] == [2, 0, 1]
        started = time.monotonic()
        outcomes = trio.outcomes(pass_around, None, [{}, {}, odd[2]])
        assert time.monotonic() - started < TIMEOUT / 4
    assert isinstance(outcomes[2], MessageError)
    assert isinstance(outcomes[0], PeerError)


def pass_around(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """Each party sends its rank to the next; what it got from the one before."""
    channel, rank = session.party.channel, session.party.rank
    channel.send(rank.next, [np.array([rank], np.uint8)], tag=1)
    return {"rank": int(channel.receive(rank.previous, size=1, tag=1)[0])}, {}
