"""Several runs at the same time, over one set of links."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ditto.errors import DittoError
from ditto.party.running import Admitted, execute
from ditto.party.server import lane
from ditto.party.server.lane import CommonState
from ditto.party.store import PartyStore, State
from ditto.runtime import Session
from ditto.wire import RunReply, Turn

from .running import Service, running, turn, until
from .toy import W, X, first


class Gate:
    """Holds the runs of some conversations at all parties until it is opened."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.inside = threading.Semaphore(0)
        self.open = threading.Event()

    def execute(
        self, store: PartyStore, session: Session, run: Admitted, state: State
    ) -> RunReply:
        asked = run.request.turn
        if asked is not None and asked.conversation in self.held:
            self.inside.release()
            assert self.open.wait(60)
        return execute(store, session, run, state)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(lane, "execute", gate.execute)
    return gate


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """None of three is told that the parties are busy: it would ask again in another
    conversation, which the gate does not hold."""
    with running(
        tmp_path_factory.mktemp("lanes"), lanes=2, queue_length=3, states_per_client=8
    ) as service:
        yield service


def is_right(answer: Any) -> bool:
    return bool(np.abs(answer - first(W, X)[0]).max() < 0.01)


def test_a_run_overtakes_one_that_takes_long(service: Service, gate: Gate) -> None:
    slow, quick = turn(), turn()
    gate.held.add(slow.conversation)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(service.ask, service.client("alice"), slow)
        for _ in range(3):
            assert gate.inside.acquire(timeout=30)
        assert is_right(service.ask(service.client("bob"), quick))
        assert not late.done()
        assert service.hosts[0].status().running == 1
        gate.open.set()
        assert is_right(late.result(30))


def test_no_more_run_at_once_than_there_are_lanes(service: Service, gate: Gate) -> None:
    turns = [turn() for _ in range(3)]
    gate.held.update(each.conversation for each in turns)
    with ThreadPoolExecutor(3) as pool:
        asked = [
            pool.submit(service.ask, service.client(name), each)
            for name, each in zip(("alice", "bob", "carol"), turns, strict=True)
        ]
        for _ in range(6):
            assert gate.inside.acquire(timeout=30)
        until(lambda: service.hosts[0].status().waiting == 1)
        assert not gate.inside.acquire(timeout=0.5)
        gate.open.set()
        assert all(is_right(each.result(30)) for each in asked)


def test_many_ask_at_the_same_time(service: Service) -> None:
    def ask(k: int) -> bool:
        return all(
            is_right(service.ask(service.client(f"client-{k}"), turn()))
            for _ in range(3)
        )

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(ask, range(3)))


def test_a_lane_that_fails_ends_all_and_they_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its peers cannot know what the others have computed: nothing is resumed."""
    broken, other = turn(), turn()
    gate, ran = Gate(), list[Turn | None]()
    gate.held.add(other.conversation)

    def fails_at_one(
        store: PartyStore, session: Session, run: Admitted, state: State
    ) -> RunReply:
        asked = run.request.turn
        ran.append(asked)
        if asked == broken and session.party.rank == 1 and not gate.open.is_set():
            raise RuntimeError
        return gate.execute(store, session, run, state)

    monkeypatch.setattr(lane, "execute", fails_at_one)
    with running(tmp_path, lanes=2) as service, ThreadPoolExecutor(2) as pool:
        beside = pool.submit(service.ask, service.client("alice"), other)
        for _ in range(3):
            assert gate.inside.acquire(timeout=30)
        lost = pool.submit(service.ask, service.client("bob"), broken)
        until(lambda: all(h.status().state != "ready" for h in service.hosts))
        gate.open.set()
        with pytest.raises(DittoError, match="operator's log"):
            lost.result(30)
        assert is_right(beside.result(30))
        assert len(ran) == 9  # at each party both, and that one once more


def test_the_latest_exchange_knows_best() -> None:
    shared = CommonState()
    early, late = shared.next_number(), shared.next_number()
    assert shared.is_news(late)
    assert not shared.is_news(early)
    shared.forget()
    assert shared.is_news(shared.next_number())


def test_who_is_gone_is_told_once() -> None:
    shared = CommonState()
    for k in range(1500):
        shared.drop(str(k))
    assert len(shared.take_dropped()) == 1000
    assert shared.take_dropped() == tuple(map(str, range(1000, 1500)))
    assert shared.take_dropped() == ()
