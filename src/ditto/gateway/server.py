"""The gateway as a server on this machine."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from ditto.client.answering import Answering
from ditto.errors import SetupError
from ditto.gateway.app import make_app
from ditto.gateway.context import Gateway, Settings
from ditto.gateway.guard import place_of

_CONNECTIONS = 128
"""Open at a time, each with a body of some MiB at most; more are answered with 503."""
_LOGGER = logging.getLogger("ditto.gateway")


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address, not yet listening; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SetupError(
            f"{host}:{port} cannot be used: {error.strerror}. Choose another "
            "with --port."
        ) from None
    return listener


class Server(uvicorn.Server):
    """Serves a gateway, and says when it is ready."""

    def __init__(
        self,
        gateway: Gateway,
        shutdown_timeout: float = 10.0,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        config = uvicorn.Config(
            make_app(gateway),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # the guard logs, and no paths of callers
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=max(1, round(shutdown_timeout)),
        )
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See Server."""
        asyncio.get_running_loop().set_exception_handler(_log_place)
        await super().startup(sockets)
        self._on_ready()


def _log_place(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio would write the text of an error that nobody waits for."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        _LOGGER.error("a task failed: %s", place_of(error))


def serve_gateway(
    answering: Answering,
    settings: Settings,
    listener: socket.socket,
    *,
    shutdown_timeout: float = 10.0,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer until a signal ends it; what runs then has some seconds to end."""
    gateway = Gateway(answering, settings)
    try:
        Server(gateway, shutdown_timeout, on_ready).run([listener])
    finally:
        gateway.close()
        listener.close()
