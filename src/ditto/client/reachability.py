"""Whether the parties of a deployment can be reached from here; if not, why.

For each party the checks go from the outside in: its name, its port, TLS, who vouches
for it, until when, who it is, whether it lets us in, its clock, its version, its
agreement, its links. One that fails has a cause and a way out; those that need it are
not made.
"""

import datetime
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ditto.client.connection import PartyConnection
from ditto.errors import CertificateError, DittoError, NotPermittedError
from ditto.trust import Cause, Credentials, Identity, Usage, read_certificate
from ditto.trust.authority import names_of
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import ServiceStatus

CHECKS = (
    "name found", "port open", "TLS", "authority", "dates", "identity", "lets us in",
    "clock", "version", "agreement", "links", "ready",
)  # fmt: skip
"""In the order in which they are made."""
MAX_SKEW = 60.0
"""Seconds by which a clock may differ: certificates are issued five minutes early."""
_TIMEOUT = 5.0
_LISTENS_AGAIN = 2.0
"""Seconds within which a party that looks for its peers listens again."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    advice: str = ""


@dataclass(frozen=True)
class PartyReport:
    """What was found of one party, seen from here."""

    rank: int
    trio: int
    organisation: str
    trust_domain: str
    checks: tuple[Check, ...]
    """Those that could be made."""
    status: ServiceStatus | None = None
    """What it says of itself, if it answered."""

    @property
    def ok(self) -> bool:
        """Whether every check was made and none failed."""
        return len(self.checks) == len(CHECKS) and all(c.ok for c in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """Checks that failed."""
        return tuple(check for check in self.checks if not check.ok)


class _FailedError(Exception):
    def __init__(self, check: str, found: str, advice: str) -> None:
        super().__init__(found)
        self.check = Check(check, False, found, advice)


def examine(
    agreement: Agreement, credentials: Credentials, trio: int
) -> tuple[PartyReport, ...]:
    """What is found of the three parties of a trio, looked at together."""
    with ThreadPoolExecutor(3) as pool:
        reports = pool.map(
            lambda rank: examine_party(agreement, credentials, rank, trio), range(3)
        )
        return tuple(reports)


def examine_party(
    agreement: Agreement, credentials: Credentials, rank: int, trio: int
) -> PartyReport:
    """What is found of one party."""
    party = agreement.parties[rank]
    checks: dict[str, Check] = {}
    status: ServiceStatus | None = None
    try:
        for check in _secured(party.grpc_address(trio), agreement, credentials, rank):
            checks[check.name] = check
        status, skew = _ask(agreement, credentials, rank, trio)
        checks["lets us in"] = Check("lets us in", True, f"as {credentials.identity}")
        checks |= {each.name: each for each in _compare(agreement, status, skew)}
    except _FailedError as failed:
        checks[failed.check.name] = failed.check
    checks["links"] = _links(agreement, credentials, rank, trio, status)
    in_order = tuple(checks[name] for name in CHECKS if name in checks)
    return PartyReport(
        rank, trio, party.organisation, party.trust_domain, in_order, status
    )


def _secured(
    address: str, agreement: Agreement, credentials: Credentials, rank: int
) -> Iterator[Check]:
    """From the name to who is behind it."""
    host, _, port = address.rpartition(":")
    try:
        places = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise _FailedError(
            "name found",
            f"{host} has no address here ({error.strerror}).",
            "Check the spelling in the agreement, and this machine's DNS.",
        ) from None
    first = str(places[0][4][0])
    yield Check("name found", True, first if first != host else "an address")
    with _opened(address, host, int(port)) as plain:
        yield Check("port open", True, address)
        identity = agreement.party_identity(rank)
        shown = _certificate_behind(plain, address, credentials, identity)
    yield Check("TLS", True, "1.3 or 1.2")
    yield from _proven(shown, agreement, identity)


def _opened(address: str, host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=_TIMEOUT)
    except ConnectionRefusedError:
        found = f"{address} refuses connections: nobody listens there."
        advice = "Start the party; or its operator corrects where it listens."
    except TimeoutError:
        found = f"{address} does not answer within {_TIMEOUT:g} s."
        advice = "A firewall drops what is sent to it, or the host is down."
    except OSError as error:
        found = f"{address} cannot be reached ({error.strerror})."
        advice = "Check routes and firewalls between here and there."
    raise _FailedError("port open", found, advice)


def _certificate_behind(
    plain: socket.socket, address: str, credentials: Credentials, identity: Identity
) -> bytes:
    """The certificate that is shown; it is judged afterwards, to say what is wrong.

    Nothing is sent over this connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(
        credentials.certificate_path, credentials.key_path, password=""
    )
    try:
        with context.wrap_socket(plain, server_hostname=identity.server_name) as stream:
            return stream.getpeercert(binary_form=True) or b""
    except TimeoutError:
        found = f"{address} took the connection and then said nothing."
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or "it hung up"
        found = f"{address} does not speak TLS with us ({reason})."
    raise _FailedError(
        "TLS",
        found,
        "Something else may listen there, or a proxy opens TLS: it must pass it on.",
    )


_CHECK_OF_CAUSE = {
    Cause.UNREADABLE: "authority",
    Cause.UNKNOWN_DOMAIN: "authority",
    Cause.OTHER_AUTHORITY: "authority",
    Cause.EXPIRED: "dates",
    Cause.NOT_YET_VALID: "dates",
    Cause.NO_IDENTITY: "identity",
    Cause.OTHER_IDENTITY: "identity",
    Cause.WRONG_USE: "identity",
}
_ADVICE = {
    "authority": "Its operator shows a certificate of another authority than the "
    "agreement lists, or the address belongs to somebody else.",
    "dates": "Its operator renews the certificate; compare the clocks of both.",
    "identity": "Its operator shows the certificate of another party or role.",
}


def _proven(shown: bytes, agreement: Agreement, identity: Identity) -> Iterator[Check]:
    domains = agreement.trusted_domains
    failed, found = None, ""
    try:
        certificate = read_certificate(shown)
        domains.verify(certificate, usage=Usage.SERVER, expected=identity)
        if identity.server_name not in names_of(certificate):
            failed = "identity"
            found = (
                f"The certificate lacks the DNS name {identity.server_name}, by which "
                f"gRPC knows it."
            )
    except CertificateError as error:
        failed, found = _CHECK_OF_CAUSE[Cause(error.cause)], str(error)
    for name in ("authority", "dates", "identity"):
        if name == failed:
            raise _FailedError(name, found, _ADVICE[name])
        if name == "dates":
            last = certificate.not_valid_after_utc
            left = (last - datetime.datetime.now(datetime.UTC)).days
            yield Check(name, True, f"until {last:%Y-%m-%d}, {left} days left")
        else:
            yield Check(name, True, str(identity))


def _ask(
    agreement: Agreement, credentials: Credentials, rank: int, trio: int
) -> tuple[ServiceStatus, float]:
    """What the party says of itself, and by how many seconds its clock is ahead."""
    advice = "Its log says more: `call refused`, or an error."
    connection = PartyConnection(agreement, credentials, rank, trio)
    began = time.time()
    try:
        status = connection.status(_TIMEOUT)
        return status, status.time - (began + time.time()) / 2
    except NotPermittedError as error:
        found = str(error)
        advice = "Have the agreement admit you, or use another --as."
    except CertificateError as error:
        found = f"It refuses our certificate: {error}"
        advice = "It may have been started with another agreement than ours."
    except DittoError as error:
        found = str(error)
    finally:
        connection.close()
    raise _FailedError("lets us in", found, advice)


def _compare(
    agreement: Agreement, status: ServiceStatus, skew: float
) -> Iterator[Check]:
    """What it says of itself, beside what is known here."""
    yield Check(
        "clock",
        abs(skew) <= MAX_SKEW,
        f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} ours",
        "Set both clocks by NTP; certificates are checked by them.",
    )
    versions = agreement.versions
    yield Check(
        "version",
        versions.admit(status.version),
        status.version,
        f"The agreement admits {versions.min} to {versions.max}: its operator installs "
        f"one of these.",
    )
    same = status.agreement == agreement.digest
    found = status.agreement[:12]
    yield Check(
        "agreement",
        same,
        found if same else f"{found} there, {agreement.digest[:12]} here",
        "Compare both files by `ditto pki show deployment.toml`, and restart the one "
        "that is behind.",
    )
    yield Check(
        "ready",
        status.state == "ready",
        f"It is {status.state}.",
        status.problem or "Wait, or look at its peers: it needs both.",
    )


def _links(
    agreement: Agreement,
    credentials: Credentials,
    rank: int,
    trio: int,
    status: ServiceStatus | None,
) -> Check:
    """Whether its peers reach it: they listen for each other until they are linked."""
    if status is not None and status.peers and all(status.peers.values()):
        return Check("links", True, "up to both peers")
    address = agreement.parties[rank].link_address(trio)
    end = time.monotonic() + _LISTENS_AGAIN
    while True:
        try:
            for _ in _secured(address, agreement, credentials, rank):
                pass
            break
        except _FailedError as failed:
            # between two attempts to link nobody listens for a moment
            if failed.check.name != "port open" or time.monotonic() > end:
                found = f"{failed.check.name}: {failed.check.found}"
                return Check("links", False, found, failed.check.advice)
            time.sleep(0.1)
    found = f"It listens at {address}, but its peers are not all there."
    problem = None if status is None else status.problem
    advice = problem or "See its peers; a firewall may be between them and it."
    return Check("links", False, found, advice)
