"""Tests of masks and points run with the C library and without it."""

import pytest

from ditto.native import aes


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """``cryptography`` and numpy compute."""
    monkeypatch.setattr(aes, "schedule", lambda _: None)


@pytest.fixture(params=["the library", "cryptography"])
def each_cipher(request: pytest.FixtureRequest) -> None:
    """Both, one after the other."""
    if request.param == "cryptography":
        request.getfixturevalue("no_library")
