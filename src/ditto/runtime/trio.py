"""Three parties on this machine, for local runs, benchmarks and tests.

``ThreadTrio`` runs them as threads over memory, ``ProcessTrio`` as three processes
over TLS links. Both call the same function at all three parties:

    function(session, parameters, arrays) -> (result, arrays)

with JSON parameters and numpy arrays, different ones for each party if need be.

If all three refuse a call before they have sent or awaited anything, the parties go on
as if it had not been made. Any other error ends their session; ``reconnect`` gives
them another, and what they keep stays.

A call that is interrupted, by Ctrl-C for instance, ends the parties at once; the next
call starts them anew, and what they kept is gone.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar, cast

from ditto.errors import PeerError
from ditto.fixedpoint import Array, FxpType, Words
from ditto.frames import Arrays, Json
from ditto.runtime.session import Session
from ditto.sharing import Shared

Reply = tuple[Json, Arrays]
PartyFunction = Callable[[Session, Json, Arrays], Reply]
Outcome = Reply | BaseException
OnOutcome = Callable[[int, Outcome], None]
OnProgress = Callable[[int, Json], None]
Result = TypeVar("Result")

NAMES = ("alice", "bob", "carol")


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


class Stub(ABC):
    """What a trio has of one party."""

    @abstractmethod
    def call(
        self,
        function: PartyFunction,
        parameters: Json,
        arrays: Mapping[str, Array],
        on_begin: Callable[[], None],
        on_progress: Callable[[Json], None],
    ) -> tuple[Outcome, bool]:
        """What the party answered or its error, and whether it refused the call.

        ``on_begin`` is called when the party takes a step with the others.
        """

    @abstractmethod
    def leave(self) -> None:
        """Have the party leave the session: others went on with what it refused."""


class Trio(ABC):
    """Three parties that answer calls together. One call at a time."""

    def __init__(self) -> None:
        self.starts = 0
        """How often they were started: what they keep lasts until the next start."""
        self.interrupted = False
        """Whether they were ended in the middle, to be started by the next call."""
        self.failed = False
        """Whether a call has failed at some party, so that their session is over."""
        self._lock = threading.RLock()
        self._start()

    def restart(self) -> None:
        """Start the parties anew if they were interrupted."""
        if self.interrupted:
            self._stop()  # if it was interrupted too
            self._start()
            self.interrupted = False

    def reconnect(self) -> None:
        """Open another session between the parties; what they keep stays.

        If one of them is gone, all are started anew.
        """
        with self._lock:
            if self.interrupted or not self._alive():
                self.interrupt()
                self.restart()
            else:
                self._connect()
                self.failed = False

    def interrupt(self) -> None:
        """End the parties at once, whatever they do."""
        self.interrupted = True
        self._stop()

    def _start(self) -> None:
        self._open()
        self.starts += 1
        self.failed = False

    @abstractmethod
    def _open(self) -> None:
        """Start three parties and connect them."""

    @abstractmethod
    def _alive(self) -> bool:
        """Whether all three are there."""

    @abstractmethod
    def _connect(self) -> None:
        """Open a session between parties that are there, in place of the last one."""

    @abstractmethod
    def _stop(self) -> None:
        """End them in the middle; once more does no harm."""

    @property
    @abstractmethod
    def _stubs(self) -> Sequence[Stub]:
        """The parties by rank."""

    def _together(
        self,
        jobs: Sequence[Callable[[], Result]],
        on_outcome: Callable[[int, Result | Exception], None] | None = None,
    ) -> list[Result | Exception]:
        """What the jobs give, each in a thread; whoever stops waiting ends all."""
        try:
            return run_together(jobs, on_outcome)
        except BaseException:
            self.interrupt()
            raise

    def outcomes(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Array]] | None = None,
        on_outcome: OnOutcome | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Outcome]:
        """Call the function at all parties; what each answered, or its error.

        ``on_outcome(rank, outcome)`` is called as soon as a party has answered, and
        ``on_progress(rank, progress)`` with what a party reports on the way. Parties
        that are processes must be able to import the function by its name.
        """
        with self._lock:
            self.restart()
            stubs, each = self._stubs, _each(parameters)
            refusals = _Refusals(lambda rank: stubs[rank].leave())

            def ask(rank: int) -> Outcome:
                refused = True
                try:
                    outcome, refused = stubs[rank].call(
                        function,
                        each[rank],
                        arrays[rank] if arrays else {},
                        partial(refusals.note, rank, refused=False),
                        partial(on_progress or _ignore, rank),
                    )
                    return outcome
                finally:
                    refusals.note(rank, refused=refused)

            jobs = [partial(ask, rank) for rank in range(3)]
            outcomes = cast(list[Outcome], self._together(jobs, on_outcome))
            errors = [o for o in outcomes if isinstance(o, BaseException)]
            self.failed = self.failed or (bool(errors) and not refusals.unanimous)
            return outcomes

    def call(
        self,
        function: PartyFunction,
        parameters: Json | Sequence[Json] | None = None,
        arrays: Sequence[Mapping[str, Array]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Reply]:
        """As ``outcomes``; raises the error that made the others fail, if there is one.

        Who only reports that a peer failed is not its cause.
        """
        outcomes = self.outcomes(function, parameters, arrays, on_progress=on_progress)
        errors = [o for o in outcomes if isinstance(o, BaseException)]
        causes = [error for error in errors if not isinstance(error, PeerError)]
        for error in causes or errors:
            raise error
        return cast(list[Reply], outcomes)

    @abstractmethod
    def close(self) -> None:
        """End the parties."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()


def run_together(
    jobs: Sequence[Callable[[], Result]],
    on_outcome: Callable[[int, Result | Exception], None] | None = None,
) -> list[Result | Exception]:
    """What the jobs give or raise, each in a thread."""
    results: dict[int, Result | Exception] = {}

    def work(index: int) -> None:
        try:
            results[index] = jobs[index]()
        except Exception as error:
            results[index] = error
        if on_outcome:
            on_outcome(index, results[index])

    threads = [
        threading.Thread(target=work, args=(i,), name=f"ditto-{i}")
        for i in range(len(jobs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[index] for index in range(len(jobs))]


def raise_first(outcomes: Sequence[Result | Exception]) -> list[Result]:
    """The results, if none is an error."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return cast(list[Result], outcomes)


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

    @property
    def unanimous(self) -> bool:
        """Whether nobody has begun or answered."""
        return not self._goes_on

    def note(self, rank: int, *, refused: bool) -> None:
        """A party has refused the call, or it has begun, answered or failed."""
        with self._lock:
            if refused:
                self._refused.add(rank)
            else:
                self._goes_on = True
            while self._goes_on and self._refused:
                self._leave(self._refused.pop())


def _ignore(_: int, __: Json) -> None:
    """Nobody asked how far it is."""


def _each(parameters: Json | Sequence[Json] | None) -> Sequence[Json]:
    if parameters is None:
        return [{}] * 3
    if isinstance(parameters, dict):
        return [parameters] * 3
    return parameters
