"""A small certificate authority for one organisation, for trials.

Who has an authority already uses it: a certificate is as good if it is signed by the
one that the agreement lists for the domain, has the identity as its one URI, and may be
used by clients. That of a party may be used by servers as well, and has the DNS name
that ``Identity.server_name`` says: gRPC compares no URIs.
"""

import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from ditto.errors import SetupError
from ditto.files import private_folder, read_limited, write_private
from ditto.trust.identity import Identity, Role, check_domain
from ditto.trust.peers import (
    MAX_CERTIFICATE,
    Usage,
    check_authority,
    read_certificate,
)

CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
CERTIFICATE, KEY = "tls.crt", "tls.key"
"""Files of a folder, by the names that Kubernetes and cert-manager give them."""
MAX_DAYS = 3650
MAX_HOSTS = 64
_EARLIER = datetime.timedelta(minutes=5)
"""For a peer whose clock is behind."""
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def certificate_pem(self) -> bytes:
        """To be shown to anybody."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        """To be shown to nobody."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True)
class Authority(Issued):
    """What vouches for the members of one trust domain."""

    trust_domain: str


def make_authority(
    trust_domain: str, days: int = 3 * 365, *, organisation: str | None = None
) -> Authority:
    """A new authority, with a new key."""
    check_domain(trust_domain)
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = x509.Name(
        [
            x509.NameAttribute(
                NameOID.ORGANIZATION_NAME, (organisation or trust_domain)[:64]
            ),
            x509.NameAttribute(
                NameOID.COMMON_NAME, f"Ditto authority {identifier.digest.hex()[:16]}"
            ),
        ]
    )
    certificate = (
        _builder(days, subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier(f"spiffe://{trust_domain}")]
            ),
            critical=False,
        )
        .sign(key, SHA256())
    )
    return Authority(certificate, key, trust_domain)


def issue(
    authority: Authority,
    identity: Identity,
    hosts: Sequence[str] = (),
    days: int = 90,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    """A certificate for a member of the authority's domain; with the same key again
    if it is renewed.

    ``hosts`` are the DNS names and addresses at which a party is reached. Others serve
    nobody, and what they get is for clients only.
    """
    if identity.trust_domain != authority.trust_domain:
        raise SetupError(
            f"The authority of {authority.trust_domain} cannot vouch for {identity}: "
            f"peers ask the authority of {identity.trust_domain}."
        )
    return sign_for(authority, identity, hosts, days, key=key)


def sign_for(
    signer: Issued,
    identity: Identity,
    hosts: Sequence[str] = (),
    days: int = 90,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    """As ``issue``, whatever the domain; of another's domain nobody believes it."""
    serves = identity.role is Role.PARTY
    if hosts and not serves:
        raise SetupError(
            f"{identity} got hosts ({', '.join(hosts)[:80]}), but only a party is "
            f"called by others. Leave them out."
        )
    key = key or ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(str(identity))]
    if serves:
        names.append(x509.DNSName(identity.server_name))
        names += _host_names(hosts)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, identity.role),
            x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
        ]
    )
    issuer = signer.certificate
    builder = _builder(days, subject, issuer.subject, key.public_key())
    last = issuer.not_valid_after_utc
    if datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days) > last:
        raise SetupError(
            f"A certificate of {days} days would outlive its authority, which ends on "
            f"{last:%Y-%m-%d}. Ask for fewer days, or make a new authority and agree "
            f"on it."
        )
    uses = [Usage.CLIENT.value, *([Usage.SERVER.value] if serves else [])]
    certificate = (
        builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
            critical=False,
        )
        .sign(signer.key, SHA256())
    )
    return Issued(certificate, key)


def write_authority(folder: Path, authority: Authority) -> None:
    """Keep an authority in a folder of this user's alone; never over another."""
    _write(folder, CA_KEY, authority.key_pem())
    _write(folder, CA_CERTIFICATE, authority.certificate_pem())


def read_authority(folder: Path) -> Authority:
    """An authority that was written to a folder."""
    text = read_limited(folder / CA_CERTIFICATE, MAX_CERTIFICATE, SetupError, "16 KiB")
    certificate = read_certificate(text)
    domain = authority_domain(certificate)
    if domain is None:
        raise SetupError(
            f"{folder / CA_CERTIFICATE} was not made by `ditto pki init`: it names no "
            f"trust domain. Issue certificates with the tools of that authority."
        )
    check_authority(certificate, domain)
    return Authority(certificate, read_key(folder / CA_KEY, certificate), domain)


def authority_domain(certificate: x509.Certificate) -> str | None:
    """The trust domain that an authority says it is of, if it says so."""
    try:
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value.get_values_for_type(x509.UniformResourceIdentifier)
        return check_domain(names[0].removeprefix("spiffe://"))
    except (x509.ExtensionNotFound, IndexError, SetupError):
        return None


def names_of(certificate: x509.Certificate) -> list[str]:
    """All alternative names that are URIs, DNS names or IP addresses."""
    try:
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.UniformResourceIdentifier),
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


def hosts_of(certificate: x509.Certificate, identity: Identity) -> list[str]:
    """The hosts that a certificate was issued for."""
    own = (str(identity), identity.server_name)
    return [name for name in names_of(certificate) if name not in own]


def write_issued(folder: Path, issued: Issued, *, renew: bool = False) -> None:
    """Keep a certificate and its key; when renewed, the key stays and the certificate
    is replaced at once, so that whoever reads them finds a pair."""
    if not renew:
        _write(folder, KEY, issued.key_pem())
    _write(folder, CERTIFICATE, issued.certificate_pem(), replace=renew)


def read_key(path: Path, certificate: x509.Certificate) -> ec.EllipticCurvePrivateKey:
    """The key of a certificate."""
    content = read_limited(path, MAX_CERTIFICATE, SetupError, "16 KiB")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SetupError(
            f"{path} is not a key on an elliptic curve as PEM, without a password."
        )
    if key.public_key() != certificate.public_key():
        raise SetupError(f"{path} is not the key of the certificate beside it.")
    return key


def _write(folder: Path, name: str, content: bytes, *, replace: bool = False) -> None:
    try:
        write_private(private_folder(folder) / name, content, replace=replace)
    except FileExistsError:
        raise SetupError(
            f"{folder / name} is there already and is not overwritten: what was signed "
            f"with a lost key cannot be renewed. Choose another folder, or move it "
            f"away first."
        ) from None
    except OSError as error:
        raise SetupError(
            f"{folder / name} cannot be written: {error.strerror}. Choose a folder "
            f"that only you can write to."
        ) from None


def _builder(
    days: int, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    if not 1 <= days <= MAX_DAYS:
        raise SetupError(f"A certificate lasts 1 to {MAX_DAYS} days, got {days}.")
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    if len(hosts) > MAX_HOSTS:
        raise SetupError(
            f"At most {MAX_HOSTS} hosts per certificate, got {len(hosts)}."
        )
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if not _HOST.fullmatch(host):
                raise SetupError(
                    f"{host[:80]!r} is neither a DNS name nor an IP address. Give the "
                    f"host without scheme and port."
                ) from None
            names.append(x509.DNSName(host))
    return names
