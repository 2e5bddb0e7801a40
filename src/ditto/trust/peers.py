"""Whether a certificate is of whom it names: the authority of that very domain says so.

TLS alone does not answer this. A server that trusts the authorities of A and of B takes
a certificate that A's authority has signed in B's name. So whoever has finished a TLS
handshake hands the peer's certificate to ``TrustedDomains.verify``.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from ditto.errors import CertificateError, SetupError
from ditto.trust.identity import UNKNOWN, Cause, Identity, check_domain, identity_of

MAX_CERTIFICATE = 16 << 10
"""Bytes; a certificate with an RSA key of 4096 bits has about two thousand."""
_PEM = b"-----BEGIN CERTIFICATE-----"
_UNDERSTOOD = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.NAME_CONSTRAINTS,  # TLS libraries hold who signs to them
}
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises at bytes that are no certificate, at once or later."""


class Usage(Enum):
    """What a certificate is shown for, by who shows it."""

    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
    SERVER = ExtendedKeyUsageOID.SERVER_AUTH


def read_certificate(
    content: bytes, *, first_of_chain: bool = False
) -> x509.Certificate:
    """One certificate as PEM or DER; raises CertificateError for anything else.

    A file of one's own may have the authority behind it: ``first_of_chain``.
    """
    if len(content) > MAX_CERTIFICATE:
        raise _refused(
            f"The certificate has {len(content)} bytes, at most {MAX_CERTIFICATE} are "
            f"read.",
            Cause.UNREADABLE,
        )
    try:
        if content.lstrip().startswith(_PEM):
            certificates = x509.load_pem_x509_certificates(content)
            if len(certificates) != 1 and not first_of_chain:
                raise ValueError(f"{len(certificates)} certificates")
            certificate = certificates[0]
        else:
            certificate = x509.load_der_x509_certificate(content)
        list(certificate.extensions)  # read now, not by whoever looks first
    except _UNREADABLE as error:
        raise _refused(
            f"This is not one X.509 certificate as PEM or DER "
            f"({type(error).__name__}).",
            Cause.UNREADABLE,
        ) from None
    return certificate


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate, as ``openssl x509 -fingerprint -sha256`` has it
    but in lower case and without colons."""
    return certificate.fingerprint(SHA256()).hex()


@dataclass(frozen=True)
class TrustedDomains:
    """The authority of each trust domain whose members may take part."""

    authorities: Mapping[str, x509.Certificate]

    def __post_init__(self) -> None:
        for domain, authority in self.authorities.items():
            check_domain(domain)
            check_authority(authority, domain)

    @classmethod
    def read(cls, certificates: Mapping[str, bytes]) -> Self:
        """From PEM or DER by trust domain."""
        return cls({name: read_certificate(c) for name, c in certificates.items()})

    def verify(
        self,
        certificate: bytes | x509.Certificate,
        now: datetime.datetime | None = None,
        *,
        usage: Usage = Usage.CLIENT,
        expected: Identity | None = None,
    ) -> Identity:
        """Who has proven to be who: whose certificate this is, that TLS has seen used.

        Raises CertificateError with the cause.
        """
        if isinstance(certificate, bytes):
            certificate = read_certificate(certificate)
        now = now or datetime.datetime.now(datetime.UTC)
        identity = identity_of(certificate)
        domain = identity.trust_domain
        authority = self.authorities.get(domain)
        if authority is None:
            raise _refused(
                f"{identity} is of the trust domain {domain}, which is not known here. "
                f"The agreement lists the domains and their authorities.",
                Cause.UNKNOWN_DOMAIN,
                identity,
            )
        _check_signature(certificate, authority, identity)
        _check_dates(certificate, now, identity, f"The certificate of {identity}")
        _check_dates(authority, now, identity, f"The authority of {domain}")
        _check_use(certificate, usage, identity)
        if expected is not None and identity != expected:
            raise _refused(
                f"The certificate bears another name: {identity}, where {expected} was "
                f"expected.",
                Cause.OTHER_IDENTITY,
                identity,
            )
        return identity

    def pem(self, domain: str) -> bytes:
        """The authority of a domain as PEM."""
        return self.authorities[domain].public_bytes(Encoding.PEM)

    def bundle(self) -> bytes:
        """All authorities as PEM, for a TLS server that cannot know who will call.

        What it lets in is still to be verified: see the top of this file.
        """
        return b"".join(map(self.pem, sorted(self.authorities)))


def check_authority(certificate: x509.Certificate, domain: str) -> None:
    """Raise SetupError if a certificate may not sign others."""
    try:
        constraints = certificate.extensions.get_extension_for_class(
            x509.BasicConstraints
        )
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        may_sign = constraints.value.ca and usage.value.key_cert_sign
    except x509.ExtensionNotFound:
        may_sign = False
    if not may_sign:
        raise SetupError(
            f"The certificate given as the authority of {domain} may not sign others: "
            f"it needs the basic constraint CA and the key usage keyCertSign. Give the "
            f"certificate of the authority itself (ca.crt of `ditto pki init`)."
        )


def _check_signature(
    certificate: x509.Certificate, authority: x509.Certificate, identity: Identity
) -> None:
    try:
        certificate.verify_directly_issued_by(authority)
    except (*_UNREADABLE, InvalidSignature):
        raise _refused(
            f"The certificate that names {identity} was not signed by the authority of "
            f"{identity.trust_domain} (SHA-256 {fingerprint(authority)[:16]}…) but by "
            f"another. Only an organisation's own authority can vouch for its members.",
            Cause.OTHER_AUTHORITY,
            identity,
        ) from None


def _check_dates(
    certificate: x509.Certificate,
    now: datetime.datetime,
    identity: Identity,
    whose: str,
) -> None:
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        raise _refused(
            f"{whose} is valid from {first:%Y-%m-%d %H:%M} UTC on, and the clock here "
            f"says {now:%Y-%m-%d %H:%M}. Compare the clocks of both machines.",
            Cause.NOT_YET_VALID,
            identity,
        )
    if now > last:
        raise _refused(
            f"{whose} expired at {last:%Y-%m-%d %H:%M} UTC, and the clock here says "
            f"{now:%Y-%m-%d %H:%M}. Renew it: `ditto pki issue --renew`, or with your "
            f"own authority.",
            Cause.EXPIRED,
            identity,
        )


def _check_use(certificate: x509.Certificate, usage: Usage, identity: Identity) -> None:
    extensions = certificate.extensions
    strange = [e for e in extensions if e.critical and e.oid not in _UNDERSTOOD]
    try:
        authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        authority = False
    try:
        uses = list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        uses = []
    side = usage.name.lower()
    if authority:
        reason = "it is itself an authority"
    elif strange:
        reason = f"it has a critical extension {strange[0].oid.dotted_string}"
    elif usage.value not in uses:
        reason = f"its extended key usage lacks {side}Auth"
    else:
        return
    raise _refused(
        f"The certificate of {identity} cannot be used as a {side}'s: {reason}.",
        Cause.WRONG_USE,
        identity,
    )


def _refused(
    text: str, cause: Cause, identity: Identity | None = None
) -> CertificateError:
    peer = UNKNOWN if identity is None else str(identity)
    return CertificateError(text, peer=peer, cause=cause)
