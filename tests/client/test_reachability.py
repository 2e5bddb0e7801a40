"""What ``ditto doctor --deployment`` finds: the cause of everything that is wrong."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ditto.client.reachability import CHECKS, PartyReport, examine, examine_party
from ditto.party.server.calls import CallServer
from ditto.trust import Credentials, Identity, Issued, Role, issue, make_authority
from ditto.trust.authority import sign_for, write_issued
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import ServiceStatus, as_body
from ditto.wire.manifest import VERSION
from ditto.wire.methods import METHODS, STATUS
from tests.deployments import ORGANISATIONS, Files, make_deployment
from tests.trust.certificates import DAY, NOW, issued_with, uri

RANK = 1
DOMAIN = "org-b.example"
BOB = Identity(DOMAIN, Role.PARTY, str(RANK))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_deployment(tmp_path / "d")


@pytest.fixture
def operator(files: Files) -> Credentials:
    return files.credentials(files.member("operator", "eve", "org-a.example"))


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def failure(report: PartyReport, name: str) -> str:
    """The cause that is named; what comes after it was not looked at."""
    first = report.failures[0]
    assert first.name == name, report.checks
    before = [check.name for check in report.checks if check.ok]
    assert before == list(CHECKS[: CHECKS.index(name)])
    assert first.advice
    assert not report.ok
    return first.found


@contextmanager
def listening(address: str, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """Somebody at an address who does the same with each caller."""
    with socket.create_server(place(address)) as server:

        def work() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.settimeout(5)
                    try:
                        answer(caller)
                    except OSError:
                        continue

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def showing(issued: Issued, folder: Path) -> Callable[[socket.socket], None]:
    """TLS with a certificate, and no more."""
    write_issued(folder, issued)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    def answer(caller: socket.socket) -> None:
        with context.wrap_socket(caller, server_side=True) as stream:
            stream.recv(1)

    return answer


def test_nobody_listens(files: Files, operator: Credentials) -> None:
    reports = examine(files.agreement, operator, 0)
    for rank, report in enumerate(reports):
        found = failure(report, "port open")
        assert files.agreement.parties[rank].grpc_address(0) in found
        assert "refuses connections" in found
        link = report.failures[-1]
        assert link.name == "links"
        assert files.agreement.parties[rank].link_address(0) in link.found


def test_a_name_that_is_none(files: Files, operator: Credentials) -> None:
    document = files.agreement.model_dump()
    document["parties"][RANK]["grpc"] = "party.nowhere.invalid:7100"
    agreement = Agreement.model_validate(document)
    report = examine_party(agreement, operator, RANK, 0)
    assert "party.nowhere.invalid has no address" in failure(report, "name found")


def test_something_that_speaks_no_tls(files: Files, operator: Credentials) -> None:
    def answer(caller: socket.socket) -> None:
        caller.recv(100)
        caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(files.agreement.parties[RANK].grpc_address(0), answer):
        report = examine_party(files.agreement, operator, RANK, 0)
    assert "does not speak TLS with us" in failure(report, "TLS")


WRONG: dict[str, tuple[Callable[[Files], Issued], str, str]] = {
    "another authority": (
        lambda _: issue(make_authority(DOMAIN), BOB),
        "authority",
        "was not signed by the authority of org-b.example",
    ),
    "A's authority in B's name": (
        lambda files: sign_for(files.authorities["org-a.example"], BOB),
        "authority",
        "was not signed by the authority of org-b.example",
    ),
    "an unknown domain": (
        lambda _: issue(
            make_authority("x.example"), Identity("x.example", Role.PARTY, "1")
        ),
        "authority",
        "x.example, which is not known here",
    ),
    "expired": (
        lambda files: issued_with(
            files.authorities[DOMAIN], [uri(str(BOB))], valid=(NOW - 9 * DAY, NOW - DAY)
        ),
        "dates",
        "expired at",
    ),
    "not valid yet": (
        lambda files: issued_with(
            files.authorities[DOMAIN], [uri(str(BOB))], valid=(NOW + DAY, NOW + 2 * DAY)
        ),
        "dates",
        "is valid from",
    ),
    "another party": (
        lambda files: issue(
            files.authorities[DOMAIN], Identity(DOMAIN, Role.PARTY, "0")
        ),
        "identity",
        "spiffe://org-b.example/party/0, where spiffe://org-b.example/party/1",
    ),
    "a client's": (
        lambda files: issue(
            files.authorities[DOMAIN], Identity(DOMAIN, Role.CLIENT, "1")
        ),
        "identity",
        "lacks serverAuth",
    ),
    "no DNS name": (
        lambda files: issued_with(files.authorities[DOMAIN], [uri(str(BOB))]),
        "identity",
        "lacks the DNS name 1.party.org-b.example",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_certificate_is_named(
    files: Files, operator: Credentials, tmp_path: Path, name: str
) -> None:
    make, check, reason = WRONG[name]
    party = files.agreement.parties[RANK]
    answer = showing(make(files), tmp_path / "shown")
    with (
        listening(party.grpc_address(0), answer),
        listening(party.link_address(0), answer),
    ):
        report = examine_party(files.agreement, operator, RANK, 0)
    assert reason in failure(report, check)
    assert reason in report.failures[-1].found  # on the links as well
    assert report.failures[-1].name == "links"


def status(agreement: Agreement, /, **changes: Any) -> ServiceStatus:
    mine = changes.get("rank", RANK)
    others = [rank for rank in range(3) if rank != mine]
    peers = {str(agreement.party_identity(rank)): True for rank in others}
    common: dict[str, Any] = {
        "rank": RANK,
        "trio": 0,
        "identity": str(BOB),
        "version": VERSION,
        "agreement": agreement.digest,
        "boot": "b",
        "state": "ready",
        "peers": peers,
        "time": time.time(),
    }
    return ServiceStatus.model_validate(common | changes)


@contextmanager
def serving(files: Files, rank: int = RANK, **changes: Any) -> Iterator[None]:
    """The gRPC of a party that says what it is told to of itself."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("Nobody asks for that.")

    def answer(_: Any, frames: Any) -> Any:
        list(frames)
        yield as_body(status(files.agreement, **{"rank": rank, **changes})), {}

    folder = files.member("party", str(rank), ORGANISATIONS[rank])
    server = CallServer(
        files.agreement.parties[rank].grpc_address(0),
        files.agreement,
        lambda: files.credentials(folder),
        {**dict.fromkeys(METHODS, refuse), STATUS: answer},
    )
    server.start()
    try:
        yield
    finally:
        server.stop(0)


def test_all_is_well(files: Files, operator: Credentials) -> None:
    with serving(files):
        report = examine_party(files.agreement, operator, RANK, 0)
    assert report.ok, report.failures
    assert [check.name for check in report.checks] == list(CHECKS)
    assert report.status is not None
    assert report.status.state == "ready"


@pytest.mark.parametrize(
    ("changes", "check", "reason"),
    [
        ({"version": "9.9.9"}, "version", "9.9.9"),
        ({"agreement": "0" * 64}, "agreement", "000000000000 there"),
        ({"time": time.time() + 3600}, "clock", "s ahead of ours"),
        ({"time": time.time() - 3600}, "clock", "s behind ours"),
        ({"state": "draining"}, "ready", "draining"),
    ],
)
def test_what_a_party_says_of_itself_is_compared(
    files: Files,
    operator: Credentials,
    changes: dict[str, Any],
    check: str,
    reason: str,
) -> None:
    with serving(files, **changes):
        report = examine_party(files.agreement, operator, RANK, 0)
    (only,) = report.failures
    assert only.name == check
    assert reason in only.found


def test_a_party_without_its_peers(files: Files, operator: Credentials) -> None:
    """It looks for them: its port for links is open, and it says what it lacks."""
    peers = dict.fromkeys(status(files.agreement).peers, False)
    problem = "org-c.example did not answer"
    changes = {"peers": peers, "state": "starting", "problem": problem}
    party = files.agreement.parties[RANK]
    shown = showing(
        issue(files.authorities[DOMAIN], BOB), files.folder / "shown-to-peers"
    )
    with serving(files, **changes), listening(party.link_address(0), shown):
        report = examine_party(files.agreement, operator, RANK, 0)
    assert [each.name for each in report.failures] == ["links", "ready"]
    assert all(each.advice == problem for each in report.failures)
    assert party.link_address(0) in report.failures[0].found


def test_who_is_not_admitted_is_told(files: Files) -> None:
    stranger = files.credentials(files.member("operator", "mallory"))
    with serving(files):
        report = examine_party(files.agreement, stranger, RANK, 0)
    found = failure(report, "lets us in")
    assert "spiffe://acme.example/operator/mallory is not admitted" in found
