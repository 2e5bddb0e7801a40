"""Plans kept on disk, so that a model is calibrated and compiled once on a machine.

A file holds a line of magic, a line of JSON that says what the plan is of, and the plan
as ``ditto.plan`` writes it. Its name is the key: a hash over everything that the plan
depends on. What is read is parsed with limits; a file that is damaged, or that belongs
to another key, is as good as none. The folder and its files are the owner's alone: a
plan tells something of the weights and of the texts it was calibrated on.
"""

import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ditto.errors import CacheWarning, PlanError, SetupError
from ditto.files import CACHE, private_folder, read_limited
from ditto.launch import COMPILED
from ditto.plan import Plan
from ditto.plan.reader import MAX_BYTES
from ditto.steps import plan_from_bytes

LIMIT = "DITTO_CACHE_LIMIT"
"""The environment variable that says how many bytes of plans are kept at most."""
USUAL_LIMIT = 2 << 30
_MAGIC = b"ditto-cached-plan 1\n"
_MAX_LABEL = 4096
_KEY = re.compile("[0-9a-f]{64}")
_ABANDONED = 3600.0
"""Seconds after which a file that was never finished is removed."""


def cache_limit(environment: Mapping[str, str] = os.environ) -> int:
    """How many bytes of plans are kept."""
    chosen = environment.get(LIMIT)
    if chosen is None:
        return USUAL_LIMIT
    if not chosen.isdecimal():
        raise SetupError(f"{LIMIT} is a number of bytes, got {chosen!r}.")
    return int(chosen)


@dataclass(frozen=True)
class Label:
    """What a plan is of, for people."""

    model: str
    profile: str
    computation: str


@dataclass(frozen=True)
class Entry:
    """A plan that is kept."""

    key: str
    label: Label
    bytes: int
    used: float
    """When it was last made or read, in seconds since 1970."""


class PlanCache:
    """Plans in a folder, by key; those not used for longest go when there are too
    many."""

    def __init__(self, folder: Path, limit: int = USUAL_LIMIT) -> None:
        self.folder = folder / "plans"
        self._compiled = folder / COMPILED
        self._limit = limit
        self._warned = False

    def get(self, key: str) -> Plan | None:
        """The plan of a key, if there is an intact one."""
        path = self.folder / key
        try:
            private_folder(self.folder)
            _, body = _read(path)
            plan = plan_from_bytes(body)
            os.utime(path)
        except (OSError, PlanError):
            return None
        return plan

    def put(self, key: str, plan: Plan, label: Label) -> None:
        """Keep a plan; warns, once, if that is impossible."""
        try:
            private_folder(self.folder)
            text = json.dumps({"key": key, **asdict(label)}).encode()
            content = b"".join([_MAGIC, text, b"\n", plan.to_bytes()])
            _write(self.folder / key, content)
            self._make_room(key)
        except OSError as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"The plan is not kept in {self.folder}: {error.strerror}. Name "
                    f"another folder with {CACHE}, or pass cache=False.",
                    CacheWarning,
                    stacklevel=4,
                )

    def entries(self) -> list[Entry]:
        """All that is kept, the last used first; what is no plan is left out."""
        found = []
        for path in self._files():
            try:
                status = path.stat()
                label, _ = _read(path)
            except (OSError, PlanError):
                continue
            found.append(Entry(path.name, label, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: -entry.used)

    def compiled(self) -> tuple[int, int]:
        """How many files JAX keeps besides, and how many bytes they have."""
        sizes = [path.stat().st_size for path in self._compiled_files()]
        return len(sizes), sum(sizes)

    def clear(self) -> int:
        """Remove everything, damaged files too; says how many bytes that were."""
        parts = self.folder.glob(".*.part")
        removed = 0
        for path in [*self._files(), *parts, *self._compiled_files()]:
            removed += path.stat().st_size
            path.unlink(missing_ok=True)
        return removed

    def _compiled_files(self) -> list[Path]:
        return [path for path in self._compiled.rglob("*") if path.is_file()]

    def _files(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (p for p in self.folder.iterdir() if _KEY.fullmatch(p.name))

    def _make_room(self, key: str) -> None:
        """Remove what was not used for longest, but never the plan of the key."""
        files = [*self._files(), *self._compiled_files()]
        statuses = [(path, path.stat()) for path in files]
        total = sum(status.st_size for _, status in statuses)
        for path, status in sorted(statuses, key=lambda each: each[1].st_mtime):
            if total <= self._limit:
                break
            if path.name != key:
                path.unlink(missing_ok=True)
                total -= status.st_size
        for part in self.folder.glob(".*.part"):
            if part.stat().st_mtime < time.time() - _ABANDONED:
                part.unlink(missing_ok=True)


def _read(path: Path) -> tuple[Label, bytes]:
    """What a file says it is of, and the bytes of its plan."""
    limit = len(_MAGIC) + _MAX_LABEL + MAX_BYTES
    content = read_limited(path, limit, PlanError, f"{limit} bytes")
    end = content.find(b"\n", len(_MAGIC), len(_MAGIC) + _MAX_LABEL)
    if not content.startswith(_MAGIC) or end < 0:
        raise PlanError(f"{path} is not a cached plan.")
    try:
        fields = json.loads(content[len(_MAGIC) : end])
        key, label = fields.pop("key"), Label(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise PlanError(f"{path} does not say what it is of.") from None
    if not all(isinstance(text, str) for text in asdict(label).values()):
        raise PlanError(f"{path} does not say what it is of.")
    if key != path.name:
        raise PlanError(f"{path} holds the plan of another key.")
    return label, content[end + 1 :]


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing, even if two do it at once."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
