"""Parties that do not agree, and a client whose certificate runs out meanwhile."""

import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from ditto.audit import PROOFS
from ditto.client.remote import RemoteDeployment, Trios
from ditto.errors import CertificateError, UnknownModelError
from ditto.party.server import host as hosts
from ditto.trust import Authority, Identity, issue
from ditto.trust.authority import Issued, write_issued
from tests.deployments import ACME

from .running import NAME, NEXT_VERSION, Service, running, turn
from .toy import W, X, first


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def starts_and_waits(service: Service, problem: str) -> None:
    """org-b, stopped before, starts otherwise than the others and says so."""
    odd = service.start(1)
    try:
        wait_until(lambda: problem in (odd.status().problem or ""))
        assert odd.status().state == "starting"
    finally:
        odd.stop()


def test_another_agreement_is_refused_in_the_greeting(service: Service) -> None:
    """org-b restarts with limits that the others have not agreed to."""
    service.hosts[1].stop()
    before = service.files.deployment.read_text()
    changed = before.replace("queue_length = 2", "queue_length = 3")
    assert changed != before
    service.files.deployment.write_text(changed)
    try:
        starts_and_waits(service, "another agreement")
    finally:
        service.files.deployment.write_text(before)
        service.hosts[1] = service.start(1)
        service.wait_until_ready()


def test_another_version_is_refused_in_the_greeting(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agreement admits both versions, but one trio runs one."""
    service.hosts[1].stop()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(hosts, "VERSION", NEXT_VERSION)
            starts_and_waits(service, "another version")
    finally:
        service.hosts[1] = service.start(1)
        service.wait_until_ready()


def test_other_proofs_are_refused_in_the_greeting(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds of one version whose proofs differ would accuse each other."""
    service.hosts[1].stop()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(hosts, "PROOFS", PROOFS + 1)
            starts_and_waits(service, "another version of the proofs, so another build")
    finally:
        service.hosts[1] = service.start(1)
        service.wait_until_ready()


def test_a_model_that_one_party_has_otherwise_is_not_served(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = service.hosts[2]._library
    changed = service.release.model_copy(update={"created": 1})
    assert changed.digest != service.release.digest

    def agreed() -> set[bool]:
        return {m.agreed for host in service.hosts for m in host.status().models}

    assert agreed() == {True}
    with monkeypatch.context() as patch:
        patch.setattr(library, "releases", lambda: {NAME: changed})
        wait_until(lambda: agreed() == {False})
        with pytest.raises(UnknownModelError, match=NAME):
            service.ask(service.client(seconds=5), turn())
    wait_until(lambda: agreed() == {True})
    assert np.abs(service.ask(service.client(), turn()) - first(W, X)[0]).max() < 0.01


def brief(authority: Authority, issued: Issued, seconds: float) -> Issued:
    """The same certificate, which ends soon."""
    like = issued.certificate
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    builder = (
        x509.CertificateBuilder(like.issuer, like.subject, like.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(like.not_valid_before_utc)
        .not_valid_after(end)
    )
    for extension in like.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return replace(issued, certificate=builder.sign(authority.key, SHA256()))


def test_a_client_that_lives_longer_than_its_certificate(service: Service) -> None:
    seconds, authority = 4.0, service.files.authorities[ACME]
    identity = Identity.parse(f"spiffe://{ACME}/client/brief")
    folder = service.files.folder / "brief"
    write_issued(folder, brief(authority, issue(authority, identity), seconds))
    issued = time.monotonic()
    trios = Trios(service.files.agreement, service.files.credentials(folder))

    def ask() -> None:
        client = RemoteDeployment(trios, time.monotonic() + 10, trio=0)
        assert np.abs(service.ask(client, turn()) - first(W, X)[0]).max() < 0.01

    ask()
    connected = trios.parties(0)
    time.sleep(max(issued + seconds + 1 - time.monotonic(), 0))
    with pytest.raises(CertificateError, match="expired"):
        ask()
    (folder / "tls.crt").write_text("half of a file")
    assert trios.parties(0) is connected
    for file in folder.iterdir():
        file.unlink()
    write_issued(folder, issue(authority, identity))
    ask()
    assert trios.parties(0) is not connected
    trios.close()
