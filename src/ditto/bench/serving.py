"""What a service gives to many who ask at the same time, in vLLM's fields.

ttft    seconds to the first token
tpot    seconds per token after the first
itl     seconds between two tokens
e2el    seconds from the request to its whole answer
"""

import math
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ditto.errors import DittoError
from ditto.files import Json

Ask = Callable[[str], Iterator[object]]
"""Asks about a text; an item comes for each token, or one for the answer."""
OnDone = Callable[[int, int], None]
"""Called with how many requests have ended, of how many."""

TEXTS = (
    "The train to the coast leaves at half past nine.",
    "Who was the first person to sail around the world alone?",
    "I would like to return these shoes, they are too small.",
    "Rain is expected in the north, with some sun later on.",
    "The committee has not yet decided about the new bridge.",
    "How long should rice be cooked, and in how much water?",
    "The film was slow at first, but the end made up for it.",
    "Please send me the invoice by the end of the week.",
)
"""What is asked about, if nothing else is given: ten to fifteen tokens each."""


@dataclass(frozen=True)
class Request:
    """What became of one request."""

    started: float
    """Seconds after the first of all."""
    seconds: float
    tokens: tuple[float, ...] = ()
    """When each token came, in seconds after the request."""
    error: str | None = None
    """The code of what went wrong."""

    @property
    def time_per_token(self) -> float | None:
        """Of the tokens after the first."""
        if len(self.tokens) < 2:
            return None
        return (self.tokens[-1] - self.tokens[0]) / (len(self.tokens) - 1)


def measure_requests(
    ask: Ask,
    texts: Sequence[str],
    *,
    max_concurrency: int,
    request_rate: float = math.inf,
    seed: int = 0,
    on_done: OnDone = lambda *_: None,
) -> list[Request]:
    """Ask about all texts, at most ``max_concurrency`` at a time.

    ``request_rate`` requests come in a second, at random moments; all at once if it is
    infinite. Time counts from when a request is sent.
    """
    rng, lock = random.Random(seed), threading.Lock()  # noqa: S311
    done = 0
    first = time.monotonic()

    def one(text: str) -> Request:
        nonlocal done
        started = time.monotonic()
        tokens: list[float] = []
        error = None
        try:
            tokens += (time.monotonic() - started for _ in ask(text))
        except DittoError as caught:
            error = caught.code
        seconds = time.monotonic() - started
        with lock:
            done += 1
            on_done(done, len(texts))
        return Request(started - first, seconds, tuple(tokens), error)

    with ThreadPoolExecutor(max_concurrency, "bench") as pool:
        asked = []
        for text in texts:
            asked.append(pool.submit(one, text))
            if request_rate < math.inf:
                time.sleep(rng.expovariate(request_rate))
        return [each.result() for each in asked]


def summarise(requests: Sequence[Request], *, generates: bool) -> Json:
    """The fields of vLLM's ``bench serve``; times in milliseconds.

    ``generates`` is whether tokens came one by one: else only the whole answer counts.
    """
    good = [each for each in requests if each.error is None]
    duration = max((r.started + r.seconds for r in requests), default=0.0)
    tokens = sum(len(each.tokens) for each in good) if generates else 0
    errors = Counter(each.error for each in requests if each.error)
    per_second = 1 / duration if duration else 0.0
    summary: Json = {
        "completed": len(good),
        "failed": len(requests) - len(good),
        "duration": round(duration, 3),
        "request_throughput": round(len(good) * per_second, 4),
    }
    times = {"e2el": [each.seconds for each in good]}
    if generates:
        summary |= {
            "total_output_tokens": tokens,
            "output_throughput": round(tokens * per_second, 4),
        }
        times = {
            "ttft": [each.tokens[0] for each in good if each.tokens],
            "tpot": [t for each in good if (t := each.time_per_token) is not None],
            "itl": [
                after - before
                for each in good
                for before, after in zip(each.tokens, each.tokens[1:], strict=False)
            ],
        } | times
    for name, seconds in times.items():
        summary |= _spread(name, seconds)
    return summary | {"errors": dict(errors)}


def _spread(name: str, seconds: list[float]) -> Json:
    """Mean, median and 99th percentile in milliseconds; nothing of nothing."""
    if not seconds:
        return {}
    ordered = sorted(1000 * each for each in seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {
        f"mean_{name}_ms": round(statistics.fmean(ordered), 2),
        f"median_{name}_ms": round(statistics.median(ordered), 2),
        f"p99_{name}_ms": round(p99, 2),
    }
