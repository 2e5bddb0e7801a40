"""Throwaway authorities and their certificates, for runs on one machine.

Keys are on the disk only while the parties connect. The process that wrote them holds
a lock on their folder until it has removed it. The system lets a lock go when a process
ends, however it ends: whoever makes the next folder removes those that nobody locks.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ditto.files import write_private
from ditto.runtime.config import TlsFiles
from ditto.trust import Identity, Role, issue, make_authority

_PREFIX = "ditto-trio-"
_LOCAL = ("localhost", "127.0.0.1")
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


@dataclass(frozen=True)
class LocalCertificate:
    """How a party of this machine proves who it is."""

    tls: TlsFiles
    identity: str
    authority: str
    """As PEM, for its peers."""


def make_local_certificates(
    folder: Path, names: Sequence[str], *, days: int = 2
) -> tuple[LocalCertificate, ...]:
    """For each name a trust domain with a fresh authority, and a certificate of it.

    The authorities' keys are never written. The files are readable by their owner only.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = []
    for rank, name in enumerate(names):
        authority = make_authority(f"{name}.localhost", days)
        identity = Identity(authority.trust_domain, Role.PARTY, str(rank))
        issued = issue(authority, identity, _LOCAL, 1)
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        write_private(certificate, issued.certificate_pem(), replace=True)
        write_private(key, issued.key_pem(), replace=True)
        made.append(
            LocalCertificate(
                TlsFiles(certificate=certificate, key=key),
                str(identity),
                authority.certificate_pem().decode(),
            )
        )
    return tuple(made)
