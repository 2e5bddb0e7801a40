"""Threads of one client, three parties over mTLS: fewer runs, the same answers."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ditto.api import Plans, Pretrained
from ditto.api.export import export_model
from ditto.cli import app
from ditto.client import Tokenizer
from ditto.client.remote_client import Client
from ditto.compiler import PROFILES
from ditto.errors import DeadlineError, OutOfRangeError
from ditto.models import load_model
from ditto.owner.remote import RemotePublisher
from ditto.party.server.config import read_config
from ditto.party.server.host import PartyHost
from tests.api.test_doubt import WITHOUT, Narrow
from tests.api.test_out_of_range import LOUD
from tests.deployments import OWNER, Files, make_deployment
from tests.documents import check_document
from tests.evaluation.test_evaluate import spiked
from tests.folders import TEXTS, bert_folder

NAME = "acme/bert:1"
THREADS = 8


@dataclass(frozen=True)
class Service:
    """Three parties in threads of this process, and a client."""

    client: Client
    files: Files

    def runs(self) -> int:
        """That a party has answered so far."""
        time.sleep(0.2)  # it counts after it has answered
        address = f"http://127.0.0.1:{self.files.http[1]}/metrics"
        with urllib.request.urlopen(address, timeout=5) as page:
            metrics = page.read().decode()
        (count,) = re.findall(r"^ditto_request_success_total (\S+)$", metrics, re.M)
        return int(float(count))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    files = make_deployment(folder / "d")
    hosts = [PartyHost(read_config(files.party(rank))) for rank in range(3)]
    try:
        for host in hosts:
            host.start()
        _publish(folder, files)
        with Client(files.deployment, files.member("client", "alice")) as client:
            client.predict(NAME, WITHOUT[:1])  # the parties compile nothing later
            yield Service(client, files)
    finally:
        for host in hosts:
            host.stop()


def _publish(folder: Path, files: Files) -> None:
    spiky = spiked(bert_folder(folder / "b", layers=1), folder / "s", [1.0, -0.8, 0.3])
    tokenizer = Tokenizer.load(spiky)
    network = load_model(spiky, "feature-extraction")
    plans = Plans(network, PROFILES["ditto"], Narrow(tokenizer, WITHOUT))
    owner = files.credentials(files.member("owner", "acme"))
    publisher = RemotePublisher(files.agreement, owner)
    shape = {"lengths": [16], "batch_sizes": [1, 4]}
    with Pretrained(network, tokenizer, {}, plans, "simulate", name=NAME) as model:
        export_model(model, spiky, folder / "e", owner=OWNER, name=NAME, **shape)  # type: ignore[arg-type]
    publisher.publish(folder / "e")
    publisher.close()


def test_fewer_runs_than_texts_and_the_same_answers(service: Service) -> None:
    texts = (WITHOUT * THREADS)[: 2 * THREADS]
    expected = {
        text: service.client.predict(NAME, [text])[0].output for text in set(texts)
    }
    before = service.runs()
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(
            pool.map(lambda text: service.client.predict(NAME, [text])[0], texts)
        )
    assert service.runs() - before <= len(texts) // 2
    for text, answer in zip(texts, answers, strict=True):
        assert answer.in_range is True
        assert np.abs(answer.output - expected[text]).max() < 0.02


def test_one_text_that_leaves_its_range_spoils_no_other(service: Service) -> None:
    calm = WITHOUT[0]
    (expected,) = service.client.predict(NAME, [calm])
    answers = service.client.predict(
        NAME, [calm, LOUD, calm, calm], on_out_of_range="return"
    )
    assert [answer.in_range for answer in answers] == [True, False, True, True]
    assert np.abs(answers[0].output - expected.output).max() < 0.02
    before = service.runs()
    answers = service.client.predict(NAME, [calm, LOUD, calm, calm])
    assert all(answer.in_range for answer in answers)  # loud by the wide plan
    assert service.runs() - before == 1 + 4 + 1

    def ask(text: str) -> object:
        try:
            return service.client.predict(NAME, [text], on_out_of_range="raise")
        except OutOfRangeError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(ask, [calm, LOUD, calm, calm]))
    assert [isinstance(each, OutOfRangeError) for each in outcomes] == [
        False,
        True,
        False,
        False,
    ]


def test_who_has_no_time_does_not_hold_up_others(service: Service) -> None:
    def ask(timeout: float) -> object:
        try:
            return service.client.predict(NAME, TEXTS[3:4], timeout=timeout)
        except DeadlineError as error:
            return error

    started = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = list(pool.map(ask, [60.0, 0.001, 60.0, 60.0, 0.001, 60.0]))
    assert time.monotonic() - started < 30
    hasty = [isinstance(each, DeadlineError) for each in outcomes]
    assert not any(hasty[k] for k in (0, 2, 3, 5))
    assert any(hasty)


def test_a_service_is_measured(service: Service, tmp_path: Path) -> None:
    """By threads of one client, so in batches."""
    out, alice = tmp_path / "out.json", service.files.member("client", "alice")
    where = ["--deployment", str(service.files.deployment), "--as", str(alice)]
    load = ["--model", NAME, "--num-prompts", "12", "--max-concurrency", "4"]
    before = service.runs()
    done = CliRunner().invoke(
        app, ["bench", "serve", *where, *load, "--json", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert max(len(line.rstrip()) for line in done.output.splitlines()) <= 80
    summary = json.loads(out.read_text())
    check_document("bench serve", summary)
    assert (summary["completed"], summary["failed"]) == (12, 0)
    assert summary["request_throughput"] > 0
    assert summary["p99_e2el_ms"] >= summary["median_e2el_ms"] > 0
    assert service.runs() - before < 12
