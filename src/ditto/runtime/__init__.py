"""A party runs a plan: executor, sessions, links, liveness, identity; SPU in ``spu``.

In topological order: config, certificates, connection, links; spu; session, executor,
trio, threads, processes, worker.
"""

from ditto.runtime.config import LinkConfig, PartyAddress, TlsFiles
from ditto.runtime.processes import ProcessTrio
from ditto.runtime.session import (
    LinkedSession,
    Session,
    open_session,
    open_sessions,
)
from ditto.runtime.spu.region import Region, compile_region
from ditto.runtime.spu.runtimes import Runtimes
from ditto.runtime.spu.values import Public, Value
from ditto.runtime.threads import ThreadTrio
from ditto.runtime.trio import (
    NAMES,
    Outcome,
    Reply,
    Trio,
    as_arrays,
    from_arrays,
)

__all__ = [
    "NAMES",
    "LinkConfig",
    "LinkedSession",
    "Outcome",
    "PartyAddress",
    "ProcessTrio",
    "Public",
    "Region",
    "Reply",
    "Runtimes",
    "Session",
    "ThreadTrio",
    "TlsFiles",
    "Trio",
    "Value",
    "as_arrays",
    "compile_region",
    "from_arrays",
    "open_session",
    "open_sessions",
]
