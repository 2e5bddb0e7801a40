"""Bodies of requests: JSON from outside, read with limits."""

import asyncio
import json
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from ditto.files import Json, JsonValue
from ditto.gateway.errors import ApiError, invalid

MAX_BODY = 4 << 20
"""Bytes; 2,048 texts of 2,000 letters."""
MAX_DEPTH = 16
MAX_VALUES = 100_000
SLOWEST = 30.0
"""Seconds within which a body must have come."""
GONE = 499
"""The status, for logs alone, of a request whose caller has gone."""


async def read_json(request: Request) -> Json:
    """The JSON object in the body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # what a web page can send without being asked
        raise ApiError(
            415,
            "The body must be JSON, with content-type: application/json.",
            reason="unsupported_media_type",
        )
    try:
        async with asyncio.timeout(SLOWEST):
            content = await _read(request)
    except TimeoutError:
        raise ApiError(
            408, "The body did not come in time.", reason="slow_body"
        ) from None
    except ClientDisconnect:
        raise ApiError(GONE, "The caller is gone.") from None
    return parse_object(content)


async def _read(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > MAX_BODY:
        raise _too_large()
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large() -> ApiError:
    return ApiError(
        413,
        f"The body is larger than {MAX_BODY} bytes. Send fewer texts at a time.",
        reason="body_too_large",
    )


def parse_object(content: bytes) -> Json:
    """A JSON object; refuses what is nested deeply or has very many parts."""
    if content.count(b",") + content.count(b":") > 2 * MAX_VALUES:
        raise invalid(f"The body has more than {MAX_VALUES} values.")
    try:
        loaded = json.loads(content.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise invalid("The body is not JSON in UTF-8.", reason="invalid_json") from None
    if not isinstance(loaded, dict):
        raise invalid("The body is not a JSON object.", reason="invalid_json")
    _check(loaded)
    return loaded


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _check(loaded: Json) -> None:
    level: list[JsonValue] = [loaded]
    seen = 0
    for _ in range(MAX_DEPTH):
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return
        seen += len(below)
        if seen > MAX_VALUES:
            raise invalid(f"The body has more than {MAX_VALUES} values.")
        level = below
    raise invalid(f"The body is nested more than {MAX_DEPTH} deep.")
