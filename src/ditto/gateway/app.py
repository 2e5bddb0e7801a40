"""The gateway as an ASGI application."""

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ditto.gateway.context import Gateway
from ditto.gateway.embeddings import classify, embeddings
from ditto.gateway.errors import ApiError, as_api_error
from ditto.gateway.generation import chat_completions, completions
from ditto.gateway.guard import Guard, place_of
from ditto.gateway.models import (
    health,
    list_models,
    metrics,
    show_model,
    verification,
)

_LOGGER = logging.getLogger("ditto.gateway")
Endpoint = Callable[[Gateway, Request], Awaitable[Response]]

ENDPOINTS: tuple[tuple[str, str, Endpoint], ...] = (
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{id:path}", show_model),
    ("POST", "/v1/embeddings", embeddings),
    ("POST", "/v1/completions", completions),
    ("POST", "/v1/chat/completions", chat_completions),
    ("POST", "/classify", classify),
    ("GET", "/health", health),
    ("GET", "/metrics", metrics),
    ("GET", "/ditto/verification", verification),
)


def make_app(gateway: Gateway) -> ASGIApp:
    """The application of a gateway."""
    routes = [
        Route(path, _handler(gateway, endpoint), methods=[method])
        for method, path, endpoint in ENDPOINTS
    ]
    handlers = {HTTPException: _not_here}
    return Guard(
        Starlette(routes=routes, exception_handlers=handlers),  # type: ignore[arg-type]
        gateway.metrics,
        [path for _, path, _ in ENDPOINTS],
        gateway.settings.allowed_hosts,
        gateway.settings.api_keys,
    )


def _handler(
    gateway: Gateway, endpoint: Endpoint
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            return await endpoint(gateway, request)
        except Exception as error:
            told = as_api_error(error)
            if told.status == 500:
                _LOGGER.error("a request failed: %s", place_of(error))
            return told.response()

    return handle


async def _not_here(_: Request, error: HTTPException) -> Response:
    text = {404: "There is nothing at this path.", 405: "Not with this method."}
    status = error.status_code
    return ApiError(status, text.get(status, "Refused."), reason="not_found").response()
