"""A certificate is renewed while the party serves."""

import socket
import ssl
from pathlib import Path

from cryptography import x509

from ditto.client.connection import PartyConnection
from ditto.trust import Identity, issue
from ditto.trust.authority import read_key, write_issued
from tests.client.test_reachability import RANK, place, serving
from tests.deployments import ORGANISATIONS, Files, make_deployment


def shown_by(files: Files) -> int:
    """The serial number of the certificate that a new caller sees."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=files.agreement.parties[RANK].ca)
    address = place(files.agreement.parties[RANK].grpc_address(0))
    with (
        socket.create_connection(address, timeout=5) as plain,
        context.wrap_socket(plain) as stream,
    ):
        shown = stream.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


def test_a_party_shows_its_new_certificate_without_a_restart(tmp_path: Path) -> None:
    files = make_deployment(tmp_path / "d")
    domain = ORGANISATIONS[RANK]
    folder = files.member("party", str(RANK), domain)
    old = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    operator = files.credentials(files.member("operator", "eve", domain))
    with serving(files):
        first = PartyConnection(files.agreement, operator, RANK, 0)
        assert first.status().rank == RANK
        assert shown_by(files) == old.serial_number
        new = issue(
            files.authorities[domain],
            Identity.parse(str(files.agreement.party_identity(RANK))),
            ["localhost"],
            7,
            key=read_key(folder / "tls.key", old),
        )
        write_issued(folder, new, renew=True)
        assert shown_by(files) == new.certificate.serial_number
        assert first.status().rank == RANK  # what was open stays open
        (folder / "tls.crt").write_text("half of a file")
        assert shown_by(files) == new.certificate.serial_number
        second = PartyConnection(files.agreement, operator, RANK, 0)
        assert second.status().rank == RANK
        first.close()
        second.close()
