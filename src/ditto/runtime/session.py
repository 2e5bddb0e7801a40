"""A party ready to compute: protocols on its channel, regions on its SPU runtimes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ditto.files import Json
from ditto.protocols import Channel, Party, agree
from ditto.runtime.config import LinkConfig
from ditto.runtime.links import Compartment, Links
from ditto.runtime.spu.link import Mailbox, MemoryMailbox, SpuLink
from ditto.runtime.spu.runtimes import Runtimes


class Session:
    """One party's end of one session. All three parties take the same steps in it."""

    def __init__(
        self, party: Party, mailbox: Mailbox, *, close: Callable[[], None]
    ) -> None:
        self.party = party
        self.mailbox = mailbox
        """Carries what belongs to no step of a protocol, and is not counted."""
        self.spu_link = SpuLink(mailbox, party.rank)
        """Counts what SPU sends, beside ``party.channel`` for the protocols."""
        self.storage: dict[str, object] = {}
        """What functions that run at this party keep between calls."""
        self.report: Callable[[Json], None] = lambda _: None
        """Tells whoever called how far the call has come."""
        self.begun = False
        """Whether the call has taken a step that the parties take together."""
        self.on_begin: Callable[[], None] = lambda: None
        """Tells whoever called that it has."""
        party.channel.on_use = self.begin
        self.runs = 0
        """How many runs of plans this party has begun in the session."""
        self._close = close
        self._runtimes: Runtimes | None = None
        self._replaced: Runtimes | None = None

    def begin(self) -> None:
        """From here on the call succeeds, or an error in it ends the session.

        A call that all parties refuse before leaves everything as it was.
        """
        if not self.begun:
            self.begun = True
            self.on_begin()

    @contextmanager
    def run(self, context: bytes) -> Iterator[None]:
        """Inside, ``party`` has masks for one run, bound to its context.

        The regions of SPU have seeds of SPU's own, which are not.
        """
        party = self.party
        self.runs += 1
        self.party = party.for_run(context)
        try:
            yield
        finally:
            self.party = party

    @property
    def runtimes(self) -> Runtimes:
        """The SPU runtimes, opened at first use, by all parties at the same step."""
        self.begin()
        if self._replaced is not None:
            return self._replaced
        if self._runtimes is None:
            link = self.spu_link
            self._runtimes = Runtimes(link.spawn, lambda: link.failure)
        return self._runtimes

    def replace_runtimes(self, runtimes: Runtimes | None) -> None:
        """Run regions elsewhere from now on, or with None on the session's own again.

        For who measures SPU: all parties replace them alike.
        """
        self._replaced = runtimes

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
    """A session over links to processes elsewhere, which others may share."""

    def __init__(self, party: Party, mail: Compartment, links: Links) -> None:
        super().__init__(party, mail, close=links.close)
        self._links = links

    def abort(self) -> None:
        """See Session."""
        self._links.abort()


def open_session(config: LinkConfig) -> LinkedSession:
    """Connect to the peers and agree on keys."""
    (session,) = open_sessions(config, 1)
    return session


def open_sessions(config: LinkConfig, count: int) -> list[LinkedSession]:
    """Several sessions over the same links, each with keys of its own.

    Each may be used by a thread of its own. They end together: with one of them, the
    links are closed or aborted for all.
    """
    links = Links(config)
    try:
        return [_over(links, f"session {k}") for k in range(count)]
    except BaseException:
        links.abort()
        links.close()
        raise


def _over(links: Links, name: str) -> LinkedSession:
    mail = links.compartment(name)
    party = agree(mail.channel(), session=f"{links.config.session}/{name}".encode())
    return LinkedSession(party, mail, links)


def open_memory_session(channel: Channel, mailbox: MemoryMailbox) -> Session:
    """A session of one of three threads of this process."""
    party = agree(channel, session=b"memory")

    def close() -> None:
        channel.close()
        mailbox.close()

    return Session(party, mailbox, close=close)
