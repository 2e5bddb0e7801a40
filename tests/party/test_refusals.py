"""A call that all parties refuse leaves everything as it was; others end at once."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.client import open_outputs, share_input
from ditto.errors import DittoError, MessageError, PeerError
from ditto.frames import Arrays, Json
from ditto.owner import signature_of
from ditto.owner.signatures import continuations
from ditto.party import serve
from ditto.plan import Plan
from ditto.runtime import NAMES, ProcessTrio, Session, ThreadTrio, Trio
from ditto.wire import (
    PutPlan,
    PutWeights,
    RegisterModel,
    Request,
    RunPlan,
    Turn,
    decode_reply,
    encode,
)

TIMEOUT = 20.0
TRIOS: dict[str, Callable[..., Trio]] = {"threads": ThreadTrio, "links": ProcessTrio}

rng = np.random.default_rng(0)
W = rng.normal(size=(6, 6)).astype(np.float32)
X = rng.normal(size=(4, 6)).astype(np.float32)


def first(w: Any, x: Any) -> Any:
    y = x @ w
    return jnp.tanh(y).mean(-1), y


def further(w: Any, x: Any, y: Any) -> Any:
    y = jnp.where(np.arange(len(x))[:, None] < 2, x @ w, y)
    return jnp.tanh(y).mean(-1), y


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled(X)


def compiled(x: Any) -> tuple[Plan, Plan]:
    begin = ditto.compile(
        first, (W, x), calibration=[(W, x)], weight_argnums=(0,), retain_outputs=(1,)
    )
    arguments = (W, x, np.asarray(first(W, x)[1]))
    go_on = ditto.compile(
        further,
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        state_argnums=(2,),
        retain_outputs=(1,),
        reuse_shares_of=begin,
    )
    return begin, go_on


@pytest.fixture(params=TRIOS)
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    with TRIOS[request.param](timeout=TIMEOUT) as parties:
        yield parties


def outcomes(trio: Trio, requests: Sequence[Request[Any]]) -> list[Any]:
    """What each party says to its request."""
    sent = [encode(request) for request in requests]
    replies = trio.outcomes(serve, [body for body, _ in sent], [a for _, a in sent])
    return [
        reply if isinstance(reply, BaseException) else decode_reply(request, *reply)
        for request, reply in zip(requests, replies, strict=True)
    ]


def call(trio: Trio, requests: Sequence[Request[Any]]) -> list[Any]:
    """The replies of three parties that do not refuse."""
    replies = outcomes(trio, requests)
    for reply in replies:
        assert not isinstance(reply, BaseException), reply
    return replies


def hold(trio: Trio, *plans: Plan) -> None:
    """The owner approves the plans, and that they continue one another's states."""
    pairs = tuple(continuations([signature_of(plan) for plan in plans]))
    digests = tuple(plan.digest for plan in plans)
    call(trio, [RegisterModel("m", "owner", digests, pairs)] * 3)
    for plan in plans:
        call(trio, [PutPlan("m", plan.to_bytes())] * 3)


def shares(plan: Plan, index: int, value: Any) -> list[Arrays]:
    """What each party gets of an input."""
    return share_input(signature_of(plan).inputs[index], value)


def weights(plan: Plan, *values: int) -> list[PutWeights]:
    """Weights for these values of the plan, unless told those of its first input."""
    numbers = values or plan.inputs[0].encodings
    return [PutWeights("m", plan.digest, numbers, a) for a in shares(plan, 0, W)]


def runs(plan: Plan, turn: Turn, x: Any = X) -> list[RunPlan]:
    return [RunPlan("m", plan.digest, turn, a) for a in shares(plan, 1, x)]


def ask(trio: Trio, plan: Plan, turn: Turn, x: Any = X) -> tuple[Any, int]:
    """The answer, and the bytes that the parties sent for it."""
    replies = call(trio, runs(plan, turn, x))
    result = open_outputs(signature_of(plan), [reply.arrays for reply in replies])
    return result[0], sum(step[0] for reply in replies for step in reply.steps)


def refused(trio: Trio, requests: Sequence[Request[Any]]) -> str:
    """What all three say."""
    return same_error(outcomes(trio, requests))


def same_error(outcomes: Sequence[Any]) -> str:
    assert all(isinstance(outcome, DittoError) for outcome in outcomes), outcomes
    assert not any(isinstance(outcome, PeerError) for outcome in outcomes), outcomes
    (said,) = {str(outcome) for outcome in outcomes}
    return said


def test_refused_calls_leave_the_session_as_it_was(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    begin, go_on = plans
    turn = Turn("s")
    assert "does not hold that plan" in refused(trio, runs(begin, turn))
    assert "not registered" in refused(trio, [PutPlan("m", begin.to_bytes())] * 3)
    assert "not a plan" in refused(trio, [PutPlan("m", b"no plan at all")] * 3)
    hold(trio, begin, go_on)
    assert "has no shares of" in refused(trio, runs(begin, turn))
    given = weights(begin)
    call(trio, given)
    assert "already" in refused(trio, given)
    assert "no weight" in refused(trio, weights(begin, *begin.inputs[1].encodings))
    empty = [RunPlan("m", begin.digest, turn)] * 3
    assert "nothing was sent" in refused(trio, empty)
    expected, cache = first(W, X)
    answer, sent = ask(trio, begin, turn)
    assert np.abs(answer - expected).max() < 0.01
    assert "cannot begin again" in refused(trio, runs(begin, turn))
    assert "does not hold the state" in refused(trio, runs(go_on, Turn("none", 1)))
    asked = runs(go_on, turn.next)
    cut = [
        replace(run, arrays={name: a[:3] for name, a in run.arrays.items()})
        for run in asked
    ]
    assert "[1] does not fit the plan" in refused(trio, cut)
    assert "stands at turn 1" in refused(trio, runs(go_on, Turn("s", 2)))
    assert "if and only if" in refused(trio, [replace(r, turn=None) for r in asked])
    _, smaller = compiled(X[:3])
    hold(trio, begin, smaller)
    assert "state does not fit the plan" in refused(
        trio, runs(smaller, turn.next, X[:3])
    )
    answer, _ = ask(trio, go_on, turn.next, -X)  # the state was not lost
    assert np.abs(answer - further(W, -X, cache)[0]).max() < 0.02
    again, cost = ask(trio, begin, Turn("t"))
    assert np.abs(again - expected).max() < 0.01
    assert cost == sent


def test_a_plan_runs_only_with_the_weights_whose_owner_approved_it(
    plans: tuple[Plan, Plan],
) -> None:
    """Another plan could open the weights or a state."""
    begin, go_on = plans
    with ThreadTrio(timeout=TIMEOUT) as trio:
        hold(trio, begin)
        call(trio, weights(begin))
        ask(trio, begin, Turn("s"))
        other = [RegisterModel("other", "someone", (go_on.digest,))] * 3
        call(trio, other)
        call(trio, [PutPlan("other", go_on.to_bytes())] * 3)
        assert "has not approved" in refused(trio, runs(go_on, Turn("s", 1)))
        assert "has not approved" in refused(trio, [PutPlan("m", go_on.to_bytes())] * 3)
        assert "another owner" in refused(trio, [replace(other[0], model="m")] * 3)
        call(trio, [replace(given, model="other") for given in weights(go_on)])
        foreign = [replace(r, model="other") for r in runs(go_on, Turn("s", 1))]
        assert "another model" in refused(trio, foreign)


def test_weights_are_taken_all_or_none(trio: Trio, plans: tuple[Plan, Plan]) -> None:
    hold(trio, plans[0])
    given = weights(plans[0])
    twice = [replace(g, values=g.values * 2) for g in given]
    assert "already" in refused(trio, twice)
    call(trio, given)
    assert np.isfinite(ask(trio, plans[0], Turn("s"))[0]).all()


def test_a_call_that_one_refuses_ends_at_once(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    """It goes on at two, which wait for the third."""
    begin, _ = plans
    hold(trio, begin)
    call(trio, weights(begin))
    asked = runs(begin, Turn("s"))
    asked[1] = replace(asked[1], plan="none")
    started = time.monotonic()
    said = outcomes(trio, asked)
    assert time.monotonic() - started < TIMEOUT / 4
    assert isinstance(said[1], MessageError)
    for outcome in (said[0], said[2]):
        assert isinstance(outcome, PeerError)
        assert outcome.peer == NAMES[1]


def test_a_call_that_one_refuses_and_two_answer_ends_the_session(
    trio: Trio, plans: tuple[Plan, Plan]
) -> None:
    """The parties do not hold the same from here on."""
    begin, _ = plans
    hold(trio, begin)
    given = weights(begin)
    said = outcomes(trio, [*given[:2], replace(given[2], plan="")])
    assert [isinstance(o, MessageError) for o in said] == [False, False, True]
    started = time.monotonic()
    said = outcomes(trio, runs(begin, Turn("s")))
    assert time.monotonic() - started < TIMEOUT / 4
    assert all(isinstance(outcome, DittoError) for outcome in said)


def test_a_function_that_does_not_exist_is_refused() -> None:
    with ProcessTrio(timeout=TIMEOUT) as trio:
        missing: Any = type("F", (), {"__module__": "ditto.party", "__qualname__": "f"})
        assert "finds no ditto.party:f" in same_error(trio.outcomes(missing))
        assert [reply["rank"] for reply, _ in trio.call(pass_around)] == [2, 0, 1]
        odd: Sequence[Any] = [{"x": np.zeros(1, np.complex64)}] * 3
        assert "not allowed" in same_error(trio.outcomes(pass_around, None, odd))
        assert [reply["rank"] for reply, _ in trio.call(pass_around)] == [2, 0, 1]
        started = time.monotonic()
        said = trio.outcomes(pass_around, None, [{}, {}, odd[2]])
        assert time.monotonic() - started < TIMEOUT / 4
    assert isinstance(said[2], MessageError)
    assert isinstance(said[0], PeerError)


def pass_around(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """Each party sends its rank to the next; what it got from the one before."""
    channel, rank = session.party.channel, session.party.rank
    channel.send(rank.next, [np.array([rank], np.uint8)], tag=1)
    return {"rank": int(channel.receive(rank.previous, size=1, tag=1)[0])}, {}
