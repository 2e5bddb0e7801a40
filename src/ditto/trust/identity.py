"""The name of who takes part: ``spiffe://org-b.example/party/1``.

An identity is a SPIFFE ID, the one URI among the alternative names of a certificate. It
says whose trust domain it is of, what it may do, and which one it is.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from cryptography import x509

from ditto.errors import CertificateError, SetupError

SCHEME = "spiffe://"
MAX_LENGTH = 256
MAX_DOMAIN = 128
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{0,15}}")
_NAME = re.compile(_LABEL)
UNKNOWN = "unknown"
"""What a peer is called that has not shown any identity."""


class Role(StrEnum):
    """What an identity takes part as."""

    PARTY = "party"
    """Computes on shares. Its name is its rank: 0, 1 or 2."""
    OWNER = "owner"
    """Publishes models."""
    CLIENT = "client"
    """Asks models."""
    OPERATOR = "operator"
    """Looks after a party; may ask how it is, and nothing else."""


class Cause(StrEnum):
    """Why a certificate is refused."""

    UNREADABLE = "unreadable"
    NO_IDENTITY = "no-identity"
    UNKNOWN_DOMAIN = "unknown-domain"
    OTHER_AUTHORITY = "other-authority"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_USE = "wrong-use"
    OTHER_IDENTITY = "other-identity"


@dataclass(frozen=True, order=True)
class Identity:
    """Who somebody is: a trust domain, a role in it, a name in that role."""

    trust_domain: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        check_domain(self.trust_domain)
        if not _NAME.fullmatch(self.name):
            raise SetupError(
                f"{self.name[:80]!r} cannot be a name in an identity: use 1 to 63 "
                f"lower-case letters, digits and dashes, as in {SCHEME}"
                f"{self.trust_domain}/{self.role}/acme-1."
            )

    def __str__(self) -> str:
        return f"{SCHEME}{self.trust_domain}/{self.role}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The identity that a URI names; raises SetupError for any other text."""
        parts = text.removeprefix(SCHEME).split("/", 3)
        roles = {role.value: role for role in Role}
        well_formed = text.startswith(SCHEME) and len(parts) == 3
        if len(text) > MAX_LENGTH or not well_formed or parts[1] not in roles:
            raise SetupError(
                f"{text[:80]!r} is not an identity. Write {SCHEME}DOMAIN/ROLE/NAME "
                f"with the role {', '.join(roles)}; at most {MAX_LENGTH} characters, "
                f"as in {SCHEME}org-b.example/party/1."
            )
        return cls(parts[0], roles[parts[1]], parts[2])

    @property
    def server_name(self) -> str:
        """As a DNS name, for TLS libraries that compare no URIs: of parties only."""
        return f"{self.name}.{self.role}.{self.trust_domain}"


def check_domain(domain: str) -> str:
    """The same domain; raises SetupError if it cannot be a trust domain."""
    if len(domain) > MAX_DOMAIN or not _DOMAIN.fullmatch(domain):
        raise SetupError(
            f"{domain[:80]!r} cannot be a trust domain. Use a DNS name of your "
            f"organisation in lower case, at most {MAX_DOMAIN} characters and without "
            f"scheme or port, such as org-b.example."
        )
    return domain


def identity_of(certificate: x509.Certificate) -> Identity:
    """Whom a certificate names; whether that is true is for TrustedDomains to say."""
    try:
        extension = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if len(uris) != 1:
        raise CertificateError(
            f"The certificate has {len(uris)} URIs among its alternative names, and "
            f"needs one: the identity, as {SCHEME}org-b.example/party/1.",
            peer=UNKNOWN,
            cause=Cause.NO_IDENTITY,
        )
    try:
        return Identity.parse(uris[0])
    except SetupError as error:
        raise CertificateError(
            f"The certificate names nobody: {error}",
            peer=UNKNOWN,
            cause=Cause.NO_IDENTITY,
        ) from None
