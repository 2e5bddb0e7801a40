"""A throwaway authority and its certificates, for runs on one machine.

Keys are on the disk only while the parties connect. The process that wrote them holds
a lock on their folder until it has removed it. The system lets a lock go when a process
ends, however it ends: whoever makes the next folder removes those that nobody locks.
"""

import datetime
import fcntl
import ipaddress
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

from ditto.runtime.config import TlsFiles

_PREFIX = "ditto-trio-"
_NEW = 5.0
"""Seconds for which a folder may be new and not locked yet."""


@contextmanager
def key_folder() -> Iterator[Path]:
    """A folder for keys, while the parties connect that they are for."""
    remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        lock = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def remove_leftovers() -> None:
    """Remove key folders of this user whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, or just gone
            continue
        try:
            status = os.fstat(lock)
            new = time.time() - status.st_mtime < _NEW
            if status.st_uid == os.getuid() and not new:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:  # its process connects its parties
            continue
        finally:
            os.close(lock)


def remove_keys(folder: Path) -> None:
    """Remove a key folder whose process is known to be gone."""
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


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
