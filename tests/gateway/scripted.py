"""A gateway in a thread, whose answers are scripted."""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np

from ditto.client.answering import Answering, Audits, ModelCard, Party
from ditto.client.asking import Generated
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction
from ditto.client.sampling import Sampling
from ditto.gateway.context import Gateway, Settings
from ditto.gateway.server import Server, bind
from ditto.models import Head

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
    with_special_tokens: list[bool] = field(default_factory=list)
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

    def audits(self) -> Audits:
        return Audits("products", 0.25)

    def parties(self) -> tuple[Party, ...]:
        return tuple(Party(f"P{k}", f"org {k}", f"host{k}:1") for k in range(3))

    def count_tokens(
        self, model: str, text: str, *, add_special_tokens: bool = True
    ) -> int:
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
        add_special_tokens: bool = True,
        timeout: float | None = None,
    ) -> Generator[Generated, None, None]:
        self.asked.append(prompt)
        self.with_special_tokens.append(add_special_tokens)
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


def post(address: str, path: str, body: object) -> httpx.Response:
    return httpx.post(f"{address}{path}", json=body, timeout=60)
