"""Gateways for tests: a scripted one in a thread, and a real one in a process."""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from ditto.client.answering import Answering, ModelCard, Party
from ditto.client.asking import Generated
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction
from ditto.client.sampling import Sampling
from ditto.gateway.context import Gateway, Settings
from ditto.gateway.server import Server, bind
from ditto.models import Head, random_model
from tests.folders import TEXTS, WORDS, gpt2_folder, write_model

CHAT = (
    "{% for m in messages %}{% if m.role not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('no such role') }}{% endif %}"
    "{{ m.role ~ ': ' ~ m.content }}\n{% endfor %}assistant:"
)


@dataclass
class Scripted(Answering):
    """Answers at once, or when it is let; says what was asked of it."""

    words: Sequence[str] = ("one", " two", " three")
    error: Exception | None = None
    in_range: bool | None = True
    pause: float = 0.0
    """Seconds before each word."""
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    sampled: list[Sampling | None] = field(default_factory=list)
    closed: int = 0
    """Streams that were closed before their end."""
    running: int = 0
    most_running: int = 0

    def __post_init__(self) -> None:
        self.go_on.set()

    def models(self) -> list[ModelCard]:
        common = ("acme", 64, "d1ge57", 1_700_000_000)
        heads = {
            "embed": Head.FEATURE_EXTRACTION,
            "classes": Head.TEXT_CLASSIFICATION,
            "acme/text:1": Head.TEXT_GENERATION,
        }
        cards = [
            ModelCard(name, common[0], head, *common[1:])
            for name, head in heads.items()
        ]
        chat = ModelCard("chat", "acme", Head.TEXT_GENERATION, *common[1:], CHAT, {})
        return [*cards, chat]

    def parties(self) -> tuple[Party, ...]:
        return tuple(Party(f"P{k}", f"org {k}", f"host{k}:1") for k in range(3))

    def count_tokens(self, model: str, text: str) -> int:
        return len(text.split())

    def predict(
        self,
        model: str,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        too_long: TooLong = "raise",
        on_out_of_range: OnOutOfRange = "retry",
        timeout: float | None = None,
    ) -> list[Prediction]:
        with self._working():
            self.asked += texts
            self.go_on.wait()
            if self.error is not None:
                raise self.error
            head = Head.FEATURE_EXTRACTION
            given = {"used_tokens": 3, "in_range": self.in_range}
            if model == "classes":
                head = Head.TEXT_CLASSIFICATION
                given |= {"label": "b", "probabilities": {"b": 0.75, "a": 0.25}}
            row = np.array([0.5, 1.5], np.float32)
            return [Prediction(head, row * len(t), **given) for t in texts]  # type: ignore[arg-type]

    def stream(
        self,
        model: str,
        prompt: str,
        tokens: int,
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> Generator[Generated, None, None]:
        self.asked.append(prompt)
        self.sampled.append(sampling)
        with self._working():
            try:
                for k, word in enumerate(self.words[:tokens]):
                    self.go_on.wait()
                    time.sleep(self.pause)
                    if self.error is not None:
                        raise self.error
                    yield Generated(k, word, self.in_range)
            except GeneratorExit:
                self.closed += 1
                raise

    @contextmanager
    def _working(self) -> Iterator[None]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            yield
        finally:
            self.running -= 1

    def close(self) -> None:
        pass


@contextmanager
def served(answering: Answering, **settings: object) -> Iterator[str]:
    """The address of a gateway that runs in a thread."""
    gateway = Gateway(answering, Settings(**settings))  # type: ignore[arg-type]
    ready = threading.Event()
    server = Server(gateway, 1, ready.set)
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(10)
            gateway.close()


def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what other threads do."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass(frozen=True)
class Process:
    """A gateway as people start it."""

    address: str
    root: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        return (self.root / "out").read_text() + (self.root / "err").read_text()


def tiny_models(root: Path) -> list[Path]:
    """An encoder of sentences, and a GPT-2 that converses in few tokens."""
    gpt2 = gpt2_folder(root / "gpt2", layers=1, positions=128)
    template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% endfor %}"
    (gpt2 / "chat_template.jinja").write_text(template)
    return [embedding_folder(root / "embed"), gpt2]


def embedding_folder(folder: Path) -> Path:
    """As sentence-transformers writes it."""
    model = random_model(
        "bert-tiny", hidden_size=32, intermediate_size=128, num_hidden_layers=1,
        vocab_size=len(WORDS), seed=3,
    )  # fmt: skip
    write_model(folder, model)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"architectures": ["BertModel"]})
    )
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_N", "Normalize")]
    listed = [{"path": path, "type": f"models.{kind}"} for path, kind in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@contextmanager
def gateway_process(root: Path, *arguments: str) -> Iterator[Process]:
    """``ditto gateway`` with these arguments, at a free port."""
    with (root / "out").open("wb") as out, (root / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", "from ditto.cli import main; main()", "gateway",
             *arguments, "--port", "0"],
            stdout=out, stderr=err,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        pattern = re.compile(r"^ready: .*, at (http://\S+)/v1; ", re.M)
        while (said := pattern.search((root / "out").read_text())) is None:
            assert process.poll() is None, (root / "err").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield Process(said[1], root, process)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def tiny_gateway() -> Iterator[Process]:
    """A gateway over two tiny models."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = root / "texts.txt"
        texts.write_text("\n".join(TEXTS) + "\n")
        folders = [str(model) for model in tiny_models(root)]
        prepared = ("--length", "8", "--calibration", str(texts))
        with gateway_process(root, "--local", *folders, *prepared) as process:
            yield process


def post(address: str, path: str, body: object) -> httpx.Response:
    return httpx.post(f"{address}{path}", json=body, timeout=60)
