import contextlib
import socket
import subprocess
import sys

import pytest
from pydantic import ValidationError

from ditto.runtime import NAMES, LinkConfig, TlsFiles
from ditto.runtime.certificates import make_local_certificates

from .parties import configs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsFiles, ...]:
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
    files: tuple[TlsFiles, ...],
) -> None:
    lonely = configs(files, connect_timeout=2)[0]
    said = open_alone(lonely)
    assert said.startswith("PeerLostError bob did not answer")
    assert lonely.parties[1].host in said


def test_peers_that_listen_but_do_not_join_are_told_apart(
    files: tuple[TlsFiles, ...],
) -> None:
    given = configs(files, connect_timeout=2)[0]
    with contextlib.ExitStack() as stack:
        for party in given.parties[1:]:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", int(party.host.split(":")[1])))
            listener.listen()
        said = open_alone(given)
    assert said.startswith("SetupError bob was there, but no connection with it")


def test_a_port_that_is_taken_is_said(files: tuple[TlsFiles, ...]) -> None:
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
        {"parties": [{"name": "alice", "host": "127.0.0.1:1"}] * 3},
        {"tls": None},
        {"tls": {"certificate": "/none", "key": "/none", "authority": "/none"}},
        {"surprise": 1},
    ],
)
def test_wrong_configurations_are_refused(
    files: tuple[TlsFiles, ...], changes: dict
) -> None:
    with pytest.raises(ValidationError):
        configs(files, **changes)
