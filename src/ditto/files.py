"""Files from outside: read whole, up to a limit; what JSON in them is; and the folder
of what can be made again."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ditto.errors import DittoError

JsonValue = Any
"""Anything that JSON can hold; whoever reads it checks what it is."""
Json = dict[str, JsonValue]
"""A JSON object."""

with contextlib.suppress(OSError):
    # tempfile looks for its folder when it is first used, under a lock that an
    # interrupt between two instructions would leave taken for ever. So it looks now.
    os.rmdir(tempfile.mkdtemp(prefix="ditto-"))


def read_limited(
    path: Path, limit: int, raising: Callable[[str], DittoError], too_large: str
) -> bytes:
    """The bytes of a file; raises if it cannot be read or is ``too_large``."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise raising(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > limit:
        raise raising(f"{path} is larger than {too_large}.")
    return content


def write_private(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a file that only its owner can read; whole or not at all.

    Raises FileExistsError if there is one and it is not to be replaced.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:  # mkstemp's mode is 0600
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
        else:
            os.link(name, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


CACHE = "DITTO_CACHE"
"""The environment variable that names the folder of what can be made again."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Ditto keeps what it can make again."""
    chosen = environment.get(CACHE)
    if chosen:
        return Path(chosen)
    shared = environment.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "ditto"


def warm_socket(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the process that keeps parties warm is reached, if there is one."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "ditto" if runtime else cache_folder(environment) / "run"
    return folder / "warm.sock"


def private_folder(folder: Path) -> Path:
    """A folder of this user's alone, made if it is not there.

    Raises OSError if it cannot be made, or if others could have put something there.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    others = stat.S_IWGRP | stat.S_IWOTH
    if status.st_uid != os.geteuid() or status.st_mode & others:
        raise PermissionError(errno.EPERM, "others may write to it")
    return folder
