"""A bundle goes to the parties of a deployment: file by file, resumable, then approved.

Each party gets its own folder and the client's, and no other. The release that names
them is the same for all three; they serve it as soon as all three have it.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ditto.client.connection import PartyConnection
from ditto.client.remote import Trios, together
from ditto.errors import DittoError, PeerError, SetupError
from ditto.files import Json
from ditto.fixedpoint import Array
from ditto.trust import Credentials
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import (
    BeginModel,
    CommitModel,
    Missing,
    PutChunk,
    Release,
    ReleasedFile,
    ServiceStatus,
    as_body,
    check_name,
    parse_reply,
)
from ditto.wire.manifest import MANIFEST, read_folder
from ditto.wire.methods import BEGIN_MODEL, COMMIT_MODEL, PUT_CHUNK, RETIRE_MODEL

_PIECE = 1 << 19
_CALL_SECONDS = 60.0
_FILE_SECONDS = 600.0
_COMMIT_SECONDS = 600.0
_AGREE_SECONDS = 30.0
_ATTEMPTS = 5

OnBytes = Callable[[int, int], None]
"""Called with the bytes that were sent, and all that are to be."""


class RemotePublisher:
    """An owner's dealings with the parties of a deployment."""

    def __init__(self, agreement: Agreement, credentials: Credentials) -> None:
        self._agreement = agreement
        self._owner = str(credentials.identity)
        self._trios = Trios(agreement, credentials)

    @property
    def owner(self) -> str:
        """Who publishes."""
        return self._owner

    def publish(
        self,
        bundle: Path,
        on_stage: Callable[[str], None] = lambda _: None,
        on_bytes: OnBytes = lambda _, __: None,
    ) -> Release:
        """Have every trio serve a bundle; what it has already is not sent again."""
        release = release_of(bundle, self._owner)
        for trio in range(self._agreement.trios):
            on_stage(f"sending the files to trio {trio}")
            parties = self._trios.parties(trio)
            count = _Count(on_bytes)
            jobs = [
                _Upload(party, bundle, rank, release, count)
                for rank, party in enumerate(parties)
            ]
            together([job.run for job in jobs])
            on_stage(f"trio {trio} checks what it got")
            commit = CommitModel(
                model=release.name, digest=release.digest, plans=release.plans
            )
            for party in parties:
                party.ask(COMMIT_MODEL, as_body(commit), timeout=_COMMIT_SECONDS)
            on_stage(f"trio {trio} agrees on the release")
            self._wait_until_agreed(release, trio)
        return release

    def retire(self, model: str) -> None:
        """Have all parties remove a model; those that do not have it are left alone."""
        check_name(model)
        errors: list[DittoError] = []
        done = 0
        for trio in range(self._agreement.trios):
            for party in self._trios.parties(trio):
                try:
                    party.ask(RETIRE_MODEL, {"model": model}, timeout=_CALL_SECONDS)
                    done += 1
                except DittoError as error:
                    errors.append(error)
        lasting = [error for error in errors if error.code != "unknown-model"]
        if lasting or not done:
            raise (lasting or errors)[0]

    def statuses(self, trio: int = 0) -> list[ServiceStatus]:
        """What the parties say of themselves and of their models."""
        return self._trios.statuses(trio, _CALL_SECONDS)

    def close(self) -> None:
        """Let the parties go."""
        self._trios.close()

    def _wait_until_agreed(self, release: Release, trio: int) -> None:
        end = time.monotonic() + _AGREE_SECONDS
        while True:
            statuses = self._trios.statuses(trio, _CALL_SECONDS)
            agreed = [
                any(m.agreed and m.digest == release.digest for m in status.models)
                for status in statuses
            ]
            if all(agreed):
                return
            if time.monotonic() > end:
                late = self._agreement.parties[agreed.index(False)].trust_domain
                problem = statuses[agreed.index(False)].problem or "it does not say why"
                raise PeerError(
                    f"All three parties have {release.name}, but {late} does not serve "
                    f"it yet: {problem}. Look at it with `ditto owner ls`.",
                    peer=late,
                )
            time.sleep(0.2)


class _Count:
    """Bytes that three uploads have sent."""

    def __init__(self, on_bytes: OnBytes) -> None:
        self._on_bytes = on_bytes
        self.total = self.sent = 0

    def add(self, sent: int) -> None:
        self.sent += sent
        self._on_bytes(self.sent, self.total)


class _Upload:
    """The files of one party."""

    def __init__(
        self,
        party: PartyConnection,
        bundle: Path,
        rank: int,
        release: Release,
        count: _Count,
    ) -> None:
        self._party, self._release, self._count = party, release, count
        self._paths: dict[str, Path] = {}
        files = []
        for part, folder in (("client", "client"), ("party", f"party{rank}")):
            for path in sorted((bundle / folder).iterdir()):
                digest = _sha256(path)
                self._paths[digest] = path
                size = path.stat().st_size
                files.append(
                    ReleasedFile(path=f"{part}/{path.name}", sha256=digest, size=size)
                )
        self._begin = BeginModel(release=release, files=tuple(files))
        count.total += sum(file.size for file in files)

    def run(self) -> None:
        """Send what the party lacks, and once more what a broken call has cut off."""
        for attempt in range(_ATTEMPTS):
            try:
                self._send_missing()
                return
            except PeerError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(1.0 + attempt)

    def _send_missing(self) -> None:
        body, _ = self._party.ask(
            BEGIN_MODEL, as_body(self._begin), timeout=_CALL_SECONDS
        )
        missing = parse_reply(Missing, body).missing
        for digest, offset in missing.items():
            if digest not in self._paths:
                raise SetupError(
                    f"{self._party.name} asks for a file that is not in the bundle."
                )
            frames = self._pieces(digest, offset)
            list(self._party.call(PUT_CHUNK, frames, timeout=_FILE_SECONDS))

    def _pieces(
        self, digest: str, offset: int
    ) -> Iterator[tuple[Json, Mapping[str, Array]]]:
        with self._paths[digest].open("rb") as file:
            file.seek(offset)
            while True:
                piece = file.read(_PIECE)
                header = PutChunk(
                    model=self._release.name, sha256=digest, offset=offset
                )
                yield as_body(header), {"data": np.frombuffer(piece, np.uint8)}
                offset += len(piece)
                self._count.add(len(piece))
                if len(piece) < _PIECE:
                    return


def release_of(bundle: Path, owner: str) -> Release:
    """The release that a bundle is; raises if it is of another owner."""
    client = read_folder(bundle / "client").contents
    parties = [bundle / f"party{rank}" for rank in range(3)]
    if client["owner"] != owner:
        raise SetupError(
            f"The bundle is of {client['owner']}, but {owner} publishes it. Export it "
            f"as that owner."
        )
    plans = read_folder(parties[0]).contents["plans"]
    p0, p1, p2 = (_sha256(folder / MANIFEST) for folder in parties)
    return Release(
        name=check_name(str(client["model"])),
        owner=owner,
        created=int((bundle / "client" / MANIFEST).stat().st_mtime),
        head=str(client["head"]),
        max_tokens=int(client["max_tokens"]),
        client=_sha256(bundle / "client" / MANIFEST),
        parties=(p0, p1, p2),
        plans=tuple(sorted(plans)),
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()
