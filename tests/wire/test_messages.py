"""Requests and replies as data: they come back as they went, and nothing else does."""

from typing import Any

import numpy as np
import pytest

from ditto.errors import MessageError
from ditto.wire import (
    DropState,
    PutPlan,
    PutWeights,
    RegisterModel,
    Request,
    RunPlan,
    Status,
    Turn,
    decode_reply,
    encode,
)
from ditto.wire.catalogue import ServiceStatus, parse_reply
from ditto.wire.messages import REQUESTS, decode_request

SHARES = {"0.first": np.arange(6, dtype=np.uint32).reshape(2, 3)}
MESSAGES: list[Request[Any]] = [
    RegisterModel("m", "owner", ("digest", "first"), (("digest", "first"),)),
    PutPlan("m", b"a plan"),
    PutWeights("m", "digest", (0, 3), SHARES),
    RunPlan("m", "digest", Turn("conversation", 2), SHARES),
    RunPlan("m", "digest"),
    DropState("conversation"),
    Status(),
]


def test_every_verb_is_here() -> None:
    assert {type(message) for message in MESSAGES} == set(REQUESTS.values())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_request_arrives_as_it_was_sent(message: Request[Any]) -> None:
    arrived = decode_request(*encode(message))
    assert type(arrived) is type(message)
    sent, got = dict(vars(message)), dict(vars(arrived))
    arrays = sent.pop("arrays", {}), got.pop("arrays", {})
    assert got == sent
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        assert np.array_equal(array, arrays[1][name])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_fields_that_are_missing_or_unknown_are_refused(message: Request[Any]) -> None:
    body, arrays = encode(message)
    fields = body["fields"]
    with pytest.raises(MessageError, match="wrong form at 'more'"):
        decode_request({**body, "fields": {**fields, "more": 1}}, arrays)
    with pytest.raises(MessageError, match="without fields"):
        decode_request({"verb": body["verb"]}, arrays)
    for name in set(fields) - {"turn", "continues", "request_id"}:
        fewer = {k: v for k, v in fields.items() if k != name}
        for changed in (fewer, {**fields, name: {"an": "object"}}):
            with pytest.raises(MessageError, match=f"wrong form at '{name}'"):
                decode_request({**body, "fields": changed}, arrays)


@pytest.mark.parametrize("verb", [None, 1, [], "", "Reveal", "Message", "__class__"])
def test_unknown_verbs_are_refused(verb: Any) -> None:
    with pytest.raises(MessageError, match="cannot be asked for"):
        decode_request({"verb": verb, "fields": {}}, {})


def test_a_reply_to_another_request_is_refused() -> None:
    with pytest.raises(MessageError, match="instead of PartyStatus"):
        decode_reply(Status(), {"verb": "Accepted", "fields": {}}, {})


def test_a_later_release_may_tell_more_of_itself() -> None:
    body = {
        "rank": 0, "trio": 0, "identity": "i", "version": "9", "agreement": "a",
        "boot": "b", "state": "ready", "peers": {},
    }  # fmt: skip
    assert parse_reply(ServiceStatus, body | {"weather": "fair"}).version == "9"
    with pytest.raises(MessageError, match="state"):
        parse_reply(ServiceStatus, body | {"state": "fair"})
