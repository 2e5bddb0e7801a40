"""Sessions between processes end in good order."""

import time

from ditto.errors import PeerLostError
from ditto.runtime import ProcessTrio

from .parties import leave_early, send_and_leave, wait_in_vain

TIMEOUT = 6


def test_a_peer_that_left_in_good_order_is_not_missed() -> None:
    with ProcessTrio(timeout=TIMEOUT) as trio:
        outcomes = trio.outcomes(leave_early, {"seconds": 0.6 * TIMEOUT})
    assert outcomes == [({}, {})] * 3


def test_what_was_sent_before_leaving_arrives() -> None:
    size = 100_000_000  # more than the kernel holds between them
    with ProcessTrio(timeout=TIMEOUT) as trio:
        outcomes = trio.outcomes(send_and_leave, {"size": size, "seconds": 0.5})
    assert outcomes == [({"sum": 7 * size}, {}), ({}, {}), ({}, {})]


def test_who_waits_for_one_that_left_is_told_at_once() -> None:
    with ProcessTrio(timeout=TIMEOUT) as trio:
        started = time.monotonic()
        outcome = trio.outcomes(wait_in_vain)[0]
        assert time.monotonic() - started < TIMEOUT / 2
    assert isinstance(outcome, PeerLostError)
    assert outcome.peer == "bob"
    assert "left the session in good order" in str(outcome)
