"""What arrives at a party while a plan runs: what its steps declare, and no more.

The answer goes to the client; the parties get nothing of it.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.analysis import predict
from ditto.client import open_outputs, share_input
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment, running
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.sharing import RANKS, Rank
from ditto.sharing.packing import Bytes
from ditto.wire import RunPlan

rng = np.random.default_rng(1)
W = rng.normal(size=(8, 64)).astype(np.float32) / 3
X = rng.normal(size=(32, 8)).astype(np.float32)


def model(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.tanh(x @ w)) * 2


class Received:
    """Bytes that came to each party: before, during and after the steps of a plan."""

    def __init__(self) -> None:
        self.before, self.during, self.after = ([0, 0, 0] for _ in range(3))
        self._now = [self.before] * 3

    def tap(self, channel: Any) -> None:
        receive, rank = channel.receive, channel.rank

        def noted(source: Rank, *, size: int, tag: int) -> Bytes:
            message: Bytes = receive(source, size=size, tag=tag)
            self._now[rank][rank] += message.size
            return message

        channel.receive = noted

    def steps_begin(self, rank: Rank) -> None:
        self._now[rank] = self.during

    def steps_end(self, rank: Rank) -> None:
        self._now[rank] = self.after


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ditto.compile(
        model, (W, X), calibration=[(W, X), (W, -X)], weight_argnums=(0,)
    )


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=20) as parties:
        yield parties


def run(
    plan: Plan, trio: ThreadTrio, monkeypatch: pytest.MonkeyPatch
) -> tuple[Received, list[Any]]:
    parties = LocalDeployment(trio)
    Publisher(parties, "m", "owner", [W]).publish(plan)
    received, execute = Received(), running.execute_plan
    for session in trio.sessions:
        received.tap(session.party.channel)

    def watched(plan: Plan, session: Any, *rest: Any, **named: Any) -> Any:
        received.steps_begin(session.party.rank)
        try:
            return execute(plan, session, *rest, **named)
        finally:
            received.steps_end(session.party.rank)

    monkeypatch.setattr(running, "execute_plan", watched)
    dealt = share_input(signature_of(plan).inputs[1], X)
    requests = [RunPlan("m", plan.digest, None, arrays) for arrays in dealt]
    return received, parties.call(requests)


def test_nothing_of_the_answer_comes_to_a_party(
    plan: Plan, trio: ThreadTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, replies = run(plan, trio, monkeypatch)
    answer = open_outputs(signature_of(plan), [r.arrays for r in replies])
    assert isinstance(answer, np.ndarray)
    assert np.abs(answer - np.asarray(model(W, X))).max() < 0.02
    # A hash of what they hold in common may go round; a share of the answer may not.
    for rank in RANKS:
        assert 8 * received.before[rank] < answer.size
        assert 8 * received.after[rank] < answer.size


def test_what_comes_is_what_the_steps_declare(
    plan: Plan, trio: ThreadTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, replies = run(plan, trio, monkeypatch)
    declared = [cost.bytes for cost in predict(plan)]
    sent = [[step[0] for step in reply.steps] for reply in replies]
    assert [sum(each) for each in zip(*sent, strict=True)] == declared
    assert sum(received.during) == sum(declared)
