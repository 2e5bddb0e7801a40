"""What somebody proves its identity with, and whom it believes: TLS material."""

import datetime
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from ditto.errors import DittoError, SetupError
from ditto.files import read_limited
from ditto.trust.authority import CERTIFICATE, KEY
from ditto.trust.identity import Identity
from ditto.trust.peers import MAX_CERTIFICATE, TrustedDomains, read_certificate


@dataclass(frozen=True)
class Credentials:
    """One identity's certificate and key, and the domains that it trusts."""

    identity: Identity
    certificate: bytes
    """The certificate as PEM."""
    read: bytes
    """The file that it was found in."""
    certificate_path: Path
    key_path: Path
    """PEM, without a password. Its content is read when it is needed."""
    expires: datetime.datetime
    domains: TrustedDomains

    def key(self) -> bytes:
        """The key as PEM."""
        return _read(self.key_path)

    def renewed(self) -> "Credentials":
        """What the files hold now, if it is another certificate and can be used."""
        try:
            if _read(self.certificate_path) == self.read:
                return self
            return load_credentials(self.certificate_path.parent, self.domains)
        except DittoError:  # they are being replaced, or were replaced by mistake
            return self


def load_credentials(
    folder: Path, domains: TrustedDomains, now: datetime.datetime | None = None
) -> Credentials:
    """``tls.crt`` and ``tls.key`` of a folder, as `ditto pki issue` or cert-manager
    writes them.

    They are checked as a peer would check them, so that a mistake is found here.
    """
    certificate_path, key_path = folder / CERTIFICATE, folder / KEY
    text = _read(certificate_path)
    certificate = read_certificate(text, first_of_chain=True)
    identity = domains.verify(certificate, now)
    _check_key(key_path, certificate)
    return Credentials(
        identity,
        certificate.public_bytes(Encoding.PEM),
        text,
        certificate_path,
        key_path,
        certificate.not_valid_after_utc,
        domains,
    )


def _read(path: Path) -> bytes:
    return read_limited(path, MAX_CERTIFICATE, SetupError, "16 KiB")


def _check_key(path: Path, certificate: x509.Certificate) -> None:
    content = _read(path)
    if path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise SetupError(
            f"{path} can be read by every user of this machine. Change that: "
            f"chmod 600 {path}."
        )
    try:
        public = load_pem_private_key(content, password=None).public_key()
    except (ValueError, TypeError):
        raise SetupError(f"{path} is not a key as PEM without a password.") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if public.public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise SetupError(
            f"{path} is not the key of {path.parent / CERTIFICATE}. If they are being "
            f"replaced just now, try again."
        )
