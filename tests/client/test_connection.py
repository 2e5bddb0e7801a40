"""A party is reached over a slow network too."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ditto.client.connection import PartyConnection
from ditto.wire.agreement import Agreement
from tests.client.test_reachability import RANK, place, serving
from tests.deployments import make_deployment

DELAY = 0.3
"""Seconds that each part of a handshake needs."""


def late(source: socket.socket, sink: socket.socket) -> None:
    """What one side says reaches the other later."""
    with suppress(OSError):
        while said := source.recv(1 << 16):
            time.sleep(DELAY)
            sink.sendall(said)


@contextmanager
def slow_way(address: tuple[str, int]) -> Iterator[str]:
    """Another address, from which an address is reached slowly by one caller."""
    with socket.create_server(("127.0.0.1", 0)) as relay:

        def work() -> None:
            with (
                relay.accept()[0] as caller,
                socket.create_connection(address) as party,
            ):
                back = threading.Thread(target=late, args=(party, caller))
                back.start()
                late(caller, party)
                party.shutdown(socket.SHUT_RDWR)
                back.join()

        thread = threading.Thread(target=work)
        thread.start()
        yield f"127.0.0.1:{relay.getsockname()[1]}"
        thread.join()


def test_a_handshake_may_take_longer_than_the_wait_for_the_next_attempt(
    tmp_path: Path,
) -> None:
    files = make_deployment(tmp_path / "d")
    operator = files.credentials(files.member("operator", "eve", "org-a.example"))
    document = files.agreement.model_dump()
    party = place(files.agreement.parties[RANK].grpc_address(0))
    with serving(files), slow_way(party) as address:
        document["parties"][RANK]["grpc"] = address
        agreement = Agreement.model_validate(document)
        connection = PartyConnection(agreement, operator, RANK, 0)
        assert connection.status().rank == RANK
        connection.close()
