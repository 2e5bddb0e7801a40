"""A party ready to compute: protocols on its channel, regions on its SPU runtimes."""

from collections.abc import Callable
from typing import Any

from ditto.engine.certificates import CertificateProver
from ditto.engine.config import LinkConfig
from ditto.engine.links import Links
from ditto.engine.metered import MeteredLink
from ditto.engine.runtime import Blame, Runtimes
from ditto.errors import PeerStalledError
from ditto.protocols import Channel, Party, open_party


class Session:
    """One party's end of one session. All three parties take the same steps in it."""

    def __init__(
        self,
        party: Party,
        *,
        spawn: Callable[[], Any],
        blame: Blame,
        close: Callable[[], None],
    ) -> None:
        self.party = party
        self._spawn = spawn
        self._blame = blame
        self._close = close
        self._runtimes: Runtimes | None = None

    @property
    def runtimes(self) -> Runtimes:
        """The SPU runtimes, opened at first use, by all parties at the same step."""
        if self._runtimes is None:
            self._runtimes = Runtimes(self._spawn, self._blame)
        return self._runtimes

    def close(self) -> None:
        """Leave the session; the peers get all that was sent."""
        self._close()


def open_session(config: LinkConfig) -> Session:
    """Connect to the peers, prove who we are, agree on keys."""
    links = Links(config)
    prover = CertificateProver(config.tls, config.names) if config.tls else None
    party = open_party(links.channel(), session=config.session.encode(), prover=prover)
    return Session(party, spawn=links.spawn, blame=links.blame, close=links.close)


def open_memory_session(channel: Channel, link: MeteredLink) -> Session:
    """A session of one of three threads of this process."""

    def blame(failure: Exception) -> PeerStalledError:
        return PeerStalledError(f"SPU waited in vain: {failure}", peer="a peer thread")

    party = open_party(channel, session=b"memory")
    return Session(party, spawn=link.spawn, blame=blame, close=channel.close)
