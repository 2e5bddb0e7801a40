"""Server-sent events: answers in pieces, and signs of life between them."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ditto.files import Json
from ditto.gateway.errors import as_api_error
from ditto.gateway.guard import place_of
from ditto.gateway.work import unless_gone

_LOGGER = logging.getLogger("ditto.gateway")
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def event(document: Json) -> bytes:
    """One event."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


class EventStream(StreamingResponse):
    """An answer in events; ``on_end`` is called however it ends."""

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None]):
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(events, 200, headers, "text/event-stream")
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See Response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


async def open_event_stream(
    request: Request, events: AsyncGenerator[bytes, None], keep_alive: float
) -> EventStream:
    """A stream of events.

    It begins with the first event, or after ``keep_alive`` seconds: an error before
    that is raised, so that the caller sees it as an HTTP error and may ask again. A
    later one is an event.
    """
    first = asyncio.ensure_future(anext(events, b""))
    try:
        begun = asyncio.wait({first}, timeout=keep_alive)
        await unless_gone(request, begun)
        if first.done():
            first.result()
    except BaseException:
        first.cancel()
        raise
    waiting = {first}

    async def alive() -> AsyncIterator[bytes]:
        task = first
        try:
            while True:
                while not (await asyncio.wait({task}, timeout=keep_alive))[0]:
                    yield KEEP_ALIVE
                piece = task.result()
                if not piece:
                    return
                yield piece
                waiting.discard(task)
                task = asyncio.ensure_future(anext(events, b""))
                waiting.add(task)
        except Exception as error:
            told = as_api_error(error)
            if told.status == 500:
                _LOGGER.error("a stream failed: %s", place_of(error))
            yield event(dict(told.body()))

    def end() -> None:
        for task in waiting:
            task.cancel()

    return EventStream(alive(), end)
