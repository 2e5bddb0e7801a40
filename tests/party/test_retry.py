"""A run that failed is tried again from the same state, in a new session."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ditto.client import open_outputs, share_input
from ditto.errors import DittoError, EngineError
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment, PartyStore, serve, store_of
from ditto.plan import Plan
from ditto.runtime import ProcessTrio, Session, ThreadTrio, Trio
from ditto.sharing import Rank
from ditto.wire import Arrays, DropState, Json, RunPlan, Status, Turn, encode

from .test_refusals import W, X, compiled, first, further

TRIOS: dict[str, Callable[..., Trio]] = {"threads": ThreadTrio, "links": ProcessTrio}


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled(X)


@pytest.fixture(params=TRIOS)
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    with TRIOS[request.param](timeout=20.0) as parties:
        yield parties


def _fail(*_: object, **__: object) -> None:
    raise EngineError("planted", operation="planted", scope="test")


def fail_on_the_way(session: Session, body: Json, arrays: Arrays) -> Any:
    """P1 cannot send; the others wait for it in vain."""
    channel: Any = session.party.channel
    if session.party.rank == Rank.P1:
        channel.send = _fail
    return serve(session, body, arrays)


def fail_at_the_end(session: Session, body: Json, arrays: Arrays) -> Any:
    """P1 has computed but does not commit; the others do."""
    store: Any = store_of(session)
    if session.party.rank == Rank.P1:
        store.commit = _fail
    try:
        return serve(session, body, arrays)
    finally:
        store.__dict__.pop("commit", None)


def runs(plan: Plan, turn: Turn, x: Any) -> list[RunPlan]:
    shares = share_input(signature_of(plan).inputs[1], x)
    return [RunPlan("m", plan.digest, turn, arrays) for arrays in shares]


@pytest.mark.parametrize("failing", [fail_on_the_way, fail_at_the_end])
def test_a_failed_run_can_be_tried_again(
    trio: Trio, plans: tuple[Plan, Plan], failing: Any
) -> None:
    begin, go_on = plans
    parties = LocalDeployment(trio)
    owner = Publisher(parties, "m", "owner", [W])
    for plan in plans:
        owner.publish(plan)

    def fail(requests: list[RunPlan]) -> None:
        sent = [encode(request) for request in requests]
        with pytest.raises(EngineError) as caught:  # not of who waited for it
            trio.call(failing, [body for body, _ in sent], [a for _, a in sent])
        assert caught.value.operation == "planted"
        assert trio.failed

    def ask(plan: Plan, turn: Turn, x: Any) -> Any:
        replies = parties.call(runs(plan, turn, x))
        return open_outputs(signature_of(plan), [r.arrays for r in replies])[0]

    fail(runs(begin, Turn("lost"), X))
    expected, cache = first(W, X)
    assert np.abs(ask(begin, Turn("s"), X) - expected).max() < 0.01
    fail(runs(go_on, Turn("s", 1), -X))
    answer = ask(go_on, Turn("s", 1), -X)
    expected, cache = further(W, -X, cache)
    assert np.abs(answer - expected).max() < 0.02
    answer = ask(go_on, Turn("s", 2), X)
    assert np.abs(answer - further(W, X, cache)[0]).max() < 0.02
    assert trio.starts == 1
    for conversation in ("s", "lost"):
        parties.call_all(DropState(conversation))
    assert [status.states for status in parties.call_all(Status())] == [0, 0, 0]


def test_parties_that_are_gone_are_started_anew(plans: tuple[Plan, Plan]) -> None:
    begin, _ = plans
    with ProcessTrio(timeout=20.0) as trio:
        parties = LocalDeployment(trio)
        owner = Publisher(parties, "m", "owner", [W])
        owner.publish(begin)
        trio.processes[2].kill()
        with pytest.raises(DittoError):
            parties.call(runs(begin, Turn("s"), X))
        assert parties.trio.starts == 2
        owner.publish(begin)
        parties.call(runs(begin, Turn("s"), X))


def test_a_state_in_use_is_not_given_out_again() -> None:
    store = PartyStore()
    turn = Turn("s")
    store.register_model("m", "owner", ["p"], [("p", "p")])
    store.check_out(turn, "m", "p", begins=True)
    with pytest.raises(DittoError, match="cannot begin again"):
        store.check_out(turn, "m", "p", begins=True)
    with pytest.raises(DittoError, match="uses the state"):
        store.drop_state("s")
    store.commit(turn, "p", ())
    store.check_out(turn.next, "m", "p", begins=False)
    with pytest.raises(DittoError, match="Another run uses"):
        store.check_out(turn.next, "m", "p", begins=False)
    store.give_back(turn.next)
    store.drop_state("s")
    assert store.conversations() == {}
