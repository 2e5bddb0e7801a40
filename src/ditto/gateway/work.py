"""Work for the parties, done in a thread while the event loop goes on."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from ditto.gateway.admission import Admission
from ditto.gateway.errors import ApiError
from ditto.gateway.json_body import GONE

T = TypeVar("T")
Produce = Callable[[], Generator[T, None, None]]


class Workers:
    """Runs what was admitted. A caller that goes ends its work at the next item."""

    def __init__(self, running: int, admission: Admission) -> None:
        self._pool = ThreadPoolExecutor(running, "gateway")
        self._admission = admission

    async def run(self, produce: Produce[T]) -> AsyncGenerator[T, None]:
        """The items of a generator that runs in a thread."""
        entered = await self._admission.enter()
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[tuple[list[T], Exception | None, bool]] = asyncio.Queue()
        unwanted = threading.Event()

        def post(item: list[T], error: Exception | None, ended: bool) -> None:
            loop.call_soon_threadsafe(items.put_nowait, (item, error, ended))

        def work() -> None:
            producing = produce()
            try:
                for item in producing:
                    if unwanted.is_set():
                        break
                    post([item], None, False)
                producing.close()  # frees what the parties keep of it
            except Exception as error:  # whoever asked is told
                post([], error, True)
            else:
                post([], None, True)
            finally:
                loop.call_soon_threadsafe(self._admission.leave, entered)

        try:
            self._pool.submit(work)
        except RuntimeError:  # closed
            self._admission.leave(entered)
            raise ApiError(503, "The gateway is ending.", retry_after=5.0) from None
        try:
            while True:
                found, error, ended = await items.get()
                if error is not None:
                    raise error
                if ended:
                    return
                yield found[0]
        finally:
            unwanted.set()

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def unless_gone(request: Request, answer: Awaitable[T]) -> T:
    """An answer; given up when the caller closes the connection."""
    working = asyncio.ensure_future(answer)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ApiError(GONE, "The caller is gone.")
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
