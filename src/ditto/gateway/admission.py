"""How many requests run, how many may wait, and who is refused."""

import asyncio
import time
from collections import deque

from ditto.gateway.errors import RATE, ApiError
from ditto.gateway.metrics import Metrics

_USUAL_SECONDS = 5.0
"""Of a request, before one has been measured."""
_LONGEST = 60.0
"""Seconds after which a client that was refused may ask again, at most: OpenAI's
clients take no more for an answer."""


class Admission:
    """Places for requests, in the order in which they come. Of one event loop."""

    def __init__(self, running: int, waiting: int, metrics: Metrics) -> None:
        self._places = running
        self._most_waiting = waiting
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._metrics = metrics
        self._free = running
        self._mean = _USUAL_SECONDS

    async def enter(self) -> float:
        """Wait for a place; when it was taken. Refuses if too many wait."""
        started = time.monotonic()
        if self._free > 0:
            self._free -= 1
        else:
            if len(self._waiting) >= self._most_waiting:
                raise self._busy()
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            self._metrics.waiting.set(len(self._waiting))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                else:
                    self._waiting.remove(place)
                raise
            finally:
                self._metrics.waiting.set(len(self._waiting))
        now = time.monotonic()
        self._metrics.queue_time.observe(now - started)
        self._metrics.running.inc()
        return now

    def leave(self, entered: float) -> None:
        """Give up a place."""
        self._mean += (time.monotonic() - entered - self._mean) / 8
        self._metrics.running.dec()
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _busy(self) -> ApiError:
        before = len(self._waiting) + 1
        return ApiError(
            429,
            f"{len(self._waiting)} requests wait already. Ask again later.",
            kind=RATE,
            reason="queue_full",
            retry_after=min(_LONGEST, self._mean * before / self._places),
        )
