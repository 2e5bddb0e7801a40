"""What every request passes: who may call, under which name, and what is logged.

The log has a line for each request: an id, the route, the status and the seconds. No
body, no parameter, no header and no path of the caller's is ever written, and of an
error that nobody expected only its kind and its place in the source.
"""

import hmac
import ipaddress
import json
import logging
import time
import traceback
import uuid
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ditto.gateway.errors import ApiError, as_api_error
from ditto.gateway.metrics import Metrics

_LOGGER = logging.getLogger("ditto.gateway")
_OPEN = "/health"
OTHER = "other"


class Guard:
    """Refuses who may not call, and counts and logs all that do."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        routes: Collection[str],
        hosts: Collection[str],
        keys: Collection[bytes] = (),
    ) -> None:
        self._app, self._metrics = app, metrics
        self._routes = frozenset(routes)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._keys = tuple(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        started = time.monotonic()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers["x-content-type-options"] = "nosniff"
            await send(message)

        try:
            self._check(scope["path"], Headers(scope=scope))
            await self._app(scope, receive, sending)
        except Exception as error:
            told = as_api_error(error)
            if told.status == 500:
                _LOGGER.error("request %s failed: %s", request_id, place_of(error))
            if not status:
                await told.response()(scope, receive, sending)
        finally:
            self._count(request_id, scope, status, time.monotonic() - started)

    def _check(self, path: str, headers: Headers) -> None:
        """A page of the web whose name was made to lead here must not get in."""
        if host_of(headers.get("host", "")) not in self._hosts:
            raise ApiError(
                403,
                "The gateway is not called by this name. `ditto gateway "
                "--allowed-host NAME` lets it be.",
                reason="host_not_allowed",
            )
        origin = headers.get("origin")
        if origin is not None and _host_of_origin(origin) not in self._hosts:
            raise ApiError(
                403, "Pages of other sites are not answered.", reason="origin"
            )
        if self._keys and path != _OPEN:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            sent = key.strip().encode("utf-8", "surrogateescape")
            known = [hmac.compare_digest(sent, each) for each in self._keys]
            if scheme.lower() != "bearer" or not any(known):
                raise ApiError(
                    401, "The API key is missing or wrong.", reason="invalid_api_key"
                )

    def _count(
        self, request_id: str, scope: Scope, status: int, seconds: float
    ) -> None:
        route = self._route(scope["path"])
        if status and status < 400:
            self._metrics.answered.labels(route).inc()
            if scope["method"] == "POST":  # others ask nothing of the parties
                self._metrics.whole.observe(seconds)
        else:
            self._metrics.failed.labels(route, str(status or "none")).inc()
        line = {
            "request": request_id,
            "route": route,
            "status": status,
            "seconds": round(seconds, 3),
        }
        _LOGGER.info("%s", json.dumps(line))

    def _route(self, path: str) -> str:
        """As it is declared: what a caller puts into a path is not written."""
        if path in self._routes:
            return path
        declared = (r for r in self._routes if path.startswith(r.partition("{")[0]))
        return next((route for route in declared if "{" in route), OTHER)


def host_of(header: str) -> str:
    """The name in a Host header, without its port; empty if it is none."""
    try:
        split = urlsplit(f"//{header}")
        _ = split.port
        plain = not (split.path or split.query or split.fragment or "@" in header)
        return (split.hostname or "").rstrip(".") if plain else ""
    except ValueError:
        return ""


def _host_of_origin(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def place_of(error: BaseException) -> str:
    """The kind of an error and its line in the source: no text, which may hold any."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f" at {Path(last.filename).name}:{last.lineno}" if last else ""
    return f"{type(error).__name__}{where}"
