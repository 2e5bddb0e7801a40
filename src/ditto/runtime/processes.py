"""Three parties as processes of this machine, over TLS links."""

import contextlib
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import ditto.errors
from ditto.errors import DittoError, PeerError, SetupError
from ditto.fixedpoint import Array
from ditto.frames import Arrays, Json, read_frame, write_frame
from ditto.launch import (
    NO_PREFIXES,
    Launched,
    Prefixes,
    Process,
    end_processes,
    kill_processes,
)
from ditto.runtime.certificates import key_folder, make_local_certificates
from ditto.runtime.config import LinkConfig, PartyAddress
from ditto.runtime.trio import NAMES, Outcome, PartyFunction, Stub, Trio, raise_first
from ditto.sharing import RANKS, Rank


class ProcessTrio(Trio):
    """Three processes over TLS links.

    They listen at ``hosts``, on loopback by default. ``prefixes`` stand before each
    process's command, to start it elsewhere on this machine, such as in a network
    namespace. ``launched`` are processes that were started before, and ``compiled`` a
    folder in which they keep what JAX compiles.

    The processes end with this object, if not before.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        hosts: Sequence[str] = (),
        prefixes: Prefixes = NO_PREFIXES,
        launched: Launched | None = None,
        compiled: Path | None = None,
    ) -> None:
        self._timeout, self._hosts, self._prefixes = timeout, hosts, prefixes
        self._compiled = compiled
        self._launched = launched
        self.configs: list[LinkConfig] = []
        super().__init__()

    def _open(self) -> None:
        if self._launched is None or self.starts:
            self._launched = Launched(self._prefixes, self._compiled)
        try:
            self._connect()
        except BaseException:
            self._stop()
            raise

    @property
    def processes(self) -> list[Process]:
        """Of the parties, by rank."""
        return [] if self._launched is None else self._launched.processes

    def _alive(self) -> bool:
        return all(process.poll() is None for process in self.processes)

    def _connect(self) -> None:
        """New certificates each time: the keys are gone from the disk once in use."""
        hosts = self._hosts or free_hosts()
        session = uuid.uuid4().hex
        path = [entry for entry in sys.path if entry]
        with key_folder() as folder:
            certificates = make_local_certificates(folder, NAMES)
            p0, p1, p2 = (
                PartyAddress(
                    name=name, host=host, identity=c.identity, authority=c.authority
                )
                for name, host, c in zip(NAMES, hosts, certificates, strict=True)
            )
            self.configs = [
                LinkConfig(
                    rank=rank,
                    parties=(p0, p1, p2),
                    session=session,
                    timeout=self._timeout,
                    tls=certificates[rank].tls,
                )
                for rank in RANKS
            ]
            opening = [
                partial(
                    stub.ask,
                    {"link": config.model_dump(mode="json"), "path": path},
                )
                for stub, config in zip(self._stubs, self.configs, strict=True)
            ]
            raise_first(self._together(opening))

    @property
    def _stubs(self) -> "Sequence[_ProcessStub]":
        return [
            _ProcessStub(rank, process)
            for rank, process in zip(RANKS, self.processes, strict=True)
        ]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.interrupt()
        self.close()

    def close(self) -> None:
        """See Trio."""
        with self._lock:
            if self.interrupted:
                self._stop()
            else:
                self._together(
                    [partial(stub.ask, {"close": True}) for stub in self._stubs]
                )
                end_processes(self.processes)
            self.interrupted = False

    def _stop(self) -> None:
        kill_processes(self.processes)


class _ProcessStub(Stub):
    """A party in a process of its own, reached over its pipes."""

    def __init__(self, rank: Rank, process: Process) -> None:
        self._name = NAMES[rank]
        self._process = process

    @property
    def _requests(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdin)

    @property
    def _replies(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdout)

    def call(
        self,
        function: PartyFunction,
        parameters: Json,
        arrays: Mapping[str, Array],
        on_begin: Callable[[], None],
        on_progress: Callable[[Json], None],
    ) -> tuple[Outcome, bool]:
        """See Stub."""
        path = f"{_importable(function)}:{function.__qualname__}"
        body = {"call": path, "parameters": parameters}
        frame = self._exchange(body, arrays, on_begin, on_progress)
        if frame is None:
            return self._ended(), False
        reply, results = frame
        if "error" in reply:
            return _rebuild(reply["error"]), reply.get("refused", False)
        return (reply["result"], results), False

    def ask(self, body: Json) -> Json:
        """Have the party do something that is no call."""
        frame = self._exchange(body, {}, lambda: None, lambda _: None)
        if frame is None:
            raise self._ended()
        if "error" in frame[0]:
            raise _rebuild(frame[0]["error"])
        return frame[0]

    def leave(self) -> None:
        """See Stub."""
        with contextlib.suppress(BrokenPipeError):  # it has ended
            write_frame(self._requests, {"leave": True}, {})

    def _exchange(
        self,
        body: Json,
        arrays: Mapping[str, Array],
        on_begin: Callable[[], None],
        on_progress: Callable[[Json], None],
    ) -> tuple[Json, Arrays] | None:
        try:
            write_frame(self._requests, body, arrays)
            while frame := read_frame(self._replies):
                if "begun" in frame[0]:
                    on_begin()
                elif "progress" not in frame[0]:
                    return frame
                else:
                    with contextlib.suppress(Exception):  # the answer is still due
                        on_progress(frame[0]["progress"])
        except BrokenPipeError:
            pass
        return None

    def _ended(self) -> PeerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        return PeerError(
            f"The process of {self._name} has ended (code {code}).", peer=self._name
        )


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
