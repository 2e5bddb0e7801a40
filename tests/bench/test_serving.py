"""A service is asked by many, and what they saw is summed up in vLLM's fields."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ditto.bench.gateway import GatewayAddress, GatewayError
from ditto.bench.serving import Request, measure_requests, summarise
from ditto.cli import app
from ditto.errors import BusyError, DeadlineError, PeerError, SetupError
from tests.documents import check_document
from tests.gateway.scripted import Scripted, served


def test_the_fields_of_generated_texts() -> None:
    requests = [
        Request(0.0, 4.0, (1.0, 2.0, 4.0)),
        Request(1.0, 3.0, (3.0,)),
        Request(2.0, 6.0, error="deadline"),
    ]
    summary = summarise(requests, generates=True)
    assert (summary["completed"], summary["failed"]) == (2, 1)
    assert summary["errors"] == {"deadline": 1}
    assert summary["duration"] == 8.0
    assert summary["request_throughput"] == 0.25
    assert summary["total_output_tokens"] == 4
    assert (summary["mean_ttft_ms"], summary["p99_ttft_ms"]) == (2000, 3000)
    assert summary["mean_tpot_ms"] == 1500
    assert (summary["median_itl_ms"], summary["p99_itl_ms"]) == (1500, 2000)
    assert summary["median_e2el_ms"] == 3500


def test_the_fields_of_answers() -> None:
    summary = summarise([Request(0.0, 2.0, (2.0,))], generates=False)
    assert summary["mean_e2el_ms"] == 2000
    assert not any("ttft" in name or "tok" in name for name in summary)
    failed = summarise([Request(0.0, 2.0, error="busy")], generates=False)
    assert (failed["completed"], failed["request_throughput"]) == (0, 0)
    assert "mean_e2el_ms" not in failed


def test_so_many_at_a_time_and_no_error_ends_the_others() -> None:
    lock, running, most = threading.Lock(), 0, 0

    def ask(text: str) -> Iterator[object]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        if text == "3":
            raise BusyError("later", retry_after=1.0)
        if text == "4":
            raise DeadlineError("late")
        yield text

    texts = [str(k) for k in range(20)]
    done: list[int] = []
    requests = measure_requests(
        ask, texts, max_concurrency=4, on_done=lambda n, _: done.append(n)
    )
    assert most == 4
    assert done == list(range(1, 21))
    assert [k for k, each in enumerate(requests) if each.error] == [3, 4]
    assert all(len(each.tokens) == 1 for each in requests if not each.error)


def test_requests_come_at_a_rate() -> None:
    requests = measure_requests(
        lambda text: iter([text]), ["a"] * 20, max_concurrency=20, request_rate=200.0
    )
    starts = [each.started for each in requests]
    assert starts == sorted(starts)
    assert starts[-1] > 0.03


def test_an_address_is_that_of_a_gateway() -> None:
    parsed = GatewayAddress.parse("http://127.0.0.1:8080/v1/")
    assert parsed == GatewayAddress("127.0.0.1", 8080, "/v1")
    for wrong in ("127.0.0.1:8080", "https://x/v1", "http://", ""):
        with pytest.raises(SetupError, match="address of a gateway"):
            GatewayAddress.parse(wrong)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(Scripted(pause=0.01)) as found:
        yield f"{found}/v1"


@pytest.mark.parametrize("model", ["embed", "classes", "acme/text:1"])
def test_a_gateway_is_measured(address: str, model: str, tmp_path: Path) -> None:
    out, plot = tmp_path / "out.json", tmp_path / "plot.svg"
    arguments = ["--base-url", address, "--model", model, "--num-prompts", "9"]
    files = ["--json", str(out), "--plot", str(plot), "--max-concurrency", "3"]
    done = CliRunner().invoke(app, ["bench", "serve", *arguments, *files])
    assert done.exit_code == 0, done.output
    assert max(len(line.rstrip()) for line in done.output.splitlines()) <= 80
    summary = json.loads(out.read_text())
    check_document("bench serve", summary)
    assert (summary["completed"], summary["failed"]) == (9, 0)
    assert summary["max_concurrency"] == 3
    assert ("mean_itl_ms" in summary) == (model == "acme/text:1")
    if model == "acme/text:1":
        assert summary["total_output_tokens"] == 27
        assert summary["mean_ttft_ms"] < summary["mean_e2el_ms"]
    assert "<svg" in plot.read_text()


def test_what_a_gateway_refuses_is_told() -> None:
    scripted = Scripted()
    with served(scripted) as address:
        asked = ["bench", "serve", "--base-url", f"{address}/v1", "--model"]
        with pytest.raises(SetupError, match="no model 'none'"):
            CliRunner().invoke(app, [*asked, "none"], catch_exceptions=False)
        scripted.error = DeadlineError("late")
        with pytest.raises(GatewayError, match="The gateway answered 504"):
            CliRunner().invoke(app, [*asked, "embed"], catch_exceptions=False)
    with pytest.raises(PeerError, match="cannot be asked"):
        CliRunner().invoke(app, [*asked, "embed"], catch_exceptions=False)


def test_who_is_asked_must_be_said() -> None:
    with pytest.raises(SetupError, match="Say who is asked"):
        CliRunner().invoke(
            app, ["bench", "serve", "--model", "a"], catch_exceptions=False
        )


def test_a_model_is_measured_by_default() -> None:
    done = CliRunner().invoke(app, ["bench", "--length", "8", "nowhere"])
    assert "nowhere" in repr(done.exception) or "nowhere" in done.output
    assert "No such command" not in done.output
    listed = CliRunner().invoke(app, ["bench", "--help"]).output
    assert "serve" in listed
    assert "model" in listed
