"""Tickets end once; who waits is told in time."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ditto.errors import BusyError, DeadlineError, PeerError, RequestError
from ditto.party.server.queue import RunQueue
from ditto.wire import RunReply

REPLY = RunReply((), 0.0, 0.0, 0.0, 0.0, 0.0, {})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run(request_id: str) -> Any:
    return SimpleNamespace(request=SimpleNamespace(request_id=request_id))


def put(queue: RunQueue, name: str, deadline: float = 1e9) -> Any:
    request_id = name * 16
    queue.remember(request_id)
    return queue.put(run(request_id), deadline)


def test_tickets_come_in_order_and_by_name() -> None:
    queue = RunQueue(8)
    a, b, c = (put(queue, name) for name in "abc")
    assert queue.claim("b" * 16, 0.0) is b
    assert queue.next(0.0) is a
    queue.postpone(c, 0.0)
    assert queue.next(0.0) is c
    assert queue.next(0.0) is None


def test_a_postponed_ticket_lets_others_go_first() -> None:
    clock = Clock()
    queue = RunQueue(8, clock)
    a, b = put(queue, "a"), put(queue, "b")
    assert queue.next(0.0) is a
    queue.postpone(a, 5.0)
    assert queue.next(0.0) is b
    assert queue.next(0.0) is None
    clock.now += 6
    assert queue.next(0.0) is a


def test_the_queue_is_bounded() -> None:
    queue = RunQueue(2)
    put(queue, "a"), put(queue, "b")
    with pytest.raises(BusyError) as caught:
        put(queue, "c")
    assert caught.value.retry_after >= 1
    assert queue.waiting == 2


def test_an_id_is_used_once_and_a_refused_one_is_known() -> None:
    queue = RunQueue(2)
    put(queue, "a")
    with pytest.raises(RequestError, match="used before"):
        put(queue, "a")
    queue.remember("b" * 16)
    assert queue.claim("b" * 16, 0.0) is None
    assert not queue.was_refused("b" * 16)  # it may still come
    queue.refuse("b" * 16)
    assert queue.claim("b" * 16, 10.0) is None  # at once
    assert queue.was_refused("b" * 16)


def test_who_claims_waits_for_what_is_on_its_way() -> None:
    queue = RunQueue(2)
    threading.Timer(0.1, lambda: put(queue, "a")).start()
    assert queue.claim("a" * 16, 10.0) is not None


def test_a_ticket_ends_once() -> None:
    ticket = put(RunQueue(1), "a")
    ticket.report({"step": 1})
    assert ticket.end(REPLY)
    assert not ticket.end(PeerError("late", peer="x"))
    assert list(ticket.events()) == [{"step": 1}, REPLY]


def test_a_ticket_ends_at_its_deadline() -> None:
    clock = Clock()
    queue = RunQueue(2, clock)
    ticket = put(queue, "a", clock.now)
    with pytest.raises(DeadlineError, match="waited for its turn"):
        list(ticket.events())
    assert queue.next(0.0) is None
    assert queue.waiting == 0


def test_all_who_wait_are_told() -> None:
    queue = RunQueue(4)
    tickets = [put(queue, name) for name in "abc"]
    queue.fail_all(PeerError("gone", peer="org-b"))
    for ticket in tickets:
        with pytest.raises(PeerError, match="gone"):
            list(ticket.events())
