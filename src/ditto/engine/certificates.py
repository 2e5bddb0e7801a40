"""A throwaway authority and its certificates, for runs on one machine."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from ditto.engine.config import TlsFiles


def make_local_certificates(
    folder: Path, names: tuple[str, ...], *, days: int = 1
) -> tuple[TlsFiles, ...]:
    """A fresh authority and one certificate for each name, for runs on one machine.

    The authority's key is never written. The files are readable by their owner only.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("ditto local authority")
    authority = _certificate(issuer, issuer, authority_key, authority_key, days, True)
    authority_path = folder / "authority.pem"
    _write(authority_path, authority.public_bytes(Encoding.PEM))
    files = []
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(_name(name), issuer, key, authority_key, days, False)
        paths = folder / f"{name}.pem", folder / f"{name}.key"
        _write(paths[0], certificate.public_bytes(Encoding.PEM))
        _write(
            paths[1],
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )
        files.append(
            TlsFiles(certificate=paths[0], key=paths[1], authority=authority_path)
        )
    return tuple(files)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    local = x509.SubjectAlternativeName(
        [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(local, critical=False)
        .sign(signer, SHA256())
    )


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
