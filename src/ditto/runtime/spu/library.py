"""The stock SPU wheel, imported once, quiet."""

import threading
from functools import lru_cache
from types import ModuleType
from typing import Protocol

_importing = threading.Lock()


class NativeLink(Protocol):
    """What SPU's runtimes talk over."""

    def spawn(self) -> "NativeLink":
        """A sub-link; all parties spawn alike."""


class NativeShare(Protocol):
    """A party's share of a value, as SPU takes it and hands it out."""

    meta: bytes
    share_chunks: list[bytes]


class NativeExecutable(Protocol):
    """A compiled program."""

    code: bytes | str

    def ParseFromString(self, data: bytes, /) -> object:  # noqa: N802
        """Read it from its serialized form."""


class NativeRuntime(Protocol):
    """Runs programs on the values it holds, by name."""

    def SetVar(self, name: str, share: NativeShare, /) -> None:  # noqa: N802
        """Bring a value in."""

    def GetVar(self, name: str, /) -> NativeShare:  # noqa: N802
        """Hand a value out."""

    def DelVar(self, name: str, /) -> None:  # noqa: N802
        """Forget a value."""

    def Run(self, executable: NativeExecutable, /) -> None:  # noqa: N802
        """Compute."""


def libspu() -> ModuleType:
    """The native module; see ``_load``."""
    with _importing:  # two threads at once would set its loggers up twice
        return _load()


@lru_cache(maxsize=1)
def _load() -> ModuleType:
    """The native module, with its console logger off.

    SPU's errors reach us as exceptions. What it logs besides (thread pools, every
    retry of a send to a peer that is gone) would only hide our own report.
    """
    import spu.libspu as native

    options = native.logging.LogOptions()
    options.enable_console_logger = False
    options.system_log_path = "/dev/null"
    options.trace_log_path = "/dev/null"
    options.log_level = native.logging.LogLevel.ERROR
    native.logging.setup_logging(options)
    return native
