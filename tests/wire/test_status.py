"""Errors cross a network: the code says what to do, the text has no secret."""

import json

import grpc
import pytest

import ditto.errors
from ditto.errors import (
    AuditError,
    BusyError,
    DeadlineError,
    DisagreementError,
    DittoError,
    EngineError,
    MessageError,
    NotPermittedError,
    PeerError,
    PeerLostError,
    RequestError,
    StateLostError,
    UnknownModelError,
)
from ditto.wire.status import METADATA, error_of, status_of

SECRET = "31337"  # noqa: S105


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PeerLostError("org-b is gone", peer="org-b"), "UNAVAILABLE"),
        (BusyError("full", retry_after=2.5), "RESOURCE_EXHAUSTED"),
        (RequestError("wrong shape"), "INVALID_ARGUMENT"),
        (NotPermittedError("not you"), "PERMISSION_DENIED"),
        (UnknownModelError("no such model"), "NOT_FOUND"),
        (StateLostError(), "FAILED_PRECONDITION"),
        (DeadlineError("late"), "DEADLINE_EXCEEDED"),
        (DisagreementError(SECRET), "ABORTED"),
        (EngineError(SECRET, operation="o", scope="s"), "INTERNAL"),
    ],
)
def test_an_error_arrives_as_its_kind(error: DittoError, code: str) -> None:
    got, text, described = status_of(error)
    assert got == code
    assert hasattr(grpc.StatusCode, got)
    assert SECRET not in text + described
    rebuilt = error_of(got, text, [(METADATA, described)], party="org-a")
    assert type(rebuilt) is type(error)
    assert str(rebuilt) == error.public_message()
    if isinstance(rebuilt, PeerError):
        assert rebuilt.peer == "org-b"
    if isinstance(rebuilt, BusyError):
        assert rebuilt.retry_after == 2.5


@pytest.mark.parametrize("details", [{}, {"suspects": "org-b or org-c"}])
def test_who_accuses_is_named(details: dict[str, str]) -> None:
    """It may lie, and leave out what it should say."""
    described = json.dumps({"type": "AuditError", "details": details})
    error = error_of("ABORTED", "wrong", [(METADATA, described)], party="org-a")
    assert isinstance(error, AuditError)
    assert str(error) == "org-a reports: wrong"
    assert error.suspects == details.get("suspects", "unknown")


def test_nobody_hears_of_what_was_not_foreseen() -> None:
    code, text, described = status_of(ValueError(SECRET))
    assert code == "INTERNAL"
    assert SECRET not in text + described


@pytest.mark.parametrize(
    "described",
    [
        "", "{", "[]", "1", "{}", '{"type": "os", "details": {}}',
        '{"type": "DittoError", "details": 1}', '{"type": 1, "details": {}}',
        '{"type": "ClassVar", "details": {}}', "[" * 100_000, "x" * 9000,
    ],
)  # fmt: skip
def test_metadata_that_is_none_of_ours(described: str) -> None:
    error = error_of("UNAVAILABLE", "down", [(METADATA, described)], party="org-a")
    assert type(error) is PeerError
    assert error.peer == "org-a"


def test_what_grpc_says_by_itself() -> None:
    for code, kind in (
        ("DEADLINE_EXCEEDED", DeadlineError),
        ("RESOURCE_EXHAUSTED", BusyError),
        ("UNAVAILABLE", PeerError),
        ("CANCELLED", PeerError),
        ("UNIMPLEMENTED", MessageError),
    ):
        assert type(error_of(code, "text", [], party="org-a")) is kind


def test_every_kind_can_be_told() -> None:
    """Also those that are added later."""
    for name, kind in vars(ditto.errors).items():
        if isinstance(kind, type) and issubclass(kind, DittoError):
            described = json.dumps({"type": name, "details": {}})
            error = error_of("INTERNAL", "text", [(METADATA, described)], party="a")
            assert type(error) is kind
