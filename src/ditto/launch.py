"""The processes of three local parties, started while this one is still importing.

A party's process takes a second or two to import JAX and SPU, and so does the one that
asks it; this module needs neither, so whoever knows early that parties will be needed
starts them first.
"""

import contextlib
import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ditto.errors import ScriptSetupError
from ditto.files import private_folder, read_limited

WORKER = "ditto.runtime.worker"
PARTIES = 3
COMPILED = "compiled"
"""The part of the cache that is JAX's."""
_PATIENCE = 10.0
"""Seconds that the parties have to end, all together."""
_PIPE = 1 << 20
"""Bytes that a pipe to a party holds: weights go through it."""

Process = subprocess.Popen[bytes]
Prefixes = Sequence[Sequence[str]]
NO_PREFIXES: Prefixes = ((),) * PARTIES


class Launched:
    """Processes of three parties that nobody has connected yet.

    They end when this object, or the process that holds it, does.
    """

    def __init__(
        self, prefixes: Prefixes = NO_PREFIXES, compiled: Path | None = None
    ) -> None:
        _check_not_in_a_party()
        self.processes: list[Process] = []
        """By rank."""
        weakref.finalize(self, kill_processes, self.processes)
        try:
            for rank, prefix in enumerate(prefixes):
                self.processes.append(_start(prefix, keeping(compiled, f"party{rank}")))
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End them at once."""
        kill_processes(self.processes)


def keeping(folder: Path | None, name: str) -> dict[str, str]:
    """The environment in which JAX keeps what it compiles, in a folder for this kind of
    processor, so that the next process of this name need not compile it.

    Empty without a folder, or if others could write to it: what is kept is code.
    """
    if folder is None:
        return {}
    try:
        own = private_folder(folder / COMPILED / _processor() / name)
    except OSError:
        return {}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(own),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def kill_processes(processes: Iterable[Process]) -> None:
    """End processes at once; once more does no harm."""
    each = list(processes)
    for process in each:
        process.kill()
    end_processes(each)


def end_processes(processes: Iterable[Process]) -> None:
    """Close what processes read, and wait until they have ended."""
    each = list(processes)
    for process in each:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
    deadline = time.monotonic() + _PATIENCE
    for process in each:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(prefix: Sequence[str], environment: Mapping[str, str]) -> Process:
    """A party's process. Ctrl-C at a terminal reaches it too, but is ours to heed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603  (the prefix is our caller's)
            [*prefix, sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            pipesize=_PIPE,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_not_in_a_party() -> None:
    """A party that imports a script must not start parties that import it again."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == WORKER:
        raise ScriptSetupError(ScriptSetupError.public)


def _processor() -> str:
    """What this processor can do, as a name: code for one may not run on another."""
    described = b""
    with contextlib.suppress(Exception):
        content = read_limited(Path("/proc/cpuinfo"), 1 << 24, ScriptSetupError, "")
        described = next(li for li in content.splitlines() if li.startswith(b"flags"))
    found = hashlib.sha256(platform.machine().encode() + described)
    return found.hexdigest()[:16]
