"""Messages between the processes: sealed, and ended in good order."""

from ditto.engine import ProcessTrio
from ditto.errors import MessageError

from .parties import leave_early, tamper, wire_bytes


def test_messages_are_sealed_from_party_to_party() -> None:
    text = "a share, in the clear" * 10
    with ProcessTrio(tls=False) as trio:
        reply = trio.call(wire_bytes, {"text": text})[0][0]
    assert reply["opened"] == text
    sealed = bytes.fromhex(reply["sealed"])
    assert len(sealed) == len(text) + 16
    assert text[:8].encode() not in sealed


def test_a_message_that_the_peer_did_not_seal_is_refused() -> None:
    with ProcessTrio() as trio:
        outcome = trio.outcomes(tamper)[0]
    assert isinstance(outcome, MessageError)
    assert "not sealed by bob" in str(outcome)


def test_a_peer_that_left_in_good_order_is_not_missed() -> None:
    timeout = 10
    with ProcessTrio(timeout=timeout) as trio:
        outcomes = trio.outcomes(leave_early, {"seconds": 0.6 * timeout})
    assert outcomes == [({}, {})] * 3
