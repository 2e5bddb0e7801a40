"""A party's session: links, liveness, identity, SPU runtimes. Imports spu, alone.

In topological order: spu_library, config, certificates, connection, links, spu_link,
bare, values, region, runtime, session, frames, trio, worker.
"""

from ditto.engine.config import LinkConfig, PartyAddress, TlsFiles
from ditto.engine.region import Region, compile_region
from ditto.engine.runtime import FXP_FRAC, Runtimes
from ditto.engine.session import LinkedSession, Session, open_session
from ditto.engine.trio import (
    NAMES,
    Outcome,
    ProcessTrio,
    Reply,
    ThreadTrio,
    Trio,
    as_arrays,
    from_arrays,
)
from ditto.engine.values import Public, Value

__all__ = [
    "FXP_FRAC",
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
]
