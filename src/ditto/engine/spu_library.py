"""The stock SPU wheel, imported once, quiet."""

import threading
from functools import lru_cache
from typing import Any

_importing = threading.Lock()


def libspu() -> Any:
    """The native module; see ``_load``."""
    with _importing:  # two threads at once would set its loggers up twice
        return _load()


@lru_cache(maxsize=1)
def _load() -> Any:
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
