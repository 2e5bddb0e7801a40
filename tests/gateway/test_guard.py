"""Who may call the gateway, how much they may send, and what is logged of it."""

import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from ditto.gateway.json_body import MAX_BODY
from tests.gateway.scripted import Scripted, post, served

MARKER = "zebra-4711"
PROMPT = {"model": "acme/text:1", "prompt": "p"}
EMBED = {"model": "embed", "input": "a"}


@pytest.fixture(scope="module")
def common_address() -> Iterator[str]:
    with served(Scripted()) as address:
        yield address


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200), ("localhost", 200), ("LOCALHOST:1", 200),
        ("[::1]:80", 200), ("localhost.", 200), ("evil.example", 403),
        ("localhost.evil.example", 403), ("evil.example:{port}", 403), ("", 403),
        ("localhost@evil.example", 403), ("evil.example/localhost", 403),
        ("[", 403), ("localhost:99999999", 403),
    ],
)  # fmt: skip
def test_only_known_names_are_answered(
    common_address: str, host: str, status: int
) -> None:
    port = int(common_address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        head = f"GET /v1/models HTTP/1.1\r\nHost: {host.format(port=port)}\r\n"
        plain.sendall(f"{head}Connection: close\r\n\r\n".encode())
        answer = plain.makefile("rb").readline()
    assert int(answer.split()[1]) == status


def test_pages_of_other_sites_are_not_answered(common_address: str) -> None:
    for origin, status in (
        ("https://evil.example", 403), ("null", 403), (common_address, 200),
    ):  # fmt: skip
        response = httpx.get(f"{common_address}/v1/models", headers={"origin": origin})
        assert response.status_code == status
        assert "access-control-allow-origin" not in response.headers
    body = json.dumps(EMBED)
    plain = {"content-type": "text/plain"}  # what a page may send without asking
    response = httpx.post(
        f"{common_address}/v1/embeddings", content=body, headers=plain
    )
    assert response.status_code == 415


def test_a_key_is_asked_for() -> None:
    keys = b"k" * 16, b"l" * 16
    with served(Scripted(), api_keys=keys) as address:
        assert httpx.get(f"{address}/v1/models").status_code == 401
        assert httpx.get(f"{address}/health").status_code == 200
        assert httpx.get(f"{address}/metrics").status_code == 401
        for key, status in (("k" * 16, 200), ("l" * 16, 200), ("k" * 15, 401)):
            headers = {"authorization": f"Bearer {key}"}
            response = httpx.get(f"{address}/v1/models", headers=headers)
            assert response.status_code == status
        basic = {"authorization": f"Basic {'k' * 16}"}
        response = httpx.get(f"{address}/v1/models", headers=basic)
        assert response.json()["error"]["code"] == "invalid_api_key"


def test_large_bodies_are_refused(common_address: str) -> None:
    headers = {"content-type": "application/json"}
    url = f"{common_address}/v1/embeddings"
    large = b" " * (MAX_BODY + 1)
    assert httpx.post(url, content=large, headers=headers).status_code == 413
    pieces = iter([b" " * (MAX_BODY // 2)] * 3)  # chunked: nobody says how long
    assert httpx.post(url, content=pieces, headers=headers).status_code == 413


def test_no_text_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    scripted = Scripted()
    scripted.words = [f"{MARKER}-answer"]
    messages = [{"role": "user", "content": MARKER}]
    with served(scripted) as address, caplog.at_level(logging.DEBUG):
        post(address, "/v1/embeddings", EMBED | {"input": MARKER})
        post(address, "/v1/completions", PROMPT | {"prompt": MARKER, "stream": True})
        post(address, "/v1/chat/completions", {"model": "chat", "messages": messages})
        post(address, "/v1/completions", PROMPT | {"max_tokens": MARKER})
        post(address, "/v1/completions", PROMPT | {MARKER: 1})
        post(address, f"/{MARKER}?q={MARKER}", {})
        httpx.get(f"{address}/v1/models/{MARKER}")
        scripted.error = RuntimeError(MARKER)
        post(address, "/v1/embeddings", EMBED)
        figures = httpx.get(f"{address}/metrics").text
    ours = [r.getMessage() for r in caplog.records if r.name == "ditto.gateway"]
    assert any('"route": "/v1/chat/completions", "status": 200' in li for li in ours)
    assert any("RuntimeError at scripted.py" in line for line in ours)
    theirs = [r for r in caplog.records if r.name.startswith(("ditto", "uvicorn"))]
    captured = capfd.readouterr()
    assert MARKER not in "".join(
        [*(r.getMessage() for r in theirs), figures, captured.out, captured.err]
    )


def test_what_is_no_http_ends_its_connection_alone(common_address: str) -> None:
    port = int(common_address.rpartition(":")[2])
    for data in (
        b"\xff" * 64 + b"\r\n\r\n", b"\x16\x03\x01\0\r\n\r\n", b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 200_000,
        b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    ):  # fmt: skip
        with socket.create_connection(("127.0.0.1", port), 10) as plain:
            try:
                plain.sendall(data)
                answer = plain.makefile("rb").read(12)
            except ConnectionError:
                answer = b""
        assert answer in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
    assert httpx.get(f"{common_address}/health").status_code == 200
