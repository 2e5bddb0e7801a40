"""Three parties on this machine, for local runs, benchmarks and tests.

``ThreadTrio`` runs them as threads over memory, ``ProcessTrio`` as three processes
over TLS links. Both call the same function at all three parties:

    function(session, parameters, arrays) -> (result, arrays)

with JSON parameters and numpy arrays, different ones for each party if need be.

If all three refuse a call before they have sent or awaited anything, the parties go on
as if it had not been made. Any other error ends their session.
"""

import contextlib
import os
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
        channels = memory_channels(timeout=timeout, names=NAMES)
        wires = Wires(NAMES)
        self.sessions = _together(
            [
                partial(
                    open_memory_session,
                    channel,
                    MemoryMailbox(channel.rank, wires, timeout),
                )
                for channel in channels
            ]
        )
        for session in self.sessions:
            if isinstance(session, BaseException):
                raise session

    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """See Trio."""
        for rank, session in enumerate(self.sessions):
            session.report = partial(on_progress or _ignore, rank)
        inputs = zip(self.sessions, _each(parameters), arrays or [{}] * 3, strict=True)
        refusals = _Refusals(lambda rank: self.sessions[rank].abort())
        return _together(
            [
                partial(_attempt, refusals, function, session, given, dict(array))
                for session, given, array in inputs
            ],
            on_outcome,
        )

    def close(self) -> None:
        """See Trio."""
        for session in self.sessions:
            session.close()


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
        self._folder = tempfile.TemporaryDirectory(prefix="ditto-trio-")
        addresses = tuple(
            PartyAddress(name=name, host=host)
            for name, host in zip(NAMES, hosts or free_hosts(), strict=True)
        )
        folder = Path(self._folder.name)
        files = make_local_certificates(folder, NAMES)
        session = uuid.uuid4().hex
        self.configs = [
            LinkConfig(
                rank=rank,
                parties=cast(Any, addresses),
                session=session,
                timeout=timeout,
                tls=files[rank],
                bare_links=bare_links,
            )
            for rank in RANKS
        ]
        self.processes = [
            self._start(prefix) for _, prefix in zip(RANKS, prefixes, strict=True)
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

    @staticmethod
    def _start(prefix: Sequence[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603  (the prefix is our caller's)
            [*prefix, sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Any]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """See Trio. The function must be importable by name."""
        path = f"{_importable(function)}:{function.__qualname__}"
        bodies = [{"call": path, "parameters": p} for p in _each(parameters)]
        return self._ask(bodies, arrays or [{}] * 3, on_outcome, on_progress)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            for process in self.processes:  # interrupted: they may be in a long call
                process.kill()
        self.close()

    def close(self) -> None:
        """See Trio."""
        self._ask([{"close": True}] * 3, [{}] * 3)
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
        refusals = _Refusals(self._tell_to_leave)

        def ask(rank: int) -> Outcome:
            process, refused = self.processes[rank], True
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

        return _together([partial(ask, rank) for rank in range(3)], on_outcome)

    def _tell_to_leave(self, rank: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended
            write_frame(cast(Any, self.processes[rank].stdin), {"leave": True}, {})


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
