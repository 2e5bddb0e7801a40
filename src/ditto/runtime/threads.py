"""Three parties as threads of this process, over memory."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ditto.fixedpoint import Array
from ditto.frames import Json
from ditto.protocols import memory_channels
from ditto.runtime.session import Session, open_memory_session
from ditto.runtime.spu.link import MemoryMailbox, Wires
from ditto.runtime.trio import (
    NAMES,
    Outcome,
    PartyFunction,
    Stub,
    Trio,
    raise_first,
    run_together,
)


class ThreadTrio(Trio):
    """Three threads over memory."""

    def __init__(self, *, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self.sessions: list[Session] = []
        self._storages: list[dict[str, object]] = []
        super().__init__()

    def _open(self) -> None:
        self._storages = [{}, {}, {}]
        self._connect()

    def _alive(self) -> bool:
        return True

    def _connect(self) -> None:
        for session in self.sessions:
            session.hang_up() if self.interrupted else session.close()
        channels = memory_channels(timeout=self._timeout, names=NAMES)
        wires = Wires(NAMES)
        sessions = raise_first(
            run_together(
                [
                    partial(
                        open_memory_session,
                        channel,
                        MemoryMailbox(channel.rank, wires, self._timeout),
                    )
                    for channel in channels
                ]
            )
        )
        for session, storage in zip(sessions, self._storages, strict=True):
            session.storage = storage
        self.sessions = sessions

    @property
    def _stubs(self) -> Sequence[Stub]:
        return [_ThreadStub(session) for session in self.sessions]

    def _stop(self) -> None:
        for session in self.sessions:  # a thread closes its own when it notices
            session.hang_up()

    def close(self) -> None:
        """See Trio."""
        if not self.interrupted:  # else their threads may still be in them
            for session in self.sessions:
                session.close()
        self.interrupted = False


class _ThreadStub(Stub):
    """A party that runs in the thread which calls it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def call(
        self,
        function: PartyFunction,
        parameters: Json,
        arrays: Mapping[str, Array],
        on_begin: Callable[[], None],
        on_progress: Callable[[Json], None],
    ) -> tuple[Outcome, bool]:
        """See Stub. Who fails leaves, so that the others need not wait for it."""
        session = self._session
        session.begun = False
        session.on_begin, session.report = on_begin, on_progress
        try:
            return function(session, parameters, dict(arrays)), False
        except Exception as error:
            if session.begun:
                session.abort()
            return error, not session.begun
        finally:  # whoever was told how far it is need not live as long as the parties
            session.on_begin, session.report = lambda: None, lambda _: None

    def leave(self) -> None:
        """See Stub."""
        self._session.abort()
