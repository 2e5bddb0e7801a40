import contextlib
import socket
import subprocess
import sys
import threading
import time

import pytest
from pydantic import ValidationError

from ditto.errors import DittoError
from ditto.runtime import NAMES, LinkConfig
from ditto.runtime.certificates import LocalCertificate, make_local_certificates
from ditto.runtime.connection import PeerConnections, connect
from ditto.sharing import Rank

from .parties import close, configs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalCertificate, ...]:
    return make_local_certificates(tmp_path_factory.mktemp("tls"), NAMES)


OPEN = """
import os, sys
from ditto.runtime import LinkConfig, open_session
from ditto.errors import DittoError
try:
    open_session(LinkConfig.model_validate_json(sys.stdin.read()))
except DittoError as error:
    print(type(error).__name__, error, flush=True)
os._exit(0)
"""


def open_alone(given: LinkConfig) -> str:
    """What a party says that nobody joins; in a process of its own."""
    command = [sys.executable, "-c", OPEN]
    text = given.model_dump_json()
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_a_peer_that_never_comes_is_named_with_its_address(
    files: tuple[LocalCertificate, ...],
) -> None:
    lonely = configs(files, connect_timeout=2)[0]
    said = open_alone(lonely)
    assert said.startswith("PeerLostError bob did not answer")
    assert lonely.parties[1].host in said


def test_peers_that_listen_but_do_not_join_are_told_apart(
    files: tuple[LocalCertificate, ...],
) -> None:
    given = configs(files, connect_timeout=2)[0]
    with contextlib.ExitStack() as stack:
        for party in given.parties[1:]:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", int(party.host.split(":")[1])))
            listener.listen()
        said = open_alone(given)
    assert said.startswith("SetupError bob was there, but no connection with it")


def test_parties_that_begin_at_different_times_meet(
    files: tuple[LocalCertificate, ...],
) -> None:
    """Two try again and again, each at its own pace; the third is late.

    What they have to one another's last attempt must not count for the next one.
    """
    given = configs(files, connect_timeout=2)
    met: dict[int, dict[Rank, PeerConnections]] = {}
    attempts = [0, 0, 0]
    over = threading.Event()

    def work(rank: int) -> None:
        while rank not in met and not over.is_set():
            attempts[rank] += 1
            with contextlib.suppress(DittoError):
                met[rank] = connect(given[rank])
            if rank not in met:
                time.sleep(0.3)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    threads[0].start()
    time.sleep(0.8)
    threads[1].start()
    time.sleep(3.3)  # both have given up before
    late = time.monotonic()
    threads[2].start()
    for thread in threads:
        thread.join(10)
    over.set()
    assert min(attempts[:2]) > 1
    assert len(met) == 3, attempts
    assert time.monotonic() - late < 5
    close(met.values())


def test_a_port_that_is_taken_is_said(files: tuple[LocalCertificate, ...]) -> None:
    given = configs(files, connect_timeout=5)[0]
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", int(given.parties[0].host.split(":")[1])))
        holder.listen()
        said = open_alone(given)
    assert said.startswith("SetupError alice could not listen")


@pytest.mark.parametrize(
    "changes",
    [
        {"timeout": 1},
        {"session": ""},
        {"rank": 3},
        {"parties": []},
        {"tls": None},
        {"tls": {"certificate": "/none", "key": "/none"}},
        {"listen": "nowhere"},
        {"surprise": 1},
    ],
)
def test_wrong_configurations_are_refused(
    files: tuple[LocalCertificate, ...], changes: dict
) -> None:
    with pytest.raises(ValidationError):
        configs(files, **changes)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("name", "a b", "name"),
        ("identity", "alice", "is not an identity"),
        ("authority", "hello", "not one X.509 certificate"),
        (
            "identity",
            "spiffe://bob.localhost/party/0",
            "no authority may vouch for two",
        ),
    ],
)
def test_wrong_parties_are_refused(
    files: tuple[LocalCertificate, ...], field: str, value: str, reason: str
) -> None:
    first, *others = (party.model_dump() for party in configs(files)[0].parties)
    with pytest.raises(ValidationError, match=reason):
        configs(files, parties=[{**first, field: value}, *others])


def test_a_party_may_listen_elsewhere(files: tuple[LocalCertificate, ...]) -> None:
    """As behind a gateway: its peers' address for it is not one of its machine."""
    given = configs(files, connect_timeout=2)[0]
    alice, bob, carol = given.parties
    outside = alice.model_copy(update={"host": "192.0.2.1:7000"})
    said = open_alone(given.model_copy(update={"parties": (outside, bob, carol)}))
    assert said.startswith("SetupError alice could not listen at 192.0.2.1:7000")
    elsewhere = {"parties": (outside, bob, carol), "listen": alice.host}
    said = open_alone(given.model_copy(update=elsewhere))
    assert said.startswith("PeerLostError bob did not answer")
