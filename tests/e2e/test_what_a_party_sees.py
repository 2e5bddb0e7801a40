"""What was asked, what was answered and the weights are nowhere at a party in plain.

Real processes are asked about texts with marker words; then the disk, the logs, the
pages and the memory of a party are searched. The same search finds all of it at the
client, which has it in plain.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest
from openai import OpenAI

from benchmarks.search import running_gateway
from ditto.api import from_pretrained
from ditto.client.bundle import ClientBundle, read_client_bundle
from ditto.fixedpoint import FxpType, encode
from tests.folders import TEXTS
from tests.gateway.processes import embedding_folder

from .test_service import Parties, done
from .traces import in_files, in_memory, in_pieces

NAME = "acme/embed:1"
MARKER, OTHER = "zanzibarquux", "timbuktuvwx"
TEXT = f"the {MARKER} cat ran under old red trees , not blue"
SEEN = 1  # the party that is searched
VALUES = 12
"""In a row, so many that no other numbers are the same by chance."""
CLIENT = [sys.executable, "-m", "tests.e2e.asking_process"]

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root reads the memory of other processes"
)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    """With a cache of their own, as on machines of their own."""
    folder = tmp_path_factory.mktemp("deployment")
    running = Parties(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DITTO_CACHE", str(folder / "parties-cache"))
            for rank in range(3):
                running.start(rank)
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


def test_a_search_finds_what_is_there(tmp_path: Path) -> None:
    patterns = {"text": b"a marker in the text", "no": b"nowhere at all"}
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(99) + patterns["text"])
    assert in_files([tmp_path], patterns) == {"text"}
    content = bytes(50) + patterns["text"] + bytes(50)
    for at in range(40, 80):
        assert in_pieces([content[:at], content[at:]], patterns) == {"text"}


@needs_root
def test_a_party_has_nothing_in_plain(parties: Parties, tmp_path: Path) -> None:
    folder = embedding_folder(tmp_path / "embed")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))  # as it is opened
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    owner = ["--deployment", str(parties.deployment), "--as", str(parties.owner)]
    shape = ["--length", "16", "--calibration", str(texts)]
    done("owner", "publish", str(folder), "--name", NAME, *shape, *owner)
    store = parties.folder / f"store{SEEN}"
    (client_folder,) = store.glob("models/*/client")
    bundle = read_client_bundle(client_folder)
    plain = {**what_is_asked(bundle), **what_the_owner_has(folder, bundle)}
    assert len(plain) > 20
    with asking(parties, tmp_path) as (process, answer):
        plain |= what_is_answered(answer, bundle)
        has = in_memory(process.pid, plain)  # before anything is planted there
        assert {"the text", "a word", "tokens as int32", "answer as float32"} <= has
        for pattern in plain.values():
            say(process, pattern.hex())
        assert in_memory(process.pid, plain) == plain.keys()

    named = {"its model": NAME.encode()}
    running = parties.processes[SEEN].pid
    assert in_memory(running, {**plain, **named}) == named.keys()
    log = parties.folder / f"party{SEEN}.log"
    assert in_files([log], {**plain, **named}) == named.keys()
    caches = parties.folder / "parties-cache"
    assert in_files([store, caches], {**plain, **named}) == named.keys()
    for path in ("/metrics", "/ready", "/health"):
        code, page = parties.page(SEEN, path)
        assert code == 200
        assert in_pieces([page.encode()], plain) == set()
    metrics = parties.page(SEEN, "/metrics")[1]
    assert "ditto_request_success_total 1.0" in metrics
    sent = re.findall(r'^ditto_link_bytes_total{peer="(.+)"} [1-9]', metrics, re.M)
    assert sent == ["org-a.example", "org-c.example"]
    _searches_the_gateway(parties, tmp_path)


def _searches_the_gateway(parties: Parties, folder: Path) -> None:
    """A gateway has texts in its memory, and leaves none in what it writes."""
    arguments = ("--deployment", str(parties.deployment), "--as", str(parties.alice))
    patterns = {"the text": OTHER.encode(), "the call": b"/v1/embeddings"}
    with running_gateway(folder, *arguments) as (address, process):
        with OpenAI(base_url=f"{address}/v1", api_key="none") as client:
            client.embeddings.create(model=NAME, input=[f"the {OTHER} cat"])
        assert in_memory(process.pid, patterns) == patterns.keys()
    logs = [folder / "out", folder / "err"]
    assert all(log.is_file() for log in logs)
    assert "the text" not in in_files(logs, patterns)
    everything = [parties.folder / name for name in ("store0", "store1", "store2")]
    everything += [parties.folder / f"party{rank}.log" for rank in range(3)]
    assert in_files(everything, {"the text": OTHER.encode()}) == set()


def what_is_asked(bundle: ClientBundle) -> dict[str, bytes]:
    ids = bundle.tokenizer.encode(TEXT).ids
    assert len(set(ids)) > 8
    kinds = ("int16", "int32", "int64", "float32")
    tokens = {f"tokens as {k}": np.array(ids, k).tobytes() for k in kinds}
    return {"the text": TEXT.encode(), "a word": MARKER.encode(), **tokens}


def what_the_owner_has(folder: Path, bundle: ClientBundle) -> dict[str, bytes]:
    """Rows and columns of the weights, as numbers and as the plans encode them."""
    with from_pretrained(folder, calibration=TEXTS, mode="float") as model:
        leaves = jax.tree_util.tree_flatten_with_path(model.model.params)[0]
    plain: dict[str, bytes] = {}
    for k, (path, leaf) in enumerate(leaves):
        weight = np.asarray(leaf)
        name = jax.tree_util.keystr(path)
        if weight.ndim != 2 or min(weight.shape) < VALUES or len(plain) > 24:
            continue
        types = {
            encoding.type
            for signature in bundle.offers.values()
            for encoding in signature.inputs[k].encodings
            if encoding.type is not None
        }
        assert types
        for line, some in (("row", weight[1]), ("column", weight[:, 1])):
            row = some[:VALUES]
            assert np.unique(row).size == VALUES
            plain[f"{line} of {name}"] = row.astype(np.float32).tobytes()
            for kind in types:
                plain[f"{line} of {name} as {kind}"] = encode(row, kind).tobytes()
    return plain


def what_is_answered(answer: list[float], bundle: ClientBundle) -> dict[str, bytes]:
    """The embedding as numbers, and as the plan encodes it."""
    kinds = {
        output.type
        for signature in bundle.offers.values()
        for output in signature.outputs
        if isinstance(output.type, FxpType)
    }
    assert kinds
    row = np.array(answer)[:VALUES]
    assert np.unique(row).size == VALUES
    numbers = ("float32", "float64")
    return {
        **{f"answer as {number}": row.astype(number).tobytes() for number in numbers},
        **{f"answer as {kind}": encode(row, kind).tobytes() for kind in kinds},
    }


@contextmanager
def asking(
    parties: Parties, folder: Path
) -> Iterator[tuple["subprocess.Popen[str]", list[float]]]:
    """A client's process that has asked and goes on, and its answer."""
    told = {
        "deployment": str(parties.deployment),
        "credentials": str(parties.alice),
        "cache": str(folder / "client-cache"),
        "model": NAME,
        "text": TEXT,
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(CLIENT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process, json.loads(say(process, json.dumps(told)))
    assert process.returncode == 0


def say(process: "subprocess.Popen[str]", line: str) -> str:
    """Send a line to a process; the line that it answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline()
