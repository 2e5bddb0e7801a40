"""Bytes from outside: whatever comes, it is a request or a refusal."""

import json
import random
import tracemalloc

import pytest

from ditto.client.sampling import Sampling
from ditto.files import JsonValue
from ditto.gateway.errors import ApiError
from ditto.gateway.json_body import MAX_BODY, MAX_DEPTH, MAX_VALUES, parse_object
from ditto.gateway.parameters import IGNORED, NEUTRAL
from ditto.gateway.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingRequest,
    Request,
    parse_request,
)
from ditto.gateway.stops import StopScanner
from tests.fuzzing import inputs

KINDS: tuple[type[Request], ...] = (
    ChatRequest, ClassifyRequest, CompletionRequest, EmbeddingRequest,
)  # fmt: skip
SEEDS = (
    {"model": "m", "input": ["a", "b"], "encoding_format": "base64"},
    {"model": "m", "prompt": "p", "max_tokens": 3, "temperature": 0.5, "stop": ["x"],
     "stream": True, "stream_options": {"include_usage": True}, "seed": 7},
    {"model": "m", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "hi"}]}], "max_completion_tokens": 2, "top_p": 0.1},
)  # fmt: skip
ODD: tuple[JsonValue, ...] = (
    None, True, False, 0, -1, 1 << 70, 1.5, -0.0, 1e308, "", "x", "\ud800", "\0", [],
    {}, [[]], [None], [1], [[1]], {"a": 1}, "text", "user", ["x", 1],
)  # fmt: skip
INPUTS = inputs(10_000)


def mutated(rng: random.Random, value: JsonValue) -> JsonValue:
    """A value with something else in some place."""
    if rng.random() < 0.15:
        return rng.choice(ODD)
    if isinstance(value, dict):
        changed = {k: mutated(rng, v) for k, v in value.items() if rng.random() > 0.05}
        if rng.random() < 0.2:
            names = sorted(NEUTRAL) + sorted(IGNORED) + ["zeal", "", "\ud800"]
            changed[rng.choice(names)] = rng.choice(ODD)
        return changed
    if isinstance(value, list):
        return [mutated(rng, v) for v in value] * rng.choice((1, 1, 1, 0, 3))
    return value


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Bytes with some cut out, doubled or replaced."""
    raw = bytearray(content)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.randint(0, 8))
        raw[at:end] = rng.choice((b"", rng.randbytes(3), bytes(raw[at:end]) * 2, b"["))
    return bytes(raw)


def parsed_or_refused(kind: type[Request], content: bytes) -> Request | Exception:
    try:
        return parse_request(kind, parse_object(content))
    except Exception as error:
        return error


def test_damaged_bodies_are_requests_or_refusals() -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    parsed = 0
    for _ in range(INPUTS):
        document = mutated(rng, rng.choice(SEEDS))
        content = damaged(rng, json.dumps(document).encode())
        outcome = parsed_or_refused(rng.choice(KINDS), content)
        match outcome:
            case ApiError():
                assert 400 <= outcome.status < 500, seed
                json.dumps(outcome.body(), ensure_ascii=False).encode()  # can be sent
                assert len(str(outcome)) < 1000, seed
            case Exception():
                pytest.fail(f"seed {seed}: {type(outcome).__name__} for {content!r}")
            case CompletionRequest() | ChatRequest():
                assert isinstance(outcome.sampling, Sampling)
        parsed += not isinstance(outcome, Exception)
    assert parsed > INPUTS / 200  # or it was no test of the parser


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"3", b'"x"', b"{", b'{"a": NaN}', b'{"a": Infinity}', b"\xff{}",
        b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
        b'{"a": [' + b"0," * MAX_VALUES + b"0]}",
        b"\xef\xbb\xbf{}",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(content: bytes) -> None:
    with pytest.raises(ApiError) as refusal:
        parse_object(content)
    assert refusal.value.status == 400


def test_depth_and_size_that_are_allowed() -> None:
    inner = MAX_DEPTH - 2
    assert parse_object(b'{"a": ' + b"[" * inner + b"0" + b"]" * inner + b"}")
    assert len(parse_object(b'{"a": [' + b"0," * 2047 + b"0]}")["a"]) == 2048


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"[[[]]],", b'"",', b'"\\u0041",'])
def test_memory_is_a_small_multiple_of_the_body(piece: bytes) -> None:
    body = b'{"a": [' + piece * ((MAX_BODY - 20) // len(piece)) + b"0]}"
    tracemalloc.start()
    try:
        with pytest.raises(ApiError):
            parse_object(body)
        assert tracemalloc.get_traced_memory()[1] < 30 * MAX_BODY
    finally:
        tracemalloc.stop()


def test_a_refusal_shows_nothing_of_the_texts() -> None:
    marker = "zebra-4711"
    for body in (
        {"model": "m", "input": {marker: marker}},
        {"model": "m", "input": [marker, 1]},
        {"model": "m", "input": "x", "encoding_format": marker},
        {"model": {marker: 1}, "input": "x"},
    ):
        with pytest.raises(ApiError) as refusal:
            parse_request(EmbeddingRequest, body)
        assert marker not in json.dumps(refusal.value.body())


def test_stops_are_found_across_pieces() -> None:
    rng = random.Random(5)
    for _ in range(500):
        text = "".join(rng.choices("ab", k=rng.randint(0, 12)))
        stops = ["".join(rng.choices("ab", k=rng.randint(1, 4))) for _ in range(2)]
        places = [at for stop in stops if (at := text.find(stop)) >= 0]
        scanner, shown, reached, at = StopScanner(stops), "", False, 0
        while at < len(text) and not reached:
            size = rng.randint(1, 3)
            added, reached = scanner.feed(text[at : at + size])
            shown, at = shown + added, at + size
        shown += scanner.rest()
        assert reached == bool(places)
        if not places:
            assert shown == text
        else:  # no stop is in what is shown, and nothing before the first is missing
            assert not any(stop in shown for stop in stops)
            assert shown == text[: len(shown)]
