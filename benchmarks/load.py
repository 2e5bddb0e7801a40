"""Clients that ask at the same time, each with an identity of its own."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import ditto
from benchmarks.deployment import LocalParties, Question
from ditto.errors import DittoError

LATE = 5.0
"""Seconds beyond its deadline after which a question is held to hang."""


@dataclass
class Outcome:
    """What became of the questions."""

    completed: int = 0
    failed: int = 0
    wrong: int = 0
    hangs: int = 0
    seconds: list[float] = field(default_factory=list)
    """That each answer took."""
    errors: Counter[str] = field(default_factory=Counter)


class Load:
    """So many clients ask questions in turn, until they are told to stop."""

    def __init__(
        self,
        parties: LocalParties,
        questions: Sequence[Question],
        clients: int,
        timeout: float,
        most: int | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._first = questions[0]
        self._parties, self._timeout = parties, timeout
        numbers: Iterable[int] = itertools.count() if most is None else range(most)
        self._next: Iterator[Question] = (
            questions[k % len(questions)] for k in numbers
        )
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(k,), daemon=True)
            for k in range(clients)
        ]

    def start(self) -> None:
        """Ask from now on."""
        for thread in self._threads:
            thread.start()

    def probe(self, timeout: float) -> float:
        """Seconds that one more question takes, asked now by somebody else."""
        credentials = self._parties.member("client", "probe")
        started = time.monotonic()
        with ditto.Client(self._parties.deployment, credentials) as client:
            self._ask(client, self._first, timeout)
        return time.monotonic() - started

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()

    def wait(self) -> None:
        """Until all have their answers."""
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        credentials = self._parties.member("client", f"c{number}")
        with ditto.Client(self._parties.deployment, credentials) as client:
            while not self._over.is_set():
                with self._lock:
                    question = next(self._next, None)
                if question is None:
                    return
                self._ask(client, question, self._timeout)

    def _ask(self, client: "ditto.Client", question: Question, timeout: float) -> None:
        started = time.monotonic()
        right, error = False, None
        try:
            right = question.ask(client, timeout)
        except DittoError as caught:
            error = caught
        ended = time.monotonic()
        with self._lock:
            outcome = self.outcome
            outcome.hangs += ended - started > timeout + LATE
            if error is not None:
                outcome.failed += 1
                outcome.errors[error.code] += 1
                return
            outcome.completed += 1
            outcome.wrong += not right
            outcome.seconds.append(ended - started)
