"""Three parties of a test, as they are configured and as they meet."""

from collections.abc import Iterable, Sequence
from typing import Any

from ditto.runtime import NAMES, LinkConfig, PartyAddress, TlsFiles
from ditto.runtime.connection import PeerConnections
from ditto.runtime.processes import free_hosts
from ditto.sharing import RANKS, Rank


def configs(files: Sequence[TlsFiles], **changes: object) -> list[LinkConfig]:
    """Each party's view, at free addresses of this machine."""
    parties = tuple(
        PartyAddress(name=name, host=host)
        for name, host in zip(NAMES, free_hosts(), strict=True)
    )
    common: dict[str, Any] = {"parties": parties, "session": "s"}
    return [
        LinkConfig.model_validate(
            {**common, "rank": rank, "tls": files[rank], **changes}
        )
        for rank in RANKS
    ]


def close(met: Iterable[dict[Rank, PeerConnections]]) -> None:
    """Let all connections go that parties have to each other."""
    for lines in (line for mine in met for line in mine.values()):
        for line in vars(lines).values():
            line.close()
