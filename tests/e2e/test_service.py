"""Three organisations, an owner and a client, each with its own files and processes."""

import asyncio
import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from openai import NotFoundError, OpenAI
from safetensors.numpy import load_file
from typer.testing import CliRunner

import ditto
from benchmarks.search import running_gateway
from ditto.api import from_pretrained
from ditto.cli import app
from ditto.client import Tokenizer
from tests.cli.test_cli import DITTO
from tests.cli.test_cli import ditto as command
from tests.deployments import free_ports
from tests.documents import check_document
from tests.folders import TEXTS, bert_folder, gpt2_folder

PROMPT = TEXTS[1][:8]
READY_SECONDS = 60.0
ORGANISATIONS = ("org-a", "org-b", "org-c")


def pki(*arguments: str) -> None:
    """``ditto pki`` in this process: it has nothing to wait for."""
    result = CliRunner().invoke(app, ["pki", *arguments])
    assert result.exit_code == 0, result.output


class Parties:
    """Three parties from an empty folder: authorities, an agreement, processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(9)
        self.http = ports[6:]
        self.deployment = folder / "deployment.toml"
        authorities = [str(folder / name) for name in ORGANISATIONS]
        for rank, name in enumerate(ORGANISATIONS):
            authority = authorities[rank]
            pki("init", name, "--domain", f"{name}.example", "--out", authority)
            pki("issue", authority, f"party/{rank}", "--host", "127.0.0.1")
            self.config(rank).write_text(
                f'rank = {rank}\ncredentials = "{name}/party-{rank}"\n'
                f'store = "store{rank}"\nlisten_http = "127.0.0.1:{self.http[rank]}"\n'
            )
        acme = str(folder / "acme")
        pki("init", "Acme", "--domain", "acme.example", "--out", acme)
        pki("issue", acme, "owner/acme")
        pki("issue", acme, "client/alice")
        addresses = [
            part
            for rank in range(3)
            for part in (
                "--grpc", f"127.0.0.1:{ports[rank]}",
                "--link", f"127.0.0.1:{ports[3 + rank]}",
            )
        ]  # fmt: skip
        pki(
            "agree", *authorities, *addresses, "--member-ca", acme, "--owner",
            "spiffe://acme.example/owner/acme", "--client", "acme.example",
            "--out", str(self.deployment),
        )  # fmt: skip
        self.owner = folder / "acme" / "owner-acme"
        self.alice = folder / "acme" / "client-alice"

    def config(self, rank: int) -> Path:
        return self.folder / f"party{rank}.toml"

    def start(self, rank: int) -> None:
        log = (self.folder / f"party{rank}.log").open("ab")
        self.processes[rank] = subprocess.Popen(
            [*DITTO, "party", "serve", "--config", str(self.config(rank))],
            stderr=log,
        )
        log.close()

    def page(self, rank: int, path: str) -> tuple[int, str]:
        address = f"http://127.0.0.1:{self.http[rank]}{path}"
        try:
            with urllib.request.urlopen(address, timeout=5) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def wait_until_ready(self) -> float:
        started = time.monotonic()
        while any(self.page(rank, "/ready")[0] != 200 for rank in range(3)):
            assert time.monotonic() - started < READY_SECONDS, self.logs()
            time.sleep(0.1)
        return time.monotonic() - started

    def logs(self) -> str:
        return "\n".join(
            (self.folder / f"party{rank}.log").read_text() for rank in range(3)
        )

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    running = Parties(tmp_path_factory.mktemp("deployment"))
    try:
        for rank in range(3):
            running.start(rank)
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


def done(*arguments: str) -> subprocess.CompletedProcess[str]:
    result = command(*arguments)
    assert result.returncode == 0, result.stderr
    return result


def test_the_doctor_finds_real_parties_well(parties: Parties) -> None:
    mine = ["--deployment", str(parties.deployment), "--as", str(parties.alice)]
    document = json.loads(done("doctor", *mine, "--json", "-").stdout)
    check_document("doctor --deployment", document)
    assert document["ok"] is True
    assert [party["ok"] for party in document["parties"]] == [True] * 3
    checks = [check for party in document["parties"] for check in party["checks"]]
    assert {"clock", "version", "agreement", "links"} <= {c["name"] for c in checks}
    assert all(check["ok"] for check in checks)


def test_publish_ask_and_restart(parties: Parties, tmp_path: Path) -> None:
    owner = ["--deployment", str(parties.deployment), "--as", str(parties.owner)]
    client = ["--deployment", str(parties.deployment), "--as", str(parties.alice)]
    texts, out = tmp_path / "texts.txt", tmp_path / "out.json"
    texts.write_text("\n".join(TEXTS) + "\n")
    bert = bert_folder(tmp_path / "bert", layers=1)
    gpt2 = gpt2_folder(tmp_path / "gpt2", layers=1, positions=32)
    shape = ["--length", "16", "--calibration", str(texts)]
    owner_says = ["--json", str(out), *owner]
    done("owner", "publish", str(bert), "--name", "acme/bert:1", *shape, *owner_says)
    check_document("owner publish", json.loads(out.read_text()))
    more = ["--tokens", "3"]
    done("owner", "publish", str(gpt2), "--name", "acme/gpt2:1", *shape, *more, *owner)
    listed = done("owner", "ls", *owner_says).stdout
    check_document("owner ls", json.loads(out.read_text()))
    assert "acme/bert:1" in listed
    assert "all three" in listed

    with from_pretrained(bert, calibration=TEXTS, mode="float") as model:
        (exact,) = model.predict(TEXTS[:1])
    with from_pretrained(gpt2, calibration=TEXTS, mode="float") as model:
        tokens = "".join(t.texts[0] for t in model.stream(PROMPT, 3))
    assert tokens
    done("run", "acme/bert:1", "--text", TEXTS[0], "--json", str(out), *client)
    check_document("run", json.loads(out.read_text()))
    (answer,) = json.loads(out.read_text())["answers"]
    assert answer["label"] == exact.label
    assert np.abs(np.array(answer["logits"]) - exact.logits).max() < 0.02
    prompt = ["--prompt", PROMPT, "--tokens", "3"]
    done("generate", "acme/gpt2:1", *prompt, "--json", str(out), *client)
    check_document("generate", json.loads(out.read_text()))
    assert json.loads(out.read_text())["text"] == tokens

    shown = done("status", *client, "--json", "-").stdout
    check_document("status", json.loads(shown))
    assert json.loads(shown)["ready"] is True
    asyncio.run(_asks_with_asyncio(parties, exact.logits))
    _searches_memory(parties, bert)
    code, metrics = parties.page(1, "/metrics")
    assert code == 200
    assert "ditto_request_success_total 6.0" in metrics
    assert parties.page(0, "/health")[0] == 200
    assert parties.page(0, "/other")[0] == 404
    _speaks_openai(parties, exact.label, tokens, tmp_path)
    _survives_a_kill(parties, exact.logits)
    _leaves_no_text(parties)


def _speaks_openai(
    parties: Parties, label: str | None, tokens: str, folder: Path
) -> None:
    """The same answers through a gateway of the client's, by OpenAI's own package."""
    arguments = ("--deployment", str(parties.deployment), "--as", str(parties.alice))
    with running_gateway(folder, *arguments) as (address, _):
        with OpenAI(base_url=f"{address}/v1", api_key="none") as client:
            names = [model.id for model in client.models.list()]
            assert names == ["acme/bert:1", "acme/gpt2:1"]
            told = client.completions.create(
                model="acme/gpt2:1", prompt=PROMPT, max_tokens=3, temperature=0
            )
            assert told.choices[0].text == tokens
            with pytest.raises(NotFoundError, match=r"there are: 'acme/bert:1'"):
                client.completions.create(model="acme/other:1", prompt="the")
        asked = {"model": "acme/bert:1", "input": TEXTS[:1]}
        found = httpx.post(f"{address}/classify", json=asked, timeout=60).json()
        assert found["data"][0]["label"] == label
        shown = httpx.get(f"{address}/ditto/verification", timeout=60).text
        assert all(f"{name}.example" in shown for name in ORGANISATIONS)


async def _asks_with_asyncio(parties: Parties, logits: np.ndarray) -> None:
    async with ditto.AsyncClient(parties.deployment, parties.alice) as client:
        assert [card.name for card in await client.models()] == [
            "acme/bert:1",
            "acme/gpt2:1",
        ]
        (answer,) = await client.predict("acme/bert:1", TEXTS[:1])
        assert np.abs(answer.output - logits).max() < 0.02
        stream = client.stream("acme/gpt2:1", TEXTS[0][:12], 1)
        assert len([token async for token in stream]) == 1


def _searches_memory(parties: Parties, folder: Path) -> None:
    """The text, its tokens and the weights in plain are nowhere in a party."""
    ids = Tokenizer.load(folder).encode(TEXTS[0]).ids
    plain = {
        "the text": TEXTS[0].encode(),
        "tokens as int32": np.array(ids, np.int32).tobytes(),
        "tokens as int64": np.array(ids, np.int64).tobytes(),
    }
    for name, tensor in load_file(folder / "model.safetensors").items():
        weight = np.ascontiguousarray(tensor).reshape(-1)[:32]
        if weight.size == 32 and np.unique(weight).size > 16:
            plain[name] = weight.tobytes()
    assert len(plain) > 8
    for process in parties.processes.values():
        found, known = memory_search(process.pid, [*plain.values(), b"acme/bert:1"])
        assert known > 0, "memory could not be searched"
        missing = [name for name, at in zip(plain, found, strict=False) if at]
        assert missing == []


def memory_search(pid: int, patterns: list[bytes]) -> tuple[list[int], int]:
    """How often each pattern is in the memory of a process, and the last of them."""
    counts = [0] * len(patterns)
    with (
        open(f"/proc/{pid}/maps", encoding="ascii") as maps,
        open(f"/proc/{pid}/mem", "rb", 0) as memory,
    ):
        for line in maps:
            span, access, *_ = line.split()
            if not access.startswith("rw"):
                continue
            start, end = (int(text, 16) for text in span.split("-"))
            for at in range(start, end, 1 << 26):
                try:
                    memory.seek(at)
                    content = memory.read(min(1 << 26, end - at))
                except OSError:
                    continue
                for k, pattern in enumerate(patterns):
                    counts[k] += content.count(pattern)
    return counts[:-1], counts[-1]


def _survives_a_kill(parties: Parties, logits: np.ndarray) -> None:
    """A party is killed, and comes back: the client asks until it is answered."""
    with ditto.Client(parties.deployment, parties.alice) as client:
        stream = client.stream("acme/gpt2:1", PROMPT, 3, timeout=90)
        first = next(stream)
        parties.processes[1].kill()
        parties.processes[1].wait()
        time.sleep(1.0)
        parties.start(1)
        started = time.monotonic()
        (answer,) = client.predict("acme/bert:1", TEXTS[:1], timeout=90)
        print(f"answered {time.monotonic() - started:.1f} s after a kill")  # noqa: T201
        assert np.abs(answer.output - logits).max() < 0.02
        rest = list(stream)  # its state is gone: the text is begun again
        expected = [first.token, *(each.token for each in rest)]
        again = client.stream("acme/gpt2:1", PROMPT, 3)
        assert [each.token for each in again] == expected
    assert parties.wait_until_ready() < READY_SECONDS


def _leaves_no_text(parties: Parties) -> None:
    logged = parties.logs()
    assert "run finished" in logged
    for word in (PROMPT, "cat sat"):
        assert word not in logged
    for line in logged.splitlines():
        if line.startswith("{"):
            json.loads(line)


def test_a_party_drains(parties: Parties) -> None:
    """SIGTERM: it takes no more, ends well, and a client is told whom it waits for."""
    parties.processes[2].send_signal(signal.SIGTERM)
    assert parties.processes[2].wait(30) == 0
    with (
        ditto.Client(parties.deployment, parties.alice) as client,
        pytest.raises(ditto.errors.PeerError, match=r"org-c\.example") as caught,
    ):
        client.predict("acme/bert:1", TEXTS[:1], timeout=2)
    assert caught.value.peer == "org-c.example"
