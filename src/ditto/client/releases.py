"""The client's part of a model, fetched from the parties and kept.

All three parties must say the same of a model before anything of it is used: one alone
could offer another tokenizer, or signatures that make a text public. What is fetched is
compared with the digest that all three named.
"""

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ditto.client.answering import ModelCard
from ditto.client.bundle import ClientBundle, read_client_bundle
from ditto.client.connection import PartyConnection
from ditto.errors import (
    CheckpointError,
    DisagreementError,
    MessageError,
    PlanError,
    SetupError,
    UnknownModelError,
)
from ditto.files import private_folder, read_limited
from ditto.models import Head
from ditto.models.chat_files import read_chat_files
from ditto.wire.catalogue import NamedRelease, Release, ServiceStatus, as_body
from ditto.wire.manifest import MANIFEST, write_file
from ditto.wire.methods import CLIENT_FOLDER

MAX_FOLDER = 256 << 20
"""Bytes of all files of a client's folder."""
_MAX_FILES = 64


@dataclass(frozen=True)
class OpenedModel:
    """A model that can be asked."""

    release: Release
    bundle: ClientBundle
    card: ModelCard


def common_releases(statuses: list[ServiceStatus]) -> dict[str, Release]:
    """What all three parties serve and say the same of."""
    found: list[dict[str, Release]] = []
    for status in statuses:
        served = {m.release.name: m for m in status.models if m.agreed}
        for name, model in served.items():
            if model.release.digest != model.digest:
                raise DisagreementError(f"A party names a wrong digest for {name}.")
        found.append({name: model.release for name, model in served.items()})
    first, *others = found
    return {
        name: release
        for name, release in first.items()
        if all(other.get(name) == release for other in others)
    }


def find_release(
    releases: Mapping[str, Release], model: str, pinned: str | None
) -> Release:
    """A model by its name; the one that is pinned, or none."""
    release = releases.get(model)
    if release is None:
        names = ", ".join(sorted(releases)) or "none"
        raise UnknownModelError(
            f"{model[:80]!r} is not served by all three parties; these are: {names}."
        )
    if pinned is not None and release.digest != pinned:
        raise DisagreementError(
            f"The parties serve {model} as release {release.digest}, but {pinned} is "
            f"pinned. Ask the owner which is right."
        )
    return release


class Releases:
    """Models that were opened, with their folders in a cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "releases"
        self._lock = threading.Lock()
        self._opened: dict[str, OpenedModel] = {}

    def opened(self, digest: str) -> OpenedModel | None:
        """A release that was opened before."""
        return self._opened.get(digest)

    def open(self, release: Release, party: PartyConnection) -> OpenedModel:
        """The client's part of a release: kept from before, or fetched from a party."""
        with self._lock:
            digest = release.digest
            if digest not in self._opened:
                self._opened[digest] = self._open(release, party)
            return self._opened[digest]

    def _open(self, release: Release, party: PartyConnection) -> OpenedModel:
        path = self._folder / release.digest
        try:
            return _read(path, release)
        except PlanError:
            return self._fetch(release, party, path)

    def _fetch(
        self, release: Release, party: PartyConnection, path: Path
    ) -> OpenedModel:
        """From a party; kept, unless another process was faster."""
        asked = NamedRelease(model=release.name, digest=release.digest)
        files: dict[str, bytearray] = {}
        size = 0
        for body, arrays in party.call(
            CLIENT_FOLDER, [(as_body(asked), {})], timeout=120.0, most_bytes=1 << 20
        ):
            name = body.get("file")
            if body.get("done"):
                break
            if not isinstance(name, str) or Path(name).name != name or name == "..":
                raise MessageError(f"{party.name} sent a file without a name.")
            data = arrays["data"].tobytes() if "data" in arrays else b""
            files.setdefault(name, bytearray()).extend(data)
            size += len(data)
            if size > MAX_FOLDER or len(files) > _MAX_FILES:
                raise MessageError(f"{party.name} sent more than a client's folder.")
        try:
            private_folder(self._folder)
            made = Path(tempfile.mkdtemp(prefix=".fetched-", dir=self._folder))
        except OSError as error:
            raise SetupError(
                f"{self._folder} cannot be written: {error.strerror}."
            ) from None
        try:
            for name, content in files.items():
                write_file(made / name, bytes(content))
            opened = _read(made, release)
            _put(made, path, release)
            return opened
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _put(made: Path, path: Path, release: Release) -> None:
    """Put a folder where there is none yet, or one that is damaged.

    A good one that another process has put there meanwhile stays: others may be
    reading it.
    """
    with contextlib.suppress(OSError):
        made.rename(path)
        return
    try:
        _read(path, release)
    except PlanError:
        with contextlib.suppress(OSError):
            path.rename(made / "damaged")
            made.rename(path)
            shutil.rmtree(path / "damaged", ignore_errors=True)


def _read(path: Path, release: Release) -> OpenedModel:
    """A folder, if it is the one that the release names."""
    manifest = read_limited(path / MANIFEST, 64 << 20, PlanError, "64 MiB")
    if hashlib.sha256(manifest).hexdigest() != release.client:
        raise PlanError(
            f"The client's folder of {release.name} is not the one that its release "
            f"{release.digest[:12]} names."
        )
    bundle = read_client_bundle(path)
    if (bundle.model, bundle.head) != (release.name, release.head):
        raise PlanError(f"The client's folder of {release.name} is of another model.")
    return OpenedModel(release, bundle, _card(release, path))


def _card(release: Release, path: Path) -> ModelCard:
    try:
        chat = read_chat_files(path)
    except CheckpointError as error:
        raise PlanError(str(error)) from None
    return ModelCard(
        name=release.name,
        owner=release.owner,
        head=Head(release.head),
        max_tokens=release.max_tokens,
        digest=release.digest,
        created=release.created,
        chat_template=chat.template,
        special_tokens=chat.special_tokens,
    )
