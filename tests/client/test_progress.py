"""What a party says of its progress is read with care: it may deviate."""

from collections.abc import Iterator
from typing import Any

import pytest

from ditto.client.remote import _ask
from ditto.errors import MessageError
from ditto.wire import DropState


class Party:
    """It answers every call with one frame."""

    name = "alpha"

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def call(self, *_: Any, **__: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        yield self._body, {}


@pytest.mark.parametrize(
    "progress",
    [{}, {"step": 1, "steps": 2}, {"step": "1", "steps": 2, "scope": ""}, 3, None],
)
def test_progress_of_another_form_is_refused(progress: Any) -> None:
    told: list[Any] = []
    party: Any = Party({"progress": progress})
    with pytest.raises(MessageError, match="alpha sent neither progress nor a reply"):
        _ask(party, DropState("c"), 1.0, lambda _: None, told.append)
    assert told == []


def test_progress_is_told() -> None:
    told: list[Any] = []
    progress = {"step": 1, "steps": 2, "scope": "layer"}
    party: Any = Party({"progress": progress})
    with pytest.raises(MessageError, match="ended the call without a reply"):
        _ask(party, DropState("c"), 1.0, lambda _: None, told.append)
    assert told == [progress]
