"""Threads that ask questions at the same time."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import ditto
from benchmarks.questions import Question

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

    @property
    def ended(self) -> int:
        """Questions that have been answered or have failed."""
        return self.completed + self.failed


class Load:
    """So many threads ask questions in turn, until they are told to stop.

    Each thread asks by the next of the clients.
    """

    def __init__(
        self,
        clients: Sequence[ditto.Client],
        questions: Sequence[Question],
        timeout: float,
        *,
        threads: int | None = None,
        most: int | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._timeout = timeout
        numbers = itertools.count() if most is None else iter(range(most))
        self._next: Iterator[Question] = (
            questions[k % len(questions)] for k in numbers
        )
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(client,), daemon=True)
            for client, _ in zip(
                itertools.cycle(clients), range(threads or len(clients)), strict=False
            )
        ]

    def start(self) -> None:
        """Ask from now on."""
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int, seconds: float) -> None:
        """Until so many more questions are answered or have failed."""
        end, before = time.monotonic() + seconds, self.outcome.ended
        while self.outcome.ended < before + count and time.monotonic() < end:
            time.sleep(0.02)

    def finish(self) -> Outcome:
        """Ask no more, and wait for the answers that are due."""
        self._over.set()
        return self.wait()

    def wait(self) -> Outcome:
        """Until all questions have their answers."""
        for thread in self._threads:
            thread.join()
        return self.outcome

    def ask(self, client: ditto.Client, question: Question) -> float:
        """Seconds that one question takes; it is counted with the others."""
        started = time.monotonic()
        right, problem = False, ""
        try:
            right = question.ask(client, self._timeout)
        except Exception as error:  # whatever it is, the question has failed
            problem = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - started
        with self._lock:
            outcome = self.outcome
            outcome.hangs += seconds > self._timeout + LATE
            if problem:
                outcome.failed += 1
                outcome.errors[problem] += 1
            else:
                outcome.completed += 1
                outcome.wrong += not right
                outcome.seconds.append(seconds)
        return seconds

    def _work(self, client: ditto.Client) -> None:
        while not self._over.is_set():
            with self._lock:
                question = next(self._next, None)
            if question is None:
                return
            self.ask(client, question)
