"""Errors as they cross a network: one table of kinds and gRPC's status codes.

The text of a status is the error's public message. What a program needs besides, the
kind of the error and its public details, travels in the trailing metadata.
"""

import json
from collections.abc import Iterable

import ditto.errors
from ditto.errors import (
    AuditError,
    BusyError,
    DeadlineError,
    DisagreementError,
    DittoError,
    MessageError,
    NotPermittedError,
    OutOfRangeError,
    PeerError,
    PeerIdentityError,
    RequestError,
    SetupError,
    StateLostError,
    UnknownModelError,
)

METADATA = "ditto-error"
_MAX = 8 << 10

_CODES: tuple[tuple[type[DittoError], str], ...] = (
    (UnknownModelError, "NOT_FOUND"),
    (StateLostError, "FAILED_PRECONDITION"),
    (NotPermittedError, "PERMISSION_DENIED"),
    (BusyError, "RESOURCE_EXHAUSTED"),
    (DeadlineError, "DEADLINE_EXCEEDED"),
    (RequestError, "INVALID_ARGUMENT"),
    (MessageError, "INVALID_ARGUMENT"),
    (AuditError, "ABORTED"),
    (DisagreementError, "ABORTED"),
    (PeerIdentityError, "UNAUTHENTICATED"),
    (PeerError, "UNAVAILABLE"),
    (SetupError, "FAILED_PRECONDITION"),
    (OutOfRangeError, "OUT_OF_RANGE"),
    (DittoError, "INTERNAL"),
)
"""The first kind that an error is of counts."""


def status_of(error: BaseException) -> tuple[str, str, str]:
    """The name of the code, the text, and the metadata's value."""
    public = error if isinstance(error, DittoError) else DittoError()
    code = next(code for kind, code in _CODES if isinstance(public, kind))
    described = {"type": type(public).__name__, "details": public.public_details()}
    return code, public.public_message(), json.dumps(described)


def error_of(
    code: str, text: str, metadata: Iterable[tuple[str, str | bytes]], *, party: str
) -> DittoError:
    """The error that a party answered with; ``party`` is whom it was asked.

    Without our metadata it is gRPC's own: of the connection, or of a deadline.
    """
    described = next((value for key, value in metadata if key == METADATA), None)
    if isinstance(described, str) and len(described) <= _MAX:
        rebuilt = _rebuild(described, text)
        if isinstance(rebuilt, AuditError):  # whoever accuses is a suspect, too
            rebuilt.args = (f"{party} reports: {text}",)
        if rebuilt is not None:
            return rebuilt
    if code == "DEADLINE_EXCEEDED":
        return DeadlineError(f"{party} did not answer within the time given for it.")
    if code == "RESOURCE_EXHAUSTED":
        return BusyError(f"{party} refused the call: {text:.200}")
    if code in ("UNAVAILABLE", "CANCELLED", "UNKNOWN", "INTERNAL"):
        return PeerError(f"{party} is not reachable: {text:.300}", peer=party)
    return MessageError(f"{party} refused the call ({code}): {text:.300}")


def _rebuild(described: str, text: str) -> DittoError | None:
    try:
        match json.loads(described):
            case {"type": str() as name, "details": dict() as details}:
                kind = getattr(ditto.errors, name, None)
            case _:
                return None
    except (ValueError, RecursionError):
        return None
    if not (isinstance(kind, type) and issubclass(kind, DittoError)):
        return None
    error: DittoError = kind.__new__(kind)
    error.args = (text,)
    known: dict[str, str | float] = {
        str(k): v for k, v in details.items() if isinstance(v, str)
    }
    if isinstance(error, BusyError):
        known["retry_after"] = _seconds(str(known.get("retry_after", "")))
    if isinstance(error, PeerError):
        known.setdefault("peer", "unknown")
    if isinstance(error, AuditError):
        known.setdefault("suspects", "unknown")
    vars(error).update(known)
    return error


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 3600.0)
    except ValueError:
        return 1.0
