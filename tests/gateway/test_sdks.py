"""The SDKs that programs use, against ``ditto gateway --local`` as people start it."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_openai import OpenAI as LangChainLLM
from openai import APIStatusError, BadRequestError, NotFoundError, OpenAI
from pydantic import SecretStr

from benchmarks.search import search
from ditto.api import Pretrained, from_pretrained
from ditto.cli.progress import stages
from ditto.client.reading import cosine_of
from tests.gateway.processes import Process, tiny_gateway

TEXTS = ["the old cat", "a dog ran ."]
"""Short, like all texts here: plans for 8 tokens are prepared."""
NO_KEY = SecretStr("none")
MESSAGES = [{"role": "user", "content": "the old cat"}]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Process]:
    with tiny_gateway() as process:
        yield process


@pytest.fixture(scope="module")
def client(gateway: Process) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{gateway.address}/v1", api_key="none") as client:
        yield client


def exact(gateway: Process, name: str) -> Pretrained:
    return from_pretrained(gateway.root / name, mode="float")


def test_embeddings_are_the_models(gateway: Process, client: OpenAI) -> None:
    expected = exact(gateway, "embed").predict(TEXTS)
    plain = client.embeddings.create(
        model="embed", input=TEXTS, encoding_format="float"
    )
    packed = client.embeddings.create(model="embed", input=TEXTS)  # base64
    for answer in (plain, packed):
        assert answer.usage.prompt_tokens == sum(e.used_tokens for e in expected)
        for row, one in zip(answer.data, expected, strict=True):
            assert np.linalg.norm(row.embedding) == pytest.approx(1, abs=1e-3)
            assert cosine_of(row.embedding, one.embedding) > 0.999
    one = client.embeddings.create(model="embed", input=TEXTS[0])
    assert cosine_of(one.data[0].embedding, expected[0].embedding) > 0.999
    assert one.ditto == {"in_range": True}  # type: ignore[attr-defined]


def test_completions_are_the_models(gateway: Process, client: OpenAI) -> None:
    prompt = "the old cat"
    (expected,) = exact(gateway, "gpt2").generate(prompt, 4)
    given = {"model": "gpt2", "prompt": prompt, "max_tokens": 4, "temperature": 0}
    whole = client.completions.create(**given)  # type: ignore[call-overload]
    assert whole.choices[0].text == expected.text
    assert whole.usage.completion_tokens == len(expected.ids)
    chunks = list(client.completions.create(**given, stream=True))  # type: ignore[call-overload]
    assert "".join(c.choices[0].text for c in chunks) == expected.text
    assert chunks[-1].choices[0].finish_reason == "length"
    stop = expected.text[1]
    stopped = client.completions.create(**given, stop=stop)  # type: ignore[call-overload]
    assert stopped.choices[0].text == expected.text[: expected.text.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"


def test_conversations(gateway: Process, client: OpenAI) -> None:
    (expected,) = exact(gateway, "gpt2").generate("u:the old cat", 3)
    given = {"model": "gpt2", "messages": MESSAGES, "temperature": 0}
    whole = client.chat.completions.create(**given, max_tokens=3)  # type: ignore[call-overload]
    assert whole.choices[0].message.content == expected.text
    chunks = list(
        client.chat.completions.create(  # type: ignore[call-overload]
            **given, max_completion_tokens=3, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    deltas = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(deltas) == expected.text
    assert chunks[-1].usage.completion_tokens == 3
    digest = httpx.get(f"{gateway.address}/ditto/verification").json()["models"][1]
    assert chunks[0].system_fingerprint == digest["digest"]


def test_errors_are_raised_as_the_sdk_has_them(client: OpenAI) -> None:
    with pytest.raises(NotFoundError) as unknown:
        client.embeddings.create(model="gpt-4", input="x")
    with pytest.raises(BadRequestError) as long:
        client.completions.create(model="gpt2", prompt="the cat " * 200)
    with pytest.raises(BadRequestError) as echo:
        client.completions.create(model="gpt2", prompt="the cat", echo=True)
    with pytest.raises(BadRequestError) as wrong:
        client.chat.completions.create(model="embed", messages=MESSAGES)  # type: ignore[arg-type]
    codes = [each.value.code for each in (unknown, long, echo, wrong)]
    assert codes == [
        "model_not_found", "context_length_exceeded", "unsupported_parameter",
        "wrong_model",
    ]  # fmt: skip


def test_langchain(gateway: Process) -> None:
    base_url = f"{gateway.address}/v1"
    embeddings = OpenAIEmbeddings(
        model="embed", base_url=base_url, api_key=NO_KEY,
        check_embedding_ctx_length=False,
    )  # fmt: skip
    vectors = embeddings.embed_documents(TEXTS)
    assert cosine_of(vectors[0], embeddings.embed_query(TEXTS[0])) > 0.999
    assert len(vectors) == 2
    (expected,) = exact(gateway, "gpt2").generate("the old cat", 4)
    llm = LangChainLLM(
        model="gpt2", base_url=base_url, api_key=NO_KEY, max_tokens=4, temperature=0
    )
    assert llm.invoke("the old cat") == expected.text
    assert "".join(llm.stream("the old cat")) == expected.text
    chat = ChatOpenAI(
        model="gpt2", base_url=base_url, api_key=NO_KEY, max_tokens=3, temperature=0
    )  # type: ignore[call-arg]
    whole = chat.invoke([("user", "the old cat")])
    assert whole.content == exact(gateway, "gpt2").generate("u:the old cat", 3)[0].text
    assert "".join(str(c.content) for c in chat.stream([("user", "the old cat")])) == (
        whole.content
    )


def test_many_at_once_get_their_own_answers(gateway: Process, client: OpenAI) -> None:
    vectors = [a.embedding for a in exact(gateway, "embed").predict(TEXTS)]
    (expected,) = exact(gateway, "gpt2").generate("the old cat", 3)

    def ask(k: int) -> bool:
        if k % 3 == 2:
            text = client.completions.create(
                model="gpt2", prompt="the old cat", max_tokens=3, temperature=0
            )
            return text.choices[0].text == expected.text
        row = client.embeddings.create(model="embed", input=TEXTS[k % 3]).data[0]
        return cosine_of(row.embedding, vectors[k % 3]) > 0.999

    with ThreadPoolExecutor(9) as pool:
        assert all(pool.map(ask, range(9)))
    figures = httpx.get(f"{gateway.address}/metrics").text
    assert "ditto_num_requests_running 0.0" in figures
    assert "ditto_num_requests_waiting 0.0" in figures


def test_a_search_finds_what_the_float_model_finds(gateway: Process) -> None:
    """The short form of ``benchmarks.search``; every query is one of the texts."""
    texts = ["the old cat", "a dog ran .", "the river", "small dogs sat", "red tree ?"]
    with stages(quiet=True) as shown:
        folder = gateway.root / "embed"
        found = search(gateway.address, folder, "embed", texts, texts[1:4], shown)
    assert (found.texts, found.queries, found.same_top_hit) == (5, 3, 3)
    assert found.in_range
    assert found.least_cosine > 0.999


def test_no_text_is_in_the_log(gateway: Process, client: OpenAI) -> None:
    marker = "zebra"
    client.embeddings.create(model="embed", input=f"the {marker} .")
    client.completions.create(model="gpt2", prompt=marker, max_tokens=2)
    with pytest.raises(BadRequestError):
        client.completions.create(model="gpt2", prompt=marker * 100, echo=True)
    log = gateway.log()
    assert '"route": "/v1/completions", "status": 200' in log
    assert marker not in log
    assert "Traceback" not in log


def test_a_party_that_is_gone_is_named_and_comes_back(
    gateway: Process, client: OpenAI
) -> None:
    """The SDK asks again by itself."""
    children = f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children"
    with open(children) as file:
        parties = [int(pid) for pid in file.read().split()]
    os.kill(parties[1], signal.SIGKILL)
    with pytest.raises(APIStatusError) as failure:
        client.with_options(max_retries=0).embeddings.create(
            model="embed", input=TEXTS[0]
        )
    assert failure.value.status_code == 503
    assert failure.value.response.headers["retry-after"] == "1"
    assert client.embeddings.create(model="embed", input=TEXTS[0]).data
