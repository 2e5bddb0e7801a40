"""Texts that several threads ask about at the same time are run as one batch.

The rounds of a plan take as long for eight texts as for one. So texts of the same model
and shape that wait while a run is under way are run together, if the owner has offered
a plan of such a size. Nothing waits when nothing runs. It is done here and not at the
parties: they tell whoever asked one bit about all values of a run, and a batch of
several clients would tell each of them about the others' texts.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ditto.client.running import RowAnswer
from ditto.errors import DeadlineError, PeerError

if TYPE_CHECKING:
    from ditto.client.tokens import Encoded

LINGER_SECONDS = 0.005
"""After a run whose texts were not alone: time for who got an answer to ask again.
Without it, one text that came during the run would go alone before the others."""
_GRACE = 0.5
"""Seconds in which a run may still say why it was not answered in time."""
_THREADS = 64

RunBatch = Callable[["Sequence[Encoded]", int, float], list[RowAnswer]]
"""Runs texts by the plan for so many, until a deadline."""


def choose_size(waiting: int, sizes: Sequence[int]) -> int:
    """The batch size for so many texts: of ``sizes``, which ascend.

    The smallest that takes all of them, if they fill at least half of it; the rest is
    filled with repeats. Repeats cost bytes and save the rounds of further runs; half
    full, a batch moves at most twice the bytes. Else the largest that they fill.
    """
    enough = next((size for size in sizes if size >= waiting), None)
    if enough is not None and 2 * waiting >= enough:
        return enough
    return max((size for size in sizes if size <= waiting), default=sizes[0])


def run_in_batches(
    texts: "Sequence[Encoded]",
    sizes: Sequence[int],
    run: "Callable[[Sequence[Encoded], int], list[RowAnswer]]",
) -> list[RowAnswer]:
    """Answers to texts of one caller, one run after the other.

    If a value of a batch leaves its range, its texts are run again one by one.
    """
    answers: list[RowAnswer] = []
    while len(answers) < len(texts):
        left = texts[len(answers) :]
        size = choose_size(len(left), sizes)
        batch = left[:size]
        answered = run(batch, size)
        if len(batch) > 1 and answered[0].in_range is False:
            answered = [run([text], sizes[0])[0] for text in batch]
        answers += answered
    return answers


@dataclass(eq=False)
class _Waiting:
    """A text that waits for its answer."""

    text: "Encoded"
    deadline: float
    answer: "Future[RowAnswer]" = field(default_factory=Future)
    alone: bool = False
    """A value left its range in a batch that it was part of."""


@dataclass(eq=False)
class _Queue:
    """The texts that wait for runs of one shape."""

    sizes: Sequence[int]
    run: RunBatch
    waiting: deque[_Waiting] = field(default_factory=deque)
    running: int = 0


class Batcher:
    """Runs the texts of several threads, those of the same shape together.

    ``lanes`` runs of a shape are under way at a time, one for each trio: a trio runs
    one plan at a time. One more for each may wait at the parties, if its batch is full.
    """

    def __init__(self, lanes: int = 1) -> None:
        self._lanes = lanes
        self._changed = threading.Condition()
        self._queues: dict[Hashable, _Queue] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ditto-batch")
        self._closed = False

    def ask(
        self,
        shape: Hashable,
        texts: "Sequence[Encoded]",
        sizes: Sequence[int],
        deadline: float,
        run: RunBatch,
    ) -> list[RowAnswer]:
        """Answers to texts; raises the error of the run that one of them was part of.

        ``run`` must do the same for all who ask for a shape.
        """
        mine = [_Waiting(text, deadline) for text in texts]
        with self._changed:
            if self._closed:
                raise _closed()
            queue = self._queues.setdefault(shape, _Queue(sizes, run))
            queue.waiting.extend(mine)
            self._start_runs(shape, queue)
            self._changed.notify_all()
        try:
            return [_answer_of(each) for each in mine]
        finally:
            for each in mine:  # if one failed, nobody waits for the others
                each.answer.cancel()

    def close(self) -> None:
        """Run no more; who waits is told so."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                _fail(queue.waiting, _closed())
            self._queues.clear()
            self._changed.notify_all()
        self._pool.shutdown(wait=False)

    def _start_runs(self, shape: Hashable, queue: _Queue) -> None:
        """Start what may start now."""
        _drop_ended(queue.waiting)
        while queue.waiting and not self._closed:
            full = len(queue.waiting) >= queue.sizes[-1]
            if queue.running >= self._lanes * (2 if full else 1):
                return
            batch, size = _take(queue)
            queue.running += 1
            self._pool.submit(self._run, shape, queue, batch, size)
        if not queue.waiting and not queue.running:
            self._queues.pop(shape, None)

    def _run(
        self, shape: Hashable, queue: _Queue, batch: list[_Waiting], size: int
    ) -> None:
        again: list[_Waiting] = []
        try:
            until = max(each.deadline for each in batch)
            answers = queue.run([each.text for each in batch], size, until)
            if len(batch) > 1 and answers[0].in_range is False:
                again = batch
            else:
                for each, answer in zip(batch, answers, strict=True):
                    _settle(each, answer)
        except BaseException as error:  # whoever waits is told
            _fail(batch, error)
        finally:
            self._finish(shape, queue, again, several=len(batch) > 1)

    def _finish(
        self, shape: Hashable, queue: _Queue, again: list[_Waiting], *, several: bool
    ) -> None:
        with self._changed:
            for each in again:
                each.alone = True
            queue.waiting.extendleft(reversed(again))
            if (several or queue.waiting) and not again:
                self._changed.wait_for(
                    lambda: self._closed or len(queue.waiting) >= queue.sizes[-1],
                    LINGER_SECONDS,
                )
            queue.running -= 1
            self._start_runs(shape, queue)
            if self._closed:
                _fail(queue.waiting, _closed())


def _take(queue: _Queue) -> tuple[list[_Waiting], int]:
    """The next batch, in the order in which they came, and its size."""
    first = queue.waiting[0]
    if first.alone:
        queue.waiting.popleft()
        return [first], queue.sizes[0]
    size = choose_size(len(queue.waiting), queue.sizes)
    count = min(size, len(queue.waiting))
    return [queue.waiting.popleft() for _ in range(count)], size


def _answer_of(each: _Waiting) -> RowAnswer:
    left = each.deadline - time.monotonic()
    try:
        return each.answer.result(timeout=max(left, 0.0) + _GRACE)
    except NotInTime:
        raise DeadlineError(
            "There was no answer within the time given for it."
        ) from None


def _drop_ended(waiting: deque[_Waiting]) -> None:
    """Those whose time is over, or that nobody waits for."""
    now = time.monotonic()
    kept = [e for e in waiting if not e.answer.done() and e.deadline > now]
    if len(kept) < len(waiting):
        waiting.clear()
        waiting.extend(kept)


def _settle(each: _Waiting, answer: RowAnswer) -> None:
    if each.answer.set_running_or_notify_cancel():
        each.answer.set_result(answer)


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for each in batch:
        if not each.answer.done() and each.answer.set_running_or_notify_cancel():
            each.answer.set_exception(error)


def _closed() -> PeerError:
    return PeerError("This client was closed.", peer="client")
