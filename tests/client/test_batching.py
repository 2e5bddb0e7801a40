"""What several threads ask at the same time is run together, and each gets its own."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ditto.client.batching import Batcher, choose_size, run_in_batches
from ditto.client.running import RowAnswer
from ditto.client.tokens import Encoded
from ditto.errors import DeadlineError, PeerError

LEFT = 13
"""A text that leaves its range."""


@pytest.mark.parametrize(
    ("waiting", "sizes", "expected"),
    [
        (1, [1, 8], 1),
        (3, [1, 8], 1),
        (4, [1, 8], 8),  # half of it is real
        (5, [1, 8], 8),
        (8, [1, 8], 8),
        (20, [1, 8], 8),
        (3, [1, 2, 8], 2),
        (5, [1, 4, 16], 4),
        (1, [4], 4),  # there is no other
        (5, [1], 1),
    ],
)
def test_the_size_of_a_batch(waiting: int, sizes: list[int], expected: int) -> None:
    assert choose_size(waiting, sizes) == expected


class Parties:
    """Answer a text with its number; a run takes as long as it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.sizes: list[int] = []
        self.most_at_once = 0
        self._running = 0
        self._lock = threading.Lock()
        self.held = threading.Event()
        self.held.set()
        self.error: Exception | None = None

    def run(
        self, texts: Sequence[Encoded], size: int, until: float = 0.0
    ) -> list[RowAnswer]:
        numbers = [text.ids[0] for text in texts]
        with self._lock:
            self.batches.append(numbers)
            self.sizes.append(size)
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        self.held.wait(10)
        with self._lock:
            self._running -= 1
        if self.error is not None:
            raise self.error
        in_range = LEFT not in numbers
        return [RowAnswer(np.array([n], np.float32), in_range) for n in numbers]


def text(number: int) -> Encoded:
    return Encoded([number], [0])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


class Asking:
    """Threads that ask a batcher, each for one text or more."""

    def __init__(self, parties: Parties, sizes: list[int], lanes: int = 1) -> None:
        self.batcher = Batcher(lanes)
        self._parties, self._sizes = parties, sizes
        self._pool = ThreadPoolExecutor(32)

    def ask(self, *numbers: int, timeout: float = 10.0, shape: str = "a"):  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + timeout
        texts = [text(n) for n in numbers]
        return self._pool.submit(
            self.batcher.ask, shape, texts, self._sizes, deadline, self._parties.run
        )

    def waiting(self, shape: str = "a") -> int:
        queue = self.batcher._queues.get(shape)
        return len(queue.waiting) if queue else 0


def test_what_waits_during_a_run_is_run_together() -> None:
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 8])
    first = asking.ask(0)
    wait_until(lambda: parties.batches == [[0]])  # at once, and alone
    others = [asking.ask(n) for n in range(1, 8)]
    wait_until(lambda: asking.waiting() == 7)
    parties.held.set()
    for number, answers in enumerate([first, *others]):
        (answer,) = answers.result(10)
        assert answer.row == [number]
        assert answer.in_range
    assert parties.sizes == [1, 8]
    assert sorted(parties.batches[1]) == [1, 2, 3, 4, 5, 6, 7]
    assert parties.most_at_once == 1


def test_one_caller_with_many_texts_gets_them_in_order() -> None:
    parties = Parties()
    asking = Asking(parties, [1, 4])
    answers = asking.ask(*range(11)).result(10)
    assert [int(answer.row[0]) for answer in answers] == list(range(11))
    assert parties.sizes == [4, 4, 4]


def test_a_full_batch_does_not_wait_for_the_lane() -> None:
    """It waits at the parties instead; a third one waits here."""
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 2])
    asked = [asking.ask(*range(2)) for _ in range(3)]
    wait_until(lambda: len(parties.batches) == 2)
    time.sleep(0.05)
    assert parties.most_at_once == 2
    assert asking.waiting() == 2
    parties.held.set()
    for each in asked:
        each.result(10)


def test_other_shapes_are_other_runs() -> None:
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 8])
    asked = [asking.ask(1), asking.ask(2, shape="b")]
    wait_until(lambda: sorted(parties.batches) == [[1], [2]])
    parties.held.set()
    for each in asked:
        each.result(10)


def test_a_text_that_leaves_its_range_spoils_no_other() -> None:
    parties = Parties()
    asking = Asking(parties, [1, 4])
    answers = asking.ask(1, 2, LEFT, 4).result(10)
    assert [answer.in_range for answer in answers] == [True, True, False, True]
    assert [int(answer.row[0]) for answer in answers] == [1, 2, LEFT, 4]
    assert parties.batches == [[1, 2, LEFT, 4], [1], [2], [LEFT], [4]]
    assert parties.sizes == [4, 1, 1, 1, 1]


def test_so_it_is_without_threads() -> None:
    parties = Parties()
    texts = [text(n) for n in (1, 2, LEFT, 4, 5)]
    answers = run_in_batches(texts, [1, 4], parties.run)
    assert [answer.in_range for answer in answers] == [True, True, False, True, True]
    assert parties.batches == [[1, 2, LEFT, 4], [1], [2], [LEFT], [4], [5]]


def test_an_error_reaches_all_of_a_batch_and_nobody_else() -> None:
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 2])
    first = asking.ask(0)
    wait_until(lambda: parties.batches == [[0]])
    others = [asking.ask(n) for n in (1, 2)]
    wait_until(lambda: len(parties.batches) == 2)
    parties.error = PeerError("org-b is gone", peer="org-b")
    parties.held.set()
    for each in (first, *others):
        with pytest.raises(PeerError, match="org-b"):
            each.result(10)
    parties.error = None
    assert asking.ask(5).result(10)[0].row == [5]


def test_each_has_a_deadline_of_its_own() -> None:
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 2])
    running = asking.ask(0)
    wait_until(lambda: parties.batches == [[0]])
    hasty, patient = asking.ask(1, timeout=0.2), asking.ask(2, 3)
    with pytest.raises(DeadlineError):
        hasty.result(5)
    parties.held.set()
    assert [int(answer.row[0]) for answer in patient.result(10)] == [2, 3]
    running.result(10)


def test_who_waits_when_it_is_closed_is_told() -> None:
    parties = Parties()
    parties.held.clear()
    asking = Asking(parties, [1, 8])
    running = asking.ask(0)
    wait_until(lambda: parties.batches == [[0]])
    waiting = asking.ask(1)
    wait_until(lambda: asking.waiting() == 1)
    asking.batcher.close()
    with pytest.raises(PeerError, match="closed"):
        waiting.result(5)
    parties.held.set()
    running.result(10)
    with pytest.raises(PeerError, match="closed"):
        asking.ask(2).result(5)


def test_many_threads_for_a_while() -> None:
    """Each asks again as soon as it is answered."""
    parties = Parties()
    batcher, sizes = Batcher(), [1, 8]

    def slow(batch: Sequence[Encoded], size: int, until: float) -> list[RowAnswer]:
        time.sleep(0.02)
        return parties.run(batch, size, until)

    def work(thread: int) -> None:
        for k in range(20):
            number = 100 * thread + 100 + k
            deadline = time.monotonic() + 30
            (answer,) = batcher.ask("a", [text(number)], sizes, deadline, slow)
            assert answer.row == [number]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(parties.batches) < 100  # of 160 texts
    wait_until(lambda: not batcher._queues)  # the last run lingers
