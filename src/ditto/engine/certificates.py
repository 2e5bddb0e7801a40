"""Certificates: proof of who a party is, and a throwaway authority for local runs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from ditto.engine.config import TlsFiles
from ditto.errors import PeerIdentityError, SetupError
from ditto.sharing import Rank

_CERTIFICATE_ROOM = 4096
_SIGNATURE = 64
_LENGTH = 2


class CertificateProver:
    """Signs with a party's certificate key; checks peers against the authority.

    A proof is the signer's certificate (DER, with its length, padded to a fixed room)
    and an ECDSA P-256 signature. It is accepted when the certificate was issued by
    the authority, is in date, bears the configured name of the peer, and its key made
    the signature.
    """

    proof_size = _LENGTH + _CERTIFICATE_ROOM + _SIGNATURE

    def __init__(self, files: TlsFiles, names: tuple[str, str, str]) -> None:
        self._names = names
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        self._authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        key = load_pem_private_key(files.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.key_size != 256:
            raise SetupError(
                f"{files.key} must hold an EC P-256 key; "
                f"make one with: openssl ecparam -genkey -name prime256v1"
            )
        self._key = key
        self._der = certificate.public_bytes(Encoding.DER)
        if len(self._der) > _CERTIFICATE_ROOM:
            raise SetupError(
                f"{files.certificate} has {len(self._der)} bytes, "
                f"{_CERTIFICATE_ROOM} are allowed."
            )

    def prove(self, statement: bytes) -> bytes:
        """The certificate and a signature over the statement."""
        r, s = decode_dss_signature(self._key.sign(statement, ec.ECDSA(SHA256())))
        room = self._der.ljust(_CERTIFICATE_ROOM, b"\0")
        length = len(self._der).to_bytes(_LENGTH, "big")
        return length + room + r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def check(self, peer: Rank, statement: bytes, proof: bytes) -> None:
        """Raise PeerIdentityError unless the configured peer signed the statement."""
        name = self._names[peer]
        try:
            self._check(name, statement, proof)
        except Exception as reason:  # whatever a parser makes of a stranger's bytes
            why = str(reason) or "its signature is wrong"
            raise PeerIdentityError(
                f"The process behind the link to {name} did not prove that it is "
                f"{name}: {why}. Check the addresses in the configuration and the "
                f"certificates.",
                peer=name,
            ) from None

    def _check(self, name: str, statement: bytes, proof: bytes) -> None:
        length = int.from_bytes(proof[:_LENGTH], "big")
        if length > _CERTIFICATE_ROOM:
            raise ValueError("its certificate is too long")
        certificate = x509.load_der_x509_certificate(proof[_LENGTH : _LENGTH + length])
        certificate.verify_directly_issued_by(self._authority)
        now = datetime.datetime.now(datetime.UTC)
        if (
            not certificate.not_valid_before_utc
            <= now
            <= certificate.not_valid_after_utc
        ):
            raise ValueError("its certificate is out of date")
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if [attribute.value for attribute in names] != [name]:
            raise ValueError("its certificate bears another name")
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("its certificate has no EC key")
        r, s = (int.from_bytes(proof[a:b], "big") for a, b in ((-64, -32), (-32, None)))
        key.verify(encode_dss_signature(r, s), statement, ec.ECDSA(SHA256()))


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
