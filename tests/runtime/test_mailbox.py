"""One party's links, with peers played by hand: what it makes of what they send."""

import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ditto.errors import PeerLostError, PeerStalledError
from ditto.runtime import NAMES
from ditto.runtime.certificates import make_local_certificates
from ditto.runtime.connection import PeerConnections, connect
from ditto.runtime.links import HEARTBEATS, Links
from ditto.sharing import Rank

from .parties import close, configs

TIMEOUT = 5.0
BEAT = TIMEOUT / HEARTBEATS
NOBODY = 255
ALIVE, GAVE_UP, LEAVING = 0, 1, 2


class Peer:
    """A peer of P0's that says what the test wants it to."""

    def __init__(self, lines: PeerConnections) -> None:
        self.lines = lines

    def beat(self, kind: int, about: int = NOBODY, gone: int = 0) -> None:
        self.lines.heartbeats_to.send(bytes([kind, about, gone]))

    def send(self, key: bytes, body: bytes) -> None:
        self.lines.mail_to.send(struct.pack("<HQ", len(key), len(body)) + key + body)

    def leave(self) -> None:
        self.beat(LEAVING)
        self.send(b"", b"")


@pytest.fixture
def played(tmp_path: Path) -> Iterator[tuple[Links, Peer, Peer]]:
    """P0's links, and its peers P1 and P2."""
    files = make_local_certificates(tmp_path, NAMES)
    mine, *others = configs(files, timeout=TIMEOUT)
    with ThreadPoolExecutor(3) as pool:
        opening = pool.submit(Links, mine)
        met = list(pool.map(connect, others))
        links = opening.result()
    yield links, Peer(met[0][Rank.P0]), Peer(met[1][Rank.P0])
    links.abort()
    links.close()
    close(met)


Played = tuple[Links, Peer, Peer]


def test_messages_wait_under_their_keys(played: Played) -> None:
    links, bob, carol = played
    bob.send(b"second", b"two")
    bob.send(b"first", b"")
    carol.send(b"first", b"another")
    assert bytes(links.fetch(Rank.P1, b"first")) == b""
    assert bytes(links.fetch(Rank.P1, b"second")) == b"two"
    assert bytes(links.fetch(Rank.P2, b"first")) == b"another"


def test_short_and_long_messages_keep_their_order(played: Played) -> None:
    """Short ones are sent by who posts them, unless others are under way."""
    links, bob, _ = played
    sizes = [3, 1 << 22, 5, 0, 1 << 14, (1 << 14) + 1, 7, 1 << 20, 2] * 3
    bodies = [bytes([k]) * size for k, size in enumerate(sizes)]
    for body in bodies:
        links.post(Rank.P1, b"key", [body])
    for body in bodies:
        length, size = struct.unpack("<HQ", bob.lines.mail_from.read(10))
        assert bytes(bob.lines.mail_from.read(length)) == b"key"
        assert size == len(body)
        assert bytes(bob.lines.mail_from.read(size)) == body


def test_nobody_waits_for_a_peer_that_does_not_read(played: Played) -> None:
    links, bob, _ = played
    started = time.monotonic()
    for _ in range(2000):
        links.post(Rank.P1, b"key", [bytes(1 << 13)])
    assert time.monotonic() - started < TIMEOUT
    for _ in range(2000):
        bob.lines.mail_from.read(10 + 3 + (1 << 13))


def test_beats_without_sense_are_passed_over(played: Played) -> None:
    links, bob, _ = played
    for beat in ((GAVE_UP, NOBODY), (7, 1), (ALIVE, 3), (GAVE_UP, 99)):
        bob.beat(*beat)
    time.sleep(0.1)
    bob.send(b"key", b"body")
    assert bytes(links.fetch(Rank.P1, b"key")) == b"body"


def test_who_gave_up_is_believed(played: Played) -> None:
    links, bob, _ = played
    bob.beat(GAVE_UP, about=2, gone=1)
    with pytest.raises(PeerLostError, match="carol is gone"):
        links.fetch(Rank.P1, b"key")


def test_an_error_of_its_own_is_told_as_such(played: Played) -> None:
    links, bob, _ = played
    bob.beat(GAVE_UP, about=1)
    bob.lines.mail_to.end()
    with pytest.raises(PeerStalledError, match="bob has ended the session after an er"):
        links.fetch(Rank.P1, b"key")


def test_what_a_leaver_sent_can_be_read_and_nothing_more(played: Played) -> None:
    links, bob, _ = played
    bob.send(b"last", b"words")
    bob.leave()
    time.sleep(0.1)
    assert bytes(links.fetch(Rank.P1, b"last")) == b"words"
    with pytest.raises(PeerLostError, match="bob has left the session in good order"):
        links.fetch(Rank.P1, b"more")


def test_a_leaver_is_heard_out(played: Played) -> None:
    """It said that it leaves, its messages are still on their way."""
    links, bob, carol = played
    bob.beat(LEAVING)
    carol.leave()
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(links.fetch, Rank.P1, b"late")
        time.sleep(0.5 * TIMEOUT)  # longer than a silence may last
        bob.send(b"late", b"mail")
        assert bytes(fetched.result()) == b"mail"


def test_mail_that_breaks_off_alone_is_noticed(played: Played) -> None:
    links, bob, _ = played
    bob.beat(ALIVE)
    bob.lines.mail_to.end()
    started = time.monotonic()
    with pytest.raises(PeerLostError, match="bob is gone: its connection broke off"):
        links.fetch(Rank.P1, b"key")
    assert time.monotonic() - started < 4 * BEAT


def test_silence_is_an_end_and_a_stall_another(played: Played) -> None:
    links, bob, carol = played
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(links.fetch, Rank.P1, b"key")
        while not fetched.done():
            bob.beat(ALIVE, about=2)  # waits for carol
            carol.beat(ALIVE)
            time.sleep(BEAT)
        with pytest.raises(PeerStalledError, match="carol is alive but has not sent"):
            fetched.result()


def test_a_silent_peer_is_gone(played: Played) -> None:
    links, bob, _ = played
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(links.fetch, Rank.P1, b"key")
        while not fetched.done():
            bob.beat(ALIVE, about=2)
            time.sleep(BEAT)
        with pytest.raises(PeerLostError, match="carol is gone"):
            fetched.result()
