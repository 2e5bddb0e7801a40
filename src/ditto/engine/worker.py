"""The process of one party in a local trio: ``python -m ditto.engine.worker``.

Reads frames on standard input: first its link configuration, then calls. A call names
a function of an importable module as ``module:function``; only the process that
started this one can write to its input. Answers with one frame for each, after any
number of frames that tell how far the call has come. Who has refused a call before it
had begun is told to leave if another party went on with it.
"""

import importlib
import os
import sys
import traceback
from typing import BinaryIO

from ditto.engine.config import LinkConfig
from ditto.engine.frames import Json, read_frame, write_frame
from ditto.engine.session import Session, open_session
from ditto.engine.trio import UNGUARDED, PartyFunction
from ditto.errors import DittoError, SetupError


def serve(requests: BinaryIO, replies: BinaryIO) -> int:
    """Open the session and answer calls until the input ends."""
    opening = read_frame(requests)
    if opening is None:
        return 0
    session: Session | None = None
    try:
        for path in reversed(opening[0]["path"]):
            sys.path.insert(0, path)
        session = open_session(LinkConfig.model_validate(opening[0]["link"]))
        session.report = lambda said: write_frame(replies, {"progress": said}, {})
        session.on_begin = lambda: write_frame(replies, {"begun": True}, {})
        write_frame(replies, {"ready": True}, {})
    except (DittoError, ValueError) as error:
        write_frame(replies, {"error": describe(error)}, {})
        return 1
    while (request := read_frame(requests)) is not None:
        body, arrays = request
        if body.get("close"):
            session.close()
            write_frame(replies, {"closed": True}, {})
            return 0
        if body.get("leave"):
            session.abort()
            continue
        session.begun = False
        try:
            function = find_function(body["call"])
            result, results = function(session, body["parameters"], arrays)
            write_frame(replies, {"result": result}, results)
        except Exception as error:
            if session.begun:
                session.abort()
            if not isinstance(error, DittoError):
                traceback.print_exc()
            refused = not session.begun
            write_frame(replies, {"error": describe(error), "refused": refused}, {})
    return 0


def find_function(path: str) -> PartyFunction:
    """The function of a module that a call names."""
    module, _, name = path.partition(":")
    try:
        found: PartyFunction = getattr(importlib.import_module(module), name)
    except SystemExit:  # the script went on to its end
        raise SetupError(UNGUARDED) from None
    return found


def describe(error: Exception) -> Json:
    """An error as data, for the process that started this one."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "details": vars(error) if isinstance(error, DittoError) else {},
    }


def main() -> None:
    """Keep standard output for frames: whatever SPU or XLA print goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    code = 1
    try:
        code = serve(sys.stdin.buffer, replies)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # Threads of a link may still wait for a peer that is gone; do not join them.
        os._exit(code)


if __name__ == "__main__":
    main()
