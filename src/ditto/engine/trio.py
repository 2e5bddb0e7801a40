"""Three parties on this machine, for local runs, benchmarks and tests.

``ThreadTrio`` runs them as threads over memory, ``ProcessTrio`` as three processes
over TLS links. Both call the same function at all three parties:

    function(session, parameters, arrays) -> (result, arrays)

with JSON parameters and numpy arrays, different ones for each party if need be.

If all three refuse a call before they have sent or awaited anything, the parties go on
as if it had not been made. Any other error ends their session.

A call that is interrupted, by Ctrl-C for instance, ends the parties at once; the next
call starts them anew, and what they kept is gone.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import ditto.errors
from ditto.engine.certificates import make_local_certificates
from ditto.engine.config import LinkConfig, PartyAddress
from ditto.engine.frames import Arrays, Json, read_frame, write_frame
from ditto.engine.session import Session, open_memory_session
from ditto.engine.spu_link import MemoryMailbox, Wires
from ditto.errors import DittoError, PeerError, SetupError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols import memory_channels
from ditto.sharing import RANKS, Shared

Reply = tuple[Json, Arrays]
PartyFunction = Callable[[Session, Json, Arrays], Reply]
Outcome = Reply | BaseException
OnOutcome = Callable[[int, Outcome], None]
OnProgress = Callable[[int, Json], None]

NAMES = ("alice", "bob", "carol")
WORKER = "ditto.engine.worker"
UNGUARDED = (
    "The process of a party imported a script to find the function that it is to "
    "call, and the script began to run there as a program. Put the part of it that "
    'starts parties under `if __name__ == "__main__":`.'
)


def as_arrays(shares: Sequence[Shared]) -> dict[str, Words]:
    """One party's operands, as a trio hands them over."""
    firsts = {f"first{i}": x.first for i, x in enumerate(shares)}
    return firsts | {f"second{i}": x.second for i, x in enumerate(shares)}


def from_arrays(arrays: Arrays, types: Sequence[FxpType]) -> list[Shared]:
    """The inverse of ``as_arrays``, at the party."""
    return [
        Shared(arrays[f"first{i}"], arrays[f"second{i}"], kind)
        for i, kind in enumerate(types)
    ]


class Trio(ABC):
    """Three parties that answer calls together."""

    def __init__(self) -> None:
        self.starts = 0
        """How often they were started: what they keep lasts until the next start."""
        self.interrupted = False
        """Whether they were ended in the middle, to be started by the next call."""
        self._start()

    def restart(self) -> None:
        """Start the parties anew if they were interrupted."""
        if self.interrupted:
            self._stop()  # if it was interrupted too
            self._start()
            self.interrupted = False

    def interrupt(self) -> None:
        """End the parties at once, whatever they do."""
        self.interrupted = True
        self._stop()

    def _start(self) -> None:
        self._open()
        self.starts += 1

    @abstractmethod
    def _open(self) -> None:
        """Start three parties."""

    @abstractmethod
    def _stop(self) -> None:
        """End them in the middle; once more does no harm."""

    def _together(
        self, jobs: Sequence[Callable[[], Any]], on_outcome: OnOutcome | None = None
    ) -> list[Any]:
        """What the jobs give, each in a thread; whoever stops waiting ends all."""
        try:
            return _together(jobs, on_outcome)
        except BaseException:
            self.interrupt()
            raise

    @abstractmethod
    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """Call the function at all parties; what each answered, or its error.

        ``on_outcome(rank, outcome)`` is told each as soon as it is there, and
        ``on_progress(rank, said)`` what a party reports on the way.
        """

    def call(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Reply]:
        """As ``outcomes``; raises the first error."""
        outcomes = self.outcomes(function, parameters, arrays, on_progress=on_progress)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return cast(list[Reply], outcomes)

    @abstractmethod
    def close(self) -> None:
        """End the parties."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()


class ThreadTrio(Trio):
    """Three threads over memory."""

    def __init__(self, *, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self.sessions: list[Session] = []
        super().__init__()

    def _open(self) -> None:
        channels = memory_channels(timeout=self._timeout, names=NAMES)
        wires = Wires(NAMES)
        sessions = _together(
            [
                partial(
                    open_memory_session,
                    channel,
                    MemoryMailbox(channel.rank, wires, self._timeout),
                )
                for channel in channels
            ]
        )
        for session in sessions:
            if isinstance(session, BaseException):
                raise session
        self.sessions = sessions

    def _stop(self) -> None:
        for session in self.sessions:  # a thread closes its own when it notices
            session.hang_up()

    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """See Trio."""
        self.restart()
        sessions = self.sessions
        for rank, session in enumerate(sessions):
            session.report = partial(on_progress or _ignore, rank)
        inputs = zip(sessions, _each(parameters), arrays or [{}] * 3, strict=True)
        refusals = _Refusals(lambda rank: sessions[rank].abort())
        return self._together(
            [
                partial(_attempt, refusals, function, session, given, dict(array))
                for session, given, array in inputs
            ],
            on_outcome,
        )

    def close(self) -> None:
        """See Trio."""
        if not self.interrupted:  # else their threads may still be in them
            for session in self.sessions:
                session.close()
        self.interrupted = False


class ProcessTrio(Trio):
    """Three processes over TLS links.

    They listen at ``hosts``, on loopback by default. ``prefixes`` stand before each
    process's command, to start it elsewhere on this machine, such as in a network
    namespace. ``bare_links`` lets SPU have links of its own, to be measured by itself.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        hosts: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = ((), (), ()),
        bare_links: bool = False,
    ) -> None:
        _check_not_in_a_party()
        self._timeout, self._hosts, self._prefixes = timeout, hosts, prefixes
        self._bare_links = bare_links
        super().__init__()

    def _open(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ditto-trio-")
        addresses = tuple(
            PartyAddress(name=name, host=host)
            for name, host in zip(NAMES, self._hosts or free_hosts(), strict=True)
        )
        folder = Path(self._folder.name)
        files = make_local_certificates(folder, NAMES)
        session = uuid.uuid4().hex
        self.configs = [
            LinkConfig(
                rank=rank,
                parties=cast(Any, addresses),
                session=session,
                timeout=self._timeout,
                tls=files[rank],
                bare_links=self._bare_links,
            )
            for rank in RANKS
        ]
        self.processes = [
            _process(prefix) for _, prefix in zip(RANKS, self._prefixes, strict=True)
        ]
        path = [entry for entry in sys.path if entry]
        openings = [
            {"link": config.model_dump(mode="json"), "path": path}
            for config in self.configs
        ]
        try:
            for outcome in self._ask(openings, [{}] * 3):
                if isinstance(outcome, BaseException):
                    raise outcome
        except BaseException:
            self._end()
            raise

    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """See Trio. The function must be importable by name."""
        self.restart()
        path = f"{_importable(function)}:{function.__qualname__}"
        bodies = [{"call": path, "parameters": p} for p in _each(parameters)]
        return self._ask(bodies, arrays or [{}] * 3, on_outcome, on_progress)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.interrupt()
        self.close()

    def close(self) -> None:
        """See Trio."""
        if self.interrupted:
            self._stop()
        else:
            self._ask([{"close": True}] * 3, [{}] * 3)
            self._end()
        self.interrupted = False

    def _stop(self) -> None:
        for process in self.processes:
            process.kill()
        self._end()

    def _end(self) -> None:
        for process in self.processes:
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def _ask(
        self,
        bodies: Sequence[Json],
        arrays: Sequence[Mapping[str, Any]],
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        processes = self.processes

        def tell_to_leave(rank: int) -> None:
            with contextlib.suppress(BrokenPipeError):  # it has ended
                write_frame(cast(Any, processes[rank].stdin), {"leave": True}, {})

        refusals = _Refusals(tell_to_leave)

        def ask(rank: int) -> Outcome:
            process, refused = processes[rank], True
            try:
                write_frame(cast(Any, process.stdin), bodies[rank], arrays[rank])
                refused = False
                while frame := read_frame(cast(Any, process.stdout)):
                    if "begun" in frame[0]:
                        refusals.note(rank, refused=False)
                    elif "progress" not in frame[0]:
                        break
                    elif on_progress is not None:
                        with contextlib.suppress(Exception):  # the answer is still due
                            on_progress(rank, frame[0]["progress"])
                refused = frame is not None and frame[0].get("refused", False)
            except BrokenPipeError:
                frame, refused = None, False
            finally:
                refusals.note(rank, refused=refused)
            if frame is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                return PeerError(
                    f"The process of {NAMES[rank]} has ended (code {process.poll()}).",
                    peer=NAMES[rank],
                )
            body, results = frame
            if "error" in body:
                return _rebuild(body["error"])
            return body.get("result", {}), results

        return self._together([partial(ask, rank) for rank in range(3)], on_outcome)


def _process(prefix: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A party's process. Ctrl-C at a terminal reaches it too, but is ours to heed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603  (the prefix is our caller's)
            [*prefix, sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ignore(_: int, __: Json) -> None:
    """Nobody asked how far it is."""


def _together(
    jobs: Sequence[Callable[[], Any]], on_outcome: OnOutcome | None = None
) -> list[Any]:
    results: list[Any] = [None] * len(jobs)

    def work(index: int) -> None:
        try:
            results[index] = jobs[index]()
        except Exception as error:
            results[index] = error
        if on_outcome:
            on_outcome(index, results[index])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class _Refusals:
    """Who has refused a call before it had begun there.

    If all three do, nothing has happened. As soon as one has begun or answered, those
    who refused must leave, so that nobody waits for them.
    """

    def __init__(self, leave: Callable[[int], None]) -> None:
        self._leave = leave
        self._refused: set[int] = set()
        self._goes_on = False
        self._lock = threading.Lock()

    def note(self, rank: int, *, refused: bool) -> None:
        """A party has refused the call, or it has begun, answered or failed."""
        with self._lock:
            if refused:
                self._refused.add(rank)
            else:
                self._goes_on = True
            while self._goes_on and self._refused:
                self._leave(self._refused.pop())


def _attempt(
    refusals: _Refusals,
    function: PartyFunction,
    session: Session,
    parameters: Json,
    arrays: Arrays,
) -> Reply:
    """A thread that fails leaves, so that the others need not wait for it."""
    rank = int(session.party.rank)
    session.begun = False
    session.on_begin = partial(refusals.note, rank, refused=False)
    refused = False
    try:
        return function(session, parameters, arrays)
    except Exception:
        refused = not session.begun
        if not refused:
            session.abort()
        raise
    finally:
        refusals.note(rank, refused=refused)


def _check_not_in_a_party() -> None:
    """A party that imports a script must not start parties that import it again."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == WORKER:
        raise SetupError(UNGUARDED)


def _importable(function: PartyFunction) -> str:
    """The module of a function, also when it stands in the script being run."""
    module = function.__module__
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m package.module
        return main.__spec__.name
    script = getattr(main, "__file__", None)
    if script is None or not Path(script).is_file():  # a notebook, or "<stdin>"
        raise SetupError(
            f"{function.__qualname__} is defined interactively; the parties' processes "
            f"cannot import it. Put it into a module or a script."
        )
    return Path(script).stem


def _each(parameters: Json | Sequence[Json] | None) -> Sequence[Json]:
    if parameters is None:
        return [{}] * 3
    if isinstance(parameters, dict):
        return [parameters] * 3
    return parameters


def _rebuild(described: Json) -> DittoError:
    kind = getattr(ditto.errors, described["type"], DittoError)
    error: DittoError = kind.__new__(kind)
    error.args = (described["message"],)
    vars(error).update(described["details"])
    return error


def free_hosts() -> list[str]:
    """Three addresses on loopback at which nobody listens."""
    sockets = [socket.socket() for _ in RANKS]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    finally:
        for s in sockets:
            s.close()
