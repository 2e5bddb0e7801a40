"""What crosses HTTP: forms, errors, streams, limits. Answers are scripted."""

import base64
import gc
import json
import logging
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from openai import APIError, APIStatusError, OpenAI, RateLimitError
from openai.types.chat import ChatCompletionChunk

from ditto.client.sampling import Sampling
from ditto.errors import (
    DeadlineError,
    DisagreementError,
    EngineError,
    OutOfRangeError,
    PeerLostError,
    RequestError,
    SetupError,
)
from tests.gateway.scripted import Scripted, post, served, until

MARKER = "zebra-4711"


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def address(scripted: Scripted) -> Iterator[str]:
    with served(scripted, keep_alive=0.2, max_running=1, max_waiting=1) as address:
        yield address
        scripted.go_on.set()


@pytest.fixture(scope="module")
def common_address() -> Iterator[str]:
    """Of a gateway for tests that change nothing in it."""
    with served(Scripted()) as address:
        yield address


def client(address: str, **options: object) -> OpenAI:
    return OpenAI(base_url=f"{address}/v1", api_key="none", **options)  # type: ignore[arg-type]


def error_of(response: httpx.Response) -> dict[str, str | None]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error  # type: ignore[no-any-return]


# Forms


def test_models_and_what_runs(common_address: str) -> None:
    models = client(common_address).models
    assert [m.id for m in models.list()] == ["embed", "classes", "acme/text:1", "chat"]
    model = models.retrieve("acme/text:1")
    assert (model.object, model.owned_by, model.created) == (
        "model", "acme", 1_700_000_000,
    )  # fmt: skip
    assert model.max_model_len == 64  # type: ignore[attr-defined]
    shown = httpx.get(f"{common_address}/ditto/verification").json()
    assert [p["organisation"] for p in shown["parties"]] == ["org 0", "org 1", "org 2"]
    assert {m["digest"] for m in shown["models"]} == {"d1ge57"}
    assert shown["audit"] == {"level": "products", "chance": 0.25}
    assert httpx.get(f"{common_address}/health").status_code == 200


def test_embeddings_in_both_encodings(common_address: str) -> None:
    texts = ["ab", "abcd"]
    plain = post(
        common_address, "/v1/embeddings", {"model": "embed", "input": texts}
    ).json()
    assert plain["object"] == "list"
    assert [row["index"] for row in plain["data"]] == [0, 1]
    assert [row["embedding"] for row in plain["data"]] == [[1.0, 3.0], [2.0, 6.0]]
    assert plain["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    assert plain["ditto"] == {"in_range": True}
    assert plain["system_fingerprint"] == "d1ge57"
    body = {"model": "embed", "input": "ab", "encoding_format": "base64"}
    packed = post(common_address, "/v1/embeddings", body).json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(packed), "<f4").tolist() == [1.0, 3.0]


def test_many_texts_are_asked_in_parts_and_come_in_order(
    address: str, scripted: Scripted
) -> None:
    texts = ["a" * k for k in range(1, 71)]
    answer = client(address).embeddings.create(model="embed", input=texts)
    assert [row.embedding[0] for row in answer.data] == [k / 2 for k in range(1, 71)]
    assert scripted.asked == texts


def test_classes_are_vllms(common_address: str) -> None:
    body = {"model": "classes", "input": ["ab"]}
    answer = post(common_address, "/classify", body).json()
    assert answer["data"] == [
        {"index": 0, "label": "b", "probs": [0.25, 0.75], "num_classes": 2}
    ]
    assert answer["id"].startswith("classify-")


def test_completions(address: str, scripted: Scripted) -> None:
    options = {"max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "seed": -1}
    body = {"model": "acme/text:1", "prompt": ["p q", "r"], **options}
    answer = post(address, "/v1/completions", body).json()
    assert answer["object"] == "text_completion"
    assert [(c["index"], c["text"], c["finish_reason"]) for c in answer["choices"]] == [
        (0, "one two", "length"), (1, "one two", "length"),
    ]  # fmt: skip
    assert answer["usage"] == {
        "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7,
    }  # fmt: skip
    assert scripted.asked == ["p q", "r"]
    assert scripted.sampled[0] == Sampling(0.5, 0, 0.9, (1 << 63) - 1)


def test_an_answer_that_ends_by_itself_says_so(common_address: str) -> None:
    answer = client(common_address).completions.create(model="acme/text:1", prompt="p")
    assert answer.choices[0].text == "one two three"
    assert answer.choices[0].finish_reason == "stop"


def test_a_stop_ends_the_answer_and_is_not_shown(
    address: str, scripted: Scripted
) -> None:
    for stream in (False, True):
        answer = client(address).completions.create(
            model="acme/text:1", prompt="p", stop=["e two t"], stream=stream
        )
        if stream:
            chunks = list(answer)  # type: ignore[call-overload]
            text = "".join(c.choices[0].text for c in chunks)
            assert chunks[-1].choices[0].finish_reason == "stop"
        else:
            text = answer.choices[0].text  # type: ignore[union-attr]
        assert text == "on"
    until(lambda: scripted.running == 0)


def test_a_conversation_is_put_through_the_template(
    address: str, scripted: Scripted
) -> None:
    answer = client(address).chat.completions.create(
        model="chat",
        messages=[
            {"role": "developer", "content": "be kind"},
            {"role": "user", "content": [
                {"type": "text", "text": "hi"}, {"type": "text", "text": "there"},
            ]},
        ],
        max_completion_tokens=2,
    )  # fmt: skip
    assert scripted.asked == ["system: be kind\nuser: hi\nthere\nassistant:"]
    assert scripted.with_special_tokens == [False]  # the template has written them
    assert answer.choices[0].message.content == "one two"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.system_fingerprint == "d1ge57"


def test_a_conversation_is_streamed(common_address: str) -> None:
    chunks: list[ChatCompletionChunk] = list(
        client(common_address).chat.completions.create(
            model="chat",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert deltas[0].role == "assistant"
    assert "".join(d.content or "" for d in deltas) == "one two three"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-2].ditto == {"in_range": True}  # type: ignore[attr-defined]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3
    assert len({c.id for c in chunks}) == 1


# Requests that are refused

PROMPT = {"model": "acme/text:1", "prompt": "p"}
TALK = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
EMBED = {"model": "embed", "input": "a"}
TOO_LONG = "context_length_exceeded"
REFUSED = [
    ("/v1/completions", PROMPT | {"echo": True}, "echo", "unsupported_parameter"),
    ("/v1/completions", PROMPT | {"n": 2}, "n", "unsupported_parameter"),
    ("/v1/completions", PROMPT | {"best_of": 3}, "best_of", "unsupported_parameter"),
    ("/v1/completions", PROMPT | {"suffix": "x"}, "suffix", "unsupported_parameter"),
    ("/v1/completions", PROMPT | {"logprobs": 0}, "logprobs", "unsupported_parameter"),
    ("/v1/completions", PROMPT | {"logit_bias": {"5": 1}}, "logit_bias", None),
    ("/v1/completions", PROMPT | {"zeal": 1}, "zeal", "unknown_parameter"),
    ("/v1/completions", PROMPT | {"prompt": [3, 4]}, "prompt", "token_ids"),
    ("/v1/completions", PROMPT | {"prompt": [[3, 4]]}, "prompt", "token_ids"),
    ("/v1/completions", PROMPT | {"temperature": 2.1}, "temperature", "invalid_value"),
    ("/v1/completions", PROMPT | {"temperature": "1"}, "temperature", "invalid_value"),
    ("/v1/completions", PROMPT | {"top_p": 0}, "top_p", "invalid_value"),
    ("/v1/completions", PROMPT | {"max_tokens": 0}, "max_tokens", "invalid_value"),
    ("/v1/completions", PROMPT | {"stop": [""]}, "stop", "invalid_value"),
    ("/v1/completions", PROMPT | {"prompt": "\ud800"}, "prompt", "invalid_value"),
    ("/v1/completions", PROMPT | {"max_tokens": 64}, "prompt", TOO_LONG),
    ("/v1/completions", {"model": "acme/text:1"}, "prompt", "missing_parameter"),
    ("/v1/completions", {"prompt": "p"}, "model", "missing_parameter"),
    ("/v1/completions", PROMPT | {"model": "embed"}, "model", "wrong_model"),
    ("/v1/chat/completions", TALK | {"model": "acme/text:1"},
     "model", "no_chat_template"),
    ("/v1/chat/completions", TALK | {"tools": [{"type": "function"}]}, "tools", None),
    ("/v1/chat/completions", TALK | {"response_format": {"type": "json_object"}},
     "response_format", "unsupported_parameter"),
    ("/v1/chat/completions", TALK | {"logprobs": True}, "logprobs", None),
    ("/v1/chat/completions", TALK | {"min_p": 0.5}, "min_p", None),
    ("/v1/chat/completions", TALK | {"messages": []}, "messages", "invalid_value"),
    ("/v1/chat/completions", TALK | {"messages": [{"role": "tool", "content": "x"}]},
     "messages", "invalid_value"),
    ("/v1/chat/completions", TALK | {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages", None),
    ("/v1/chat/completions", TALK | {"messages": [{"role": "user", "content": None}]},
     "messages", "invalid_value"),
    ("/v1/embeddings", EMBED | {"dimensions": 8}, "dimensions", None),
    ("/v1/embeddings", EMBED | {"input": [1, 2]}, "input", "token_ids"),
    ("/v1/embeddings", EMBED | {"input": []}, "input", "invalid_value"),
    ("/v1/embeddings", EMBED | {"input": "w " * 65}, "input", TOO_LONG),
    ("/v1/embeddings", EMBED | {"encoding_format": "hex"}, "encoding_format", None),
    ("/v1/embeddings", EMBED | {"model": "classes"}, "model", "wrong_model"),
    ("/classify", EMBED, "model", "wrong_model"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "param", "code"), REFUSED)
def test_what_cannot_be_done_is_refused_by_its_name(
    common_address: str, path: str, body: object, param: str, code: str | None
) -> None:
    response = httpx.post(
        f"{common_address}{path}",
        content=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert response.headers["x-should-retry"] == "false"
    error = error_of(response)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    if code is not None:
        assert error["code"] == code


def test_what_is_harmless_is_ignored(common_address: str) -> None:
    harmless = {
        "n": 1, "user": "me", "logprobs": None, "tools": [], "tool_choice": "none",
        "response_format": {"type": "text"}, "presence_penalty": 0.0, "store": False,
        "parallel_tool_calls": False, "logit_bias": {}, "service_tier": "auto",
    }  # fmt: skip
    assert post(common_address, "/v1/chat/completions", TALK | harmless).is_success


def test_the_option_of_langchain_is_named(common_address: str) -> None:
    error = error_of(
        post(common_address, "/v1/embeddings", EMBED | {"input": [[1, 2]]})
    )
    assert "check_embedding_ctx_length=False" in str(error["message"])


def test_a_long_text_is_cut_only_if_that_is_asked_for(common_address: str) -> None:
    body = EMBED | {"input": "w " * 65, "truncate_prompt_tokens": -1}
    assert post(common_address, "/v1/embeddings", body).status_code == 200


def test_unknown_models_and_paths(common_address: str) -> None:
    for response in (
        post(common_address, "/v1/embeddings", EMBED | {"model": MARKER}),
        httpx.get(f"{common_address}/v1/models/{MARKER}"),
    ):
        assert response.status_code == 404
        assert error_of(response)["code"] == "model_not_found"
        assert MARKER not in response.text
    assert httpx.get(f"{common_address}/v2").status_code == 404
    assert httpx.get(f"{common_address}/v1/embeddings").status_code == 405


def test_a_template_that_fails_is_a_refusal(common_address: str) -> None:
    messages = [{"role": "user", "content": "x" * 3_000_000}]
    body = TALK | {"messages": messages}
    response = post(common_address, "/v1/chat/completions", body)
    assert response.status_code == 400
    assert error_of(response)["code"] == "chat_template"


# Failures


@pytest.mark.parametrize(
    ("error", "status", "code", "again"),
    [
        (PeerLostError("P1 is gone.", peer="P1"), 503, "peer_lost", True),
        (DisagreementError(MARKER), 502, "disagreement", False),
        (OutOfRangeError(MARKER), 422, "out_of_range", False),
        (DeadlineError(MARKER), 504, "deadline", False),
        (RequestError("The plan is unknown."), 400, "refused_by_a_party", False),
        (EngineError(MARKER, operation="o", scope="s"), 500, "engine", False),
        (SetupError(MARKER), 500, "setup", False),
        (ValueError(MARKER), 500, "internal", False),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_the_right_code_and_no_secret(
    address: str, scripted: Scripted, error: Exception, status: int, code: str,
    again: bool, stream: bool, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    scripted.error = error
    with caplog.at_level(logging.DEBUG):
        response = post(address, "/v1/completions", PROMPT | {"stream": stream})
    assert response.status_code == status
    assert error_of(response)["code"] == code
    assert ("retry-after" in response.headers) == again
    assert (response.headers.get("x-should-retry") == "false") != again
    assert MARKER not in response.text
    assert MARKER not in caplog.text


def test_an_sdk_asks_again_when_it_may(address: str, scripted: Scripted) -> None:
    scripted.error = PeerLostError("P1 is gone.", peer="P1")
    with pytest.raises(APIStatusError, match="P1 is gone"):
        client(address, max_retries=1).embeddings.create(model="embed", input="a")
    assert len(scripted.asked) == 2
    scripted.error = OutOfRangeError("x")
    with pytest.raises(APIStatusError, match="refused"):
        client(address, max_retries=1).embeddings.create(model="embed", input="a")
    assert len(scripted.asked) == 3


def test_an_error_in_a_stream_ends_it(address: str, scripted: Scripted) -> None:
    scripted.go_on.clear()
    stream = client(address).completions.create(
        model="acme/text:1", prompt="p", stream=True
    )  # begins with signs of life, before there is a token
    scripted.error = PeerLostError("P2 is gone.", peer="P2")
    scripted.go_on.set()
    with pytest.raises(APIError, match="P2 is gone"):
        list(stream)


def test_a_slow_stream_says_that_it_lives(address: str, scripted: Scripted) -> None:
    scripted.go_on.clear()
    lines = []
    with httpx.stream(
        "POST", f"{address}/v1/completions", json=PROMPT | {"stream": True}, timeout=10
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            lines.append(line)
            if lines.count(": keep-alive") == 2:
                scripted.go_on.set()
    assert lines[-2:] == ["data: [DONE]", ""]


# Many at once, and callers that go


def test_a_full_queue_refuses_at_once(address: str, scripted: Scripted) -> None:
    scripted.go_on.clear()
    body = EMBED
    threads = [
        threading.Thread(target=post, args=(address, "/v1/embeddings", body))
        for _ in range(2)
    ]
    threads[0].start()
    until(lambda: scripted.running == 1)
    threads[1].start()
    figures = f"{address}/metrics"
    until(lambda: "ditto_num_requests_waiting 1.0" in httpx.get(figures).text)
    response = post(address, "/v1/embeddings", body)
    assert response.status_code == 429
    assert 1 <= int(response.headers["retry-after"]) <= 60
    with pytest.raises(RateLimitError):
        client(address, max_retries=0).embeddings.create(model="embed", input="a")
    scripted.go_on.set()
    for thread in threads:
        thread.join(10)
    assert scripted.most_running == 1
    assert len(scripted.asked) == 2
    assert post(address, "/v1/embeddings", body).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_whoever_goes_ends_the_generation(
    address: str, scripted: Scripted, stream: bool
) -> None:
    scripted.words, scripted.pause = ["word"] * 48, 0.02
    scripted.go_on.clear()
    body = PROMPT | {"stream": stream, "max_tokens": 48}
    while not scripted.asked:  # a busy machine may not have begun in time
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/completions", json=body, timeout=0.1)
    scripted.go_on.set()
    until(lambda: scripted.running == 0)
    assert scripted.closed == len(scripted.asked)
    figures = httpx.get(f"{address}/metrics").text
    assert "ditto_num_requests_running 0.0" in figures
    generated = next(
        float(line.split()[1])
        for line in figures.splitlines()
        if line.startswith("ditto_generation_tokens_total")
    )
    assert generated < 48


def test_whoever_waits_and_goes_leaves_the_queue(
    address: str, scripted: Scripted
) -> None:
    scripted.go_on.clear()
    first = threading.Thread(target=post, args=(address, "/v1/embeddings", EMBED))
    first.start()
    until(lambda: scripted.running == 1)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/v1/embeddings", json=EMBED, timeout=0.1)
    figures = f"{address}/metrics"
    until(lambda: "ditto_num_requests_waiting 0.0" in httpx.get(figures).text)
    scripted.go_on.set()
    first.join(10)
    assert len(scripted.asked) == 1


def test_an_error_that_nobody_waits_for_is_not_written(
    address: str, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.go_on.clear()
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/completions", json=PROMPT, timeout=0.1)
        scripted.error = RuntimeError(MARKER)
        scripted.go_on.set()
        until(lambda: scripted.running == 0)
        assert post(address, "/v1/completions", PROMPT).status_code == 500
        gc.collect()
    assert MARKER not in caplog.text
