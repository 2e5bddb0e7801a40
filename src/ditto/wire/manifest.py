"""A folder of a bundle: files, and a manifest that says what they are.

A bundle has a folder for the client and one for each party. Every folder is complete by
itself: who loads one needs no other. The manifest names the format of the folder,
the version of Ditto that wrote it and the SHA-256 of every file. A folder of another
format, or with a file that is missing or has changed, is refused. The version is not
compared: parties and clients are upgraded one after the other, and models stay.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from ditto.errors import PlanError
from ditto.files import JsonValue, read_limited

MANIFEST = "manifest.json"
FORMAT = 3
"""Which files there are and what they mean. A release that reads or means anything else
takes the next number. Plans have a number of their own, in ``plan/plan.py``."""
VERSION = version("ditto-mpc")
MAX_MANIFEST = 64 << 20
_PIECE = 1 << 22


@dataclass(frozen=True)
class Folder:
    """A folder whose files are those that its manifest lists."""

    path: Path
    contents: Mapping[str, JsonValue] = field(repr=False)
    """What the manifest says besides."""
    files: Mapping[str, str] = field(repr=False)
    """SHA-256 by name."""

    def file(self, name: str) -> Path:
        """A file that the manifest lists."""
        if name not in self.files:
            raise PlanError(f"The manifest of {self.path} does not list {name!r}.")
        return self.path / name


def is_bundle(path: Path) -> bool:
    """Whether a folder is a bundle."""
    return (path / "client" / MANIFEST).is_file()


def write_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def write_manifest(path: Path, contents: Mapping[str, JsonValue]) -> None:
    """Complete a folder: list its files, say what they are."""
    files = {file.name: _sha256(file) for file in sorted(path.iterdir())}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "contents": contents,
        "files": files,
    }
    write_file(path / MANIFEST, json.dumps(manifest, indent=1).encode())


def read_folder(path: Path) -> Folder:
    """A folder as it was written; raises PlanError for any other."""
    text = read_limited(path / MANIFEST, MAX_MANIFEST, PlanError, "64 MiB")
    try:
        manifest = json.loads(text)
        written, form = manifest["version"], manifest["format"]
        contents, files = dict(manifest["contents"]), dict(manifest["files"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PlanError(f"{path / MANIFEST} is not the manifest of a bundle.") from None
    if type(form) is not int or form != FORMAT:
        raise PlanError(
            f"{path} was written by Ditto {str(written)[:40]} in format "
            f"{str(form)[:20]}; this is Ditto {VERSION}, which reads format {FORMAT}. "
            f"Export the model again with this version."
        )
    for name, digest in files.items():
        file = path / name
        if Path(name).name != name or name == MANIFEST:
            raise PlanError(f"The manifest of {path} lists {name!r}, which is no file.")
        if not _is_whole(file, digest):
            raise PlanError(
                f"{file} is missing or is not the file that was exported: its SHA-256 "
                f"differs from the manifest's. Copy the bundle again."
            )
    return Folder(path, contents, files)


def _is_whole(file: Path, digest: object) -> bool:
    try:
        return file.is_file() and _sha256(file) == digest
    except OSError:  # it cannot be read, or is just being removed
        return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
