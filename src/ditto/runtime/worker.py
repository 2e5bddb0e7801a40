"""The process of one party in a local trio: ``python -m ditto.runtime.worker``.

Reads frames on standard input: first its link configuration, then calls. A call names
a function of an importable module as ``module:function``; only the process that
started this one can write to its input. Answers with one frame for each, after any
number of frames that tell how far the call has come. Who has refused a call before it
had begun is told to leave if another party went on with it. Another link configuration
opens another session; what functions keep in the session's storage stays.
"""

import importlib
import os
import select
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import BinaryIO, NoReturn

from ditto.errors import DittoError, RequestError, ScriptSetupError
from ditto.frames import Arrays, Json, read_frame, write_frame
from ditto.runtime.certificates import remove_keys
from ditto.runtime.config import LinkConfig
from ditto.runtime.session import Session, open_session
from ditto.runtime.trio import PartyFunction

_WATCH = 1.0
"""Seconds between two looks whether the process that started this one is alive."""


class Worker:
    """Answers frames until the input ends."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self._requests, self._replies = requests, replies
        self._storage: dict[str, object] = {}
        self._session: Session | None = None
        self._keys: Path | None = None
        self._removing = threading.Lock()
        self._parent = os.getppid()

    def serve(self) -> int:
        """The code that the process is to end with."""
        while (request := read_frame(self._requests)) is not None:
            body, arrays = request
            if "link" in body:
                if not self._open(body):
                    return 1
            elif body.get("close"):
                if self._session is not None:
                    self._session.close()
                self._reply({"closed": True})
                return 0
            elif self._session is None:
                return 1
            elif body.get("leave"):
                self._session.abort()
            else:
                self._call(self._session, body, arrays)
        return 0

    def _end_with_parent(self) -> NoReturn:
        """Do not outlive the process that started this one, even in a long call."""
        while not self._is_orphan():
            time.sleep(_WATCH)
        self.remove_orphaned_keys()
        os._exit(1)

    def _is_orphan(self) -> bool:
        hang_up = select.poll()
        hang_up.register(self._requests, 0)  # nobody is left who could write
        return os.getppid() != self._parent or bool(hang_up.poll(0))

    def remove_orphaned_keys(self) -> None:
        """Remove keys whose maker is gone before they were used."""
        with self._removing:  # whole, before either thread ends the process
            if self._keys is not None and self._is_orphan():
                remove_keys(self._keys)

    def _reply(self, body: Json, arrays: Arrays | None = None) -> None:
        write_frame(self._replies, body, arrays or {})

    def _open(self, opening: Json) -> bool:
        """Connect to the peers."""
        self._keys = Path(opening["link"]["tls"]["key"]).parent
        if self._session is None:
            for path in reversed(opening["path"]):
                sys.path.insert(0, path)
            threading.Thread(target=self._end_with_parent, daemon=True).start()
        else:
            self._session.abort()
            self._session.close()
        try:
            session = open_session(LinkConfig.model_validate(opening["link"]))
        except (DittoError, ValueError) as error:
            log(error)
            self._reply({"error": describe(error)})
            return False
        session.storage = self._storage
        session.report = lambda progress: self._reply({"progress": progress})
        session.on_begin = lambda: self._reply({"begun": True})
        self._session = session
        self._keys = None  # in use now, and removed by the process that made them
        self._reply({"ready": True})
        return True

    def _call(self, session: Session, body: Json, arrays: Arrays) -> None:
        session.begun = False
        try:
            function = find_function(body["call"])
            result, results = function(session, body["parameters"], arrays)
            self._reply({"result": result}, results)
        except Exception as error:
            if session.begun:
                session.abort()
            log(error)
            self._reply({"error": describe(error), "refused": not session.begun})


def find_function(path: str) -> PartyFunction:
    """The function of a module that a call names."""
    module, _, name = path.partition(":")
    try:
        found: PartyFunction = getattr(importlib.import_module(module), name)
    except SystemExit:  # the script went on to its end
        raise ScriptSetupError(ScriptSetupError.public) from None
    except (ImportError, AttributeError) as error:
        raise RequestError(f"A party finds no {path}: {error}.") from None
    return found


def describe(error: Exception) -> Json:
    """An error as data, for the process that asked: what may leave this one.

    The text of an error that nobody foresaw may hold anything, so nothing is told of it
    but that there was one.
    """
    told = error if isinstance(error, DittoError) else DittoError()
    return {
        "type": type(told).__name__,
        "message": told.public_message(),
        "details": told.public_details(),
    }


def log(error: Exception) -> None:
    """For the operator of this party: what is not told to whoever asked."""
    if not isinstance(error, DittoError):
        traceback.print_exception(error)
    elif str(error) not in error.public_message():
        sys.stderr.write(f"{type(error).__name__}: {error}\n")


def main() -> None:
    """Keep standard output for frames: whatever SPU or XLA print goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker, code = Worker(sys.stdin.buffer, replies), 1
    try:
        code = worker.serve()
    except BaseException:
        traceback.print_exc()
    finally:
        worker.remove_orphaned_keys()
        sys.stderr.flush()
        # Threads of a link may still wait for a peer that is gone; do not join them.
        os._exit(code)


if __name__ == "__main__":
    main()
