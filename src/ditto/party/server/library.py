"""Models of a party on disk: uploaded file by file, committed as a whole.

A model that is being uploaded has a folder of files by their SHA-256, so that an upload
goes on where it stopped. Committing checks everything and renames the whole folder, so
that after a crash a model is there or not. Only what was committed is loaded at start.
"""

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from ditto.errors import (
    BusyError,
    DittoError,
    NotPermittedError,
    PlanError,
    RequestError,
    SetupError,
    UnknownModelError,
)
from ditto.files import private_folder, read_limited
from ditto.fixedpoint import Array
from ditto.party.bundle import load_bundle
from ditto.party.store import PartyStore
from ditto.sharing import Rank
from ditto.wire.catalogue import (
    BeginModel,
    CommitModel,
    Missing,
    PutChunk,
    Release,
    parse_request,
)
from ditto.wire.manifest import MANIFEST, read_folder, write_file

_RELEASE, _BEGIN = "release.json", "begin.json"
_MAX_RELEASE = 16 << 20
_PIECE = 1 << 22


class Library:
    """The models of one party. Safe to be used by several threads."""

    def __init__(
        self,
        folder: Path,
        rank: Rank,
        store: PartyStore,
        *,
        most_models: int,
        most_bytes: int,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._rank, self._store = rank, store
        self._most_models, self._most_bytes = most_models, most_bytes
        self._on_change = on_change
        self._lock = threading.Lock()
        self._busy: dict[str, threading.RLock] = {}
        self._releases: Mapping[str, Release] = {}
        """Replaced as a whole, so that who reads it need not wait for an upload."""
        self._unusable: dict[str, Release] = {}
        """Models on disk that this party cannot load, such as another version's."""
        try:
            self._models = private_folder(folder / "models")
            self._uploads = private_folder(folder / "uploads")
        except OSError as error:
            raise SetupError(
                f"The store {folder} cannot be used: {error.strerror}. Name a folder "
                f"that belongs to the user who runs the party, and to nobody else."
            ) from None

    def load(self) -> dict[str, DittoError]:
        """Load all models that were committed; what was left half-way goes.

        Those that cannot be loaded stay on disk and are not served; says why.
        """
        errors: dict[str, DittoError] = {}
        for folder in sorted(self._models.iterdir()):
            if folder.name.startswith("."):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            name = folder.name
            try:
                text = read_limited(
                    folder / _RELEASE, _MAX_RELEASE, PlanError, "16 MiB"
                )
                release = parse_request(Release, json.loads(text))
                name = release.name
                self._unusable[name] = release
                self._load_release(folder, release)
                del self._unusable[name]
                self._releases = {**self._releases, name: release}
            except ValueError:
                errors[name] = PlanError(f"{folder / _RELEASE} is damaged.")
            except DittoError as error:
                errors[name] = error
        return errors

    def releases(self) -> Mapping[str, Release]:
        """All models that are served, by name."""
        return self._releases

    def _working_on(self, model: str) -> threading.RLock:
        """Held by who changes a model."""
        with self._lock:
            return self._busy.setdefault(model, threading.RLock())

    def client_folder(self, model: str, digest: str) -> dict[str, Path]:
        """The files of the client's part of a release."""
        release = self._releases.get(model)
        if release is None or release.digest != digest:
            raise UnknownModelError(
                f"This party has no model {model[:80]!r} with the digest "
                f"{digest[:12]}; it has {', '.join(self._releases) or 'none'}."
            )
        folder = self._models / _key(model) / "client"
        return {file.name: file for file in sorted(folder.iterdir())}

    def begin(self, owner: str, request: BeginModel) -> Missing:
        """Start or resume an upload."""
        release, files = request.release, request.files
        if release.owner != owner:
            raise NotPermittedError(
                f"{owner} cannot publish a model whose owner is {release.owner[:120]}."
            )
        paths = [file.path for file in files]
        if len(set(paths)) != len(paths):
            raise RequestError("A file of the model is listed twice.")
        total = sum(file.size for file in files)
        if total > self._most_bytes:
            raise RequestError(
                f"The model has {total} bytes at this party, and the agreement allows "
                f"{self._most_bytes} (limits.max_model_bytes)."
            )
        with self._working_on(release.name):
            if self._is_committed(owner, release):
                return Missing(missing={})
            if len(self._releases) >= self._most_models:
                raise BusyError(
                    f"This party has {len(self._releases)} models, as many as the "
                    f"agreement allows (limits.models). Retire one first.",
                    retry_after=60.0,
                )
            folder = self._upload_of(release.name)
            before = self._begun(release.name)
            if before is not None and before.release.owner != owner:
                raise _anothers(release.name)
            if before != request:
                shutil.rmtree(folder, ignore_errors=True)
                (folder / "files").mkdir(mode=0o700, parents=True)
                write_file(folder / _BEGIN, request.model_dump_json().encode())
            missing = {}
            for file in files:
                path = folder / "files" / file.sha256
                size = path.stat().st_size if path.exists() else -1
                if size != file.size:
                    missing[file.sha256] = max(size, 0)
            return Missing(missing=missing)

    def put(self, owner: str, piece: PutChunk, data: Array) -> None:
        """Append a piece to a file of an upload."""
        with self._working_on(piece.model):
            begun = self._begun(piece.model)
            if begun is None:
                raise RequestError(
                    f"No upload of {piece.model[:80]!r} has begun here. Begin with it."
                )
            if begun.release.owner != owner:
                raise _anothers(piece.model)
            sizes = {file.sha256: file.size for file in begun.files}
            due = sizes.get(piece.sha256)
            path = self._upload_of(piece.model) / "files" / piece.sha256
            size = path.stat().st_size if path.exists() else 0
            if due is None or piece.offset != size or size + data.nbytes > due:
                raise RequestError(
                    f"A piece of {piece.sha256[:12]} at byte {piece.offset} does not "
                    f"follow the {size} bytes that are here, of {due}."
                )
            if data.dtype.name != "uint8":
                raise RequestError("A piece of a file is an array of bytes.")
            with open(path, "ab", opener=_private) as file:
                file.write(data.tobytes())
            if size + data.nbytes == due and _sha256(path) != piece.sha256:
                path.unlink()
                raise RequestError(
                    f"The file {piece.sha256[:12]} arrived with another SHA-256 than "
                    f"was announced. Send it again."
                )

    def commit(self, owner: str, request: CommitModel) -> Release:
        """Check an upload and serve it from now on; once more does no harm."""
        with self._working_on(request.model):
            release = self._releases.get(request.model)
            if release is not None and release.digest == request.digest:
                if release.owner != owner:
                    raise _anothers(request.model)
                return release
            begun = self._begun(request.model)
            if begun is None:
                raise RequestError(f"No upload of {request.model[:80]!r} has begun.")
            release = begun.release
            if release.owner != owner:
                raise _anothers(request.model)
            if release.digest != request.digest or set(release.plans) != set(
                request.plans
            ):
                raise RequestError(
                    f"The upload is of release {release.digest[:12]}; approved were "
                    f"release {request.digest[:12]} and {len(request.plans)} plans."
                )
            self._commit(begun)
        self._on_change()
        return release

    def retire(self, owner: str, model: str) -> None:
        """Serve a model no longer, and remove what is kept of it."""
        with self._working_on(model):
            begun = self._begun(model)
            release = self._releases.get(model, self._unusable.get(model))
            if release is None and begun is None:
                raise UnknownModelError(
                    f"This party has no model {model[:80]!r}; it has "
                    f"{', '.join(self._releases) or 'none'}."
                )
            for each in (release, begun.release if begun else None):
                if each is not None and each.owner != owner:
                    raise _anothers(model)
            self._releases = {k: v for k, v in self._releases.items() if k != model}
            self._unusable.pop(model, None)
            self._store.drop_model(model)
            gone = self._models / f".{_key(model)}-retired"
            with contextlib.suppress(FileNotFoundError):
                (self._models / _key(model)).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            shutil.rmtree(self._upload_of(model), ignore_errors=True)
        self._on_change()

    def _is_committed(self, owner: str, release: Release) -> bool:
        unusable = self._unusable.get(release.name)
        if unusable is not None and unusable.owner != owner:
            raise _anothers(release.name)
        served = self._releases.get(release.name)
        if served is None:
            return False
        if served.owner != owner:
            raise _anothers(release.name)
        if served.digest != release.digest:
            raise RequestError(
                f"{release.name} is served already, as release {served.digest[:12]}. "
                f"A release never changes: publish under a new version, or retire it "
                f"first."
            )
        return True

    def _commit(self, begun: BeginModel) -> None:
        release = begun.release
        upload = self._upload_of(release.name)
        made = self._models / f".{_key(release.name)}"
        shutil.rmtree(made, ignore_errors=True)
        for part in ("client", "party"):
            (made / part).mkdir(mode=0o700, parents=True)
        try:
            for file in begun.files:
                source = upload / "files" / file.sha256
                if not source.exists() or source.stat().st_size != file.size:
                    raise RequestError(
                        f"{file.path} is not complete at this party. Resume the upload."
                    )
                os.link(source, made / file.path)
            write_file(made / _RELEASE, release.model_dump_json().encode())
            self._load_release(made, release)
            try:
                if self._unusable.pop(release.name, None):
                    shutil.rmtree(self._models / _key(release.name))
                made.rename(self._models / _key(release.name))
            except BaseException:
                self._store.drop_model(release.name)
                raise
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        self._releases = {**self._releases, release.name: release}
        shutil.rmtree(upload, ignore_errors=True)

    def _load_release(self, folder: Path, release: Release) -> None:
        """Check a release against its files, and put it into the store."""
        expected = {
            "client": release.client,
            "party": release.parties[self._rank],
        }
        for part, digest in expected.items():
            manifest = folder / part / MANIFEST
            if not manifest.is_file() or _sha256(manifest) != digest:
                raise RequestError(
                    f"The {part} folder of {release.name} is not the one that release "
                    f"{release.digest[:12]} names."
                )
        try:
            read_folder(folder / "client")
            contents = read_folder(folder / "party").contents
            named = contents.get("model"), contents.get("owner")
            plans = contents.get("plans")
            if named != (release.name, release.owner) or plans != sorted(release.plans):
                raise RequestError(
                    f"The party folder of {release.name} is of another model, owner or "
                    f"set of plans than the release says."
                )
            load_bundle(self._store, folder / "party", self._rank)
        except PlanError as error:  # it speaks of what the owner has sent
            raise RequestError(_without_paths(error, folder)) from None

    def _upload_of(self, model: str) -> Path:
        return self._uploads / _key(model)

    def _begun(self, model: str) -> BeginModel | None:
        path = self._upload_of(model) / _BEGIN
        if not path.exists():
            return None
        content = read_limited(path, 2 * _MAX_RELEASE, PlanError, "32 MiB")
        return parse_request(BeginModel, json.loads(content))


def _anothers(model: str) -> NotPermittedError:
    return NotPermittedError(f"{model[:80]!r} belongs to another owner.")


def _key(model: str) -> str:
    """The name of a model's folder."""
    return hashlib.sha256(model.encode()).hexdigest()[:32]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _without_paths(error: PlanError, folder: Path) -> str:
    """What is wrong with an upload, without where this party keeps it."""
    return str(error).replace(f"{folder}/", "").replace(str(folder), "the model")
