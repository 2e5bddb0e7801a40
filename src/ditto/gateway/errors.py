"""Errors as programs that speak OpenAI's API understand them."""

import math
from collections.abc import Mapping

from starlette.responses import JSONResponse

from ditto.errors import (
    AuditError,
    BusyError,
    ChatTemplateError,
    DeadlineError,
    DisagreementError,
    DittoError,
    OutOfRangeError,
    PeerError,
    PeerIdentityError,
    RequestError,
    ShareConsistencyError,
    StateLostError,
    UnknownModelError,
    WarmProcessError,
)

INVALID = "invalid_request_error"
SERVER = "server_error"
RATE = "rate_limit_error"


class ApiError(DittoError):
    """An error as the caller sees it. Its text holds nothing of what was asked."""

    code = "api"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        reason: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.reason = status, kind, param, reason
        self.retry_after = retry_after
        """Seconds; None if to ask again is of no use."""

    def public_message(self) -> str:
        """See DittoError."""
        return str(self)

    def body(self) -> dict[str, Mapping[str, str | None]]:
        """In OpenAI's form."""
        return {
            "error": {
                "message": self.public_message(),
                "type": self.kind,
                "param": self.param,
                "code": self.reason,
            }
        }

    def headers(self) -> dict[str, str]:
        """OpenAI's clients ask again by themselves, unless they are told not to."""
        if self.retry_after is None:
            return {"x-should-retry": "false"}
        return {"retry-after": str(max(1, math.ceil(self.retry_after)))}

    def response(self) -> JSONResponse:
        """As a whole answer."""
        return JSONResponse(self.body(), self.status, self.headers())


def invalid(
    message: str, param: str | None = None, reason: str | None = None
) -> ApiError:
    """A request that cannot be answered as it is."""
    return ApiError(400, message, param=param, reason=reason)


def _server(status: int, error: DittoError, retry_after: float | None) -> ApiError:
    return ApiError(
        status,
        error.public_message(),
        kind=SERVER,
        reason=error.code.replace("-", "_"),
        retry_after=retry_after,
    )


def as_api_error(error: Exception) -> ApiError:  # noqa: PLR0911  (a row for each)
    """What the caller is told of any error; the public text of ours, none of others."""
    match error:
        case ApiError():
            return error
        case UnknownModelError():
            text = error.public_message()
            return ApiError(404, text, param="model", reason="model_not_found")
        case ChatTemplateError():
            text = error.public_message()
            return invalid(text, "messages", "chat_template")
        case BusyError():
            text = error.public_message()
            return ApiError(429, text, reason="busy", retry_after=error.retry_after)
        case DeadlineError():
            return _server(504, error, None)
        case StateLostError():
            return _server(503, error, 1.0)
        case RequestError():
            return invalid(error.public_message(), reason="refused_by_a_party")
        case OutOfRangeError():
            text = error.public_message()
            return ApiError(422, text, reason="out_of_range")
        case (
            AuditError()
            | DisagreementError()
            | ShareConsistencyError()
            | PeerIdentityError()
        ):
            return _server(502, error, None)
        case PeerError() | WarmProcessError():
            return _server(503, error, 1.0)
        case DittoError():
            return _server(500, error, None)
        case _:
            text = "The gateway failed; its log names the place."
            return ApiError(500, text, kind=SERVER, reason="internal")
