"""A party ready to compute: protocols on its channel, regions on its SPU runtimes."""

from collections.abc import Callable
from typing import Any

from ditto.engine.bare import open_bare_link
from ditto.engine.config import LinkConfig
from ditto.engine.links import Links
from ditto.engine.runtime import Runtimes
from ditto.engine.spu_link import Mailbox, MemoryMailbox, SpuLink
from ditto.errors import SetupError
from ditto.protocols import Channel, Party, agree


class Session:
    """One party's end of one session. All three parties take the same steps in it."""

    def __init__(
        self, party: Party, mailbox: Mailbox, *, close: Callable[[], None]
    ) -> None:
        self.party = party
        self.spu_link = SpuLink(mailbox, party.rank)
        """Counts what SPU sends, beside ``party.channel`` for the protocols."""
        self.holdings: dict[str, Any] = {}
        """What functions that run at this party keep from one call to the next."""
        self.report: Callable[[dict[str, Any]], None] = lambda _: None
        """Tells whoever called how far the call has come."""
        self.begun = False
        """Whether the call has taken a step that the parties take together."""
        self.on_begin: Callable[[], None] = lambda: None
        """Tells whoever called that it has."""
        party.channel.on_use = self.begin
        self._close = close
        self._runtimes: Runtimes | None = None

    def begin(self) -> None:
        """From here on the call succeeds, or an error in it ends the session.

        A call that all parties refuse before leaves everything as it was.
        """
        if not self.begun:
            self.begun = True
            self.on_begin()

    @property
    def runtimes(self) -> Runtimes:
        """The SPU runtimes, opened at first use, by all parties at the same step."""
        self.begin()
        if self._runtimes is None:
            link = self.spu_link
            self._runtimes = Runtimes(link.spawn, lambda: link.failure)
        return self._runtimes

    def abort(self) -> None:
        """Leave after an error: the peers learn at once that nothing more comes."""
        self.close()

    def close(self) -> None:
        """Leave the session; the peers get all that was sent."""
        self._runtimes = None
        self.spu_link.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Let the links go, whoever else uses the session: its next wait fails."""
        self._close()


class LinkedSession(Session):
    """A session over links to processes elsewhere."""

    def __init__(self, party: Party, links: Links) -> None:
        super().__init__(party, links, close=links.close)
        self._links = links
        self._bare: Any = None

    def abort(self) -> None:
        """See Session."""
        self._links.abort()

    def bare_link(self) -> Any:
        """A link of SPU's own, to measure SPU by itself; all parties ask alike.

        Raises SetupError unless this party was started to have such links.
        """
        self._check_bare()
        self.begin()
        if self._bare is None:
            self._bare = open_bare_link(self._links.config)
        return self._bare.spawn()

    def bare_runtimes(self) -> Runtimes:
        """SPU straight on links of its own; see ``bare_link``."""
        self._check_bare()
        return Runtimes(self.bare_link, lambda: None)

    def _check_bare(self) -> None:
        config = self._links.config
        if not config.bare_links:
            raise SetupError(
                f"{config.names[config.rank]} was not started with bare_links, so SPU "
                f"gets no links of its own: they do not check the peers' names. To "
                f"measure SPU by itself, on data that is no secret, start all three "
                f"parties with bare_links=True."
            )


def open_session(config: LinkConfig) -> LinkedSession:
    """Connect to the peers and agree on keys."""
    links = Links(config)
    try:
        party = agree(links.channel(), session=config.session.encode())
    except BaseException:
        links.abort()
        links.close()
        raise
    return LinkedSession(party, links)


def open_memory_session(channel: Channel, mailbox: MemoryMailbox) -> Session:
    """A session of one of three threads of this process."""
    party = agree(channel, session=b"memory")

    def close() -> None:
        channel.close()
        mailbox.close()

    return Session(party, mailbox, close=close)
