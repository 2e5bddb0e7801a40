"""Three parties of a test, as they are configured and as they meet."""

from collections.abc import Iterable, Sequence
from typing import Any

from ditto.runtime import NAMES, LinkConfig, PartyAddress, TlsFiles
from ditto.runtime.certificates import LocalCertificate
from ditto.runtime.connection import PeerConnections
from ditto.runtime.processes import free_hosts
from ditto.sharing import RANKS, Rank


def configs(
    certificates: Sequence[LocalCertificate],
    shown: Sequence[TlsFiles] | None = None,
    **changes: object,
) -> list[LinkConfig]:
    """Each party's view, at free addresses of this machine.

    ``shown`` is what each party has, if that is not what its peers believe in.
    """
    parties = tuple(
        PartyAddress(name=name, host=host, identity=c.identity, authority=c.authority)
        for name, host, c in zip(NAMES, free_hosts(), certificates, strict=True)
    )
    tls = shown or [each.tls for each in certificates]
    common: dict[str, Any] = {"parties": parties, "session": "s"}
    return [
        LinkConfig.model_validate({**common, "rank": rank, "tls": tls[rank], **changes})
        for rank in RANKS
    ]


def close(met: Iterable[dict[Rank, PeerConnections]]) -> None:
    """Let all connections go that parties have to each other."""
    for lines in (line for mine in met for line in mine.values()):
        for line in vars(lines).values():
            line.close()
