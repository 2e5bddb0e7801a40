"""Certificates that no authority of ours would issue."""

import datetime
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID

from ditto.trust import Issued

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def uri(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)


def certificate_with(
    signer: Issued, *arguments: Any, **changes: Any
) -> x509.Certificate:
    return issued_with(signer, *arguments, **changes).certificate


def issued_with(
    signer: Issued,
    names: Sequence[x509.GeneralName] = (uri("spiffe://a.example/party/0"),),
    *,
    uses: Sequence[x509.ObjectIdentifier] = BOTH,
    is_authority: bool = False,
    valid: tuple[datetime.datetime, datetime.datetime] = (NOW - DAY, NOW + DAY),
    strange: bool = False,
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    )
    if uses:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if names:
        alternative = x509.SubjectAlternativeName(names)
        builder = builder.add_extension(alternative, critical=False)
    if strange:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0")
        builder = builder.add_extension(unknown, critical=True)
    return Issued(builder.sign(signer.key, SHA256()), key)
