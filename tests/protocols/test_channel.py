import numpy as np
import pytest

from ditto.errors import MessageError, PeerLostError, PeerStalledError
from ditto.protocols import memory_channels
from ditto.sharing import Rank

P0, P1, P2 = Rank.P0, Rank.P1, Rank.P2
BYTES = [np.arange(10, dtype=np.uint8)]


def test_crossing_messages_are_one_round_and_answers_one_more() -> None:
    a, b, c = memory_channels(timeout=1)
    a.send(P1, BYTES, tag=0)
    b.send(P0, BYTES, tag=0)
    a.receive(P1, size=10, tag=0)
    b.receive(P0, size=10, tag=0)
    assert (a.traffic().rounds, b.traffic().rounds) == (1, 1)
    b.send(P2, BYTES, tag=0)
    c.receive(P1, size=10, tag=0)
    assert c.traffic().rounds == 2
    c.send(P0, BYTES, tag=0)
    a.receive(P2, size=10, tag=0)
    assert a.traffic().rounds == 3
    assert b.traffic().sent == (10, 0, 10)
    assert b.traffic().messages == 2
    a.restart_clock()
    assert a.traffic().rounds == 0


def test_parties_at_different_steps_are_found_out() -> None:
    a, b, _ = memory_channels(timeout=1, names=("ann", "ben", "cid"))
    a.send(P1, BYTES, tag=7)
    with pytest.raises(MessageError, match="ann is at step 7, this party at step 8"):
        b.receive(P0, size=10, tag=8)


@pytest.mark.parametrize("size", [9, 11])
def test_a_message_of_another_size_is_refused(size: int) -> None:
    a, b, _ = memory_channels(timeout=1)
    a.send(P1, BYTES, tag=0)
    with pytest.raises(MessageError, match=f"10 bytes in step 0, {size} were due"):
        b.receive(P0, size=size, tag=0)


def test_a_silent_peer_and_a_peer_that_left_are_named() -> None:
    a, b, _ = memory_channels(timeout=0.05, names=("ann", "ben", "cid"))
    with pytest.raises(PeerStalledError) as stalled:
        a.receive(P1, size=1, tag=0)
    assert stalled.value.peer == "ben"
    b.close()
    with pytest.raises(PeerLostError) as lost:
        a.receive(P1, size=1, tag=0)
    assert lost.value.peer == "ben"
