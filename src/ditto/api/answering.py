"""Models of this machine, asked in private with three local parties for all of them.

The parties do one thing at a time: a batch of texts, or one token of a text. Between
these, whoever else asks has a turn.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from ditto.api.backends import PartiesBackend, State
from ditto.api.loading import from_pretrained
from ditto.api.pretrained import Pretrained
from ditto.client.answering import Answering, Audits, ModelCard, Party
from ditto.client.asking import Generated
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction
from ditto.client.sampling import Sampling
from ditto.compiler import Profile
from ditto.errors import DeadlineError, DittoError, SetupError, UnknownModelError
from ditto.files import read_limited
from ditto.launch import Launched
from ditto.models.chat_files import read_chat_files
from ditto.models.computation import Phase
from ditto.models.hub import find_folder
from ditto.models.sentence import PROMPTS
from ditto.models.tokenizer_files import TOKENIZER_FILES
from ditto.owner.samples import Text
from ditto.party.local import TIMEOUT
from ditto.runtime import ProcessTrio, Trio

BATCH = 8
"""Texts of one length that are asked together, if there are half as many: with MiniLM
and 16 tokens on two busy cores a batch of 8 took 13 to 20 s, a text alone 4 to 5."""
_MAX_FILE = 64 << 20

OnStage = Callable[[str], None]


class LocalAnswering(Answering):
    """Models in folders of this machine, and three parties that are its processes."""

    def __init__(
        self, trio: Trio, models: Mapping[str, tuple[Path, Pretrained]]
    ) -> None:
        self._trio = trio
        self._models = {name: model for name, (_, model) in models.items()}
        self._cards = {
            name: _card(name, folder, model) for name, (folder, model) in models.items()
        }
        self._lock = threading.Lock()

    def models(self) -> list[ModelCard]:
        """See Answering."""
        return list(self._cards.values())

    def audits(self) -> Audits:
        """See Answering: on one machine nothing."""
        return Audits()

    def parties(self) -> tuple[Party, ...]:
        """See Answering."""
        return tuple(
            Party(f"P{rank}", "this machine", "a process of this machine")
            for rank in range(3)
        )

    def count_tokens(
        self, model: str, text: str, *, add_special_tokens: bool = True
    ) -> int:
        """See Answering."""
        asked = self._model(model)
        whole = asked.model.sentence.encoding.prompt() + text
        encode = asked.tokenizer.encode
        return len(encode(whole, add_special_tokens=add_special_tokens).ids)

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
        """See Answering."""
        asked = self._model(model).with_policy(on_out_of_range)
        deadline = _deadline(timeout)
        answers: dict[int, Prediction] = {}
        for group in self._groups(asked, texts, text_pairs):
            pairs = None if text_pairs is None else [text_pairs[k] for k in group]
            with self._turn(deadline):
                found = asked.predict(
                    [texts[k] for k in group],
                    pairs,
                    batch_size=1 if len(group) == 1 else BATCH,
                    too_long=too_long,
                )
            answers |= zip(group, found, strict=True)
        return [answers[k] for k in range(len(texts))]

    def _groups(
        self, asked: Pretrained, texts: Sequence[str], pairs: Sequence[str] | None
    ) -> list[list[int]]:
        """Batches of texts of one length; a few that are left over come one by one."""
        seconds: Sequence[str | None] = pairs or [None] * len(texts)
        before = asked.model.sentence.encoding.prompt()
        by_bucket: dict[int, list[int]] = {}
        for k, (text, second) in enumerate(zip(texts, seconds, strict=True)):
            most = asked.max_tokens
            length = len(asked.tokenizer.encode(before + text, second, most).ids)
            by_bucket.setdefault(asked.bucket(length), []).append(k)
        groups = []
        for members in by_bucket.values():
            for start in range(0, len(members), BATCH):
                group = members[start : start + BATCH]
                enough = len(group) >= BATCH // 2
                groups += [group] if enough else [[k] for k in group]
        return groups

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
        """See Answering."""
        stream = self._model(model).stream(
            prompt, tokens, sampling=sampling, add_special_tokens=add_special_tokens
        )
        deadline = _deadline(timeout)
        try:
            while True:
                with self._turn(deadline):
                    token = next(stream, None)
                if token is None:
                    return
                yield Generated(token.ids[0], token.texts[0], token.in_range)
        finally:
            with self._lock, suppress(DittoError):  # gone parties keep nothing
                stream.close()

    def prepare(self, length: int, on_stage: OnStage = lambda _: None) -> None:
        """Have the parties run every model once on a sample text of this length."""
        for model in self._models.values():
            tokens = min(length, model.max_tokens)
            if not model.model.family.is_decoder:
                phases = [model.computation(Phase.FORWARD, 1, tokens)]
            else:
                room = model.cache_length(min(tokens + 1, model.max_tokens))
                phases = [
                    model.computation(Phase.PREFILL, 1, tokens),
                    model.computation(Phase.DECODE, 1, room),
                ]
            state: State = None
            for computation in phases:
                on_stage(f"{model.name}: preparing {computation}")
                with self._turn(None):
                    sample = model.plans.samples(computation)[0][1:3]
                    state = model.backend.run(computation, sample, state).state
            with self._lock:
                model.backend.release(state)

    def close(self) -> None:
        """End the parties."""
        self._trio.interrupt()
        self._trio.close()

    def _model(self, name: str) -> Pretrained:
        if name not in self._models:
            names = ", ".join(map(repr, self._models))
            raise UnknownModelError(
                f"There is no model {name!r} here; there are: {names}."
            )
        return self._models[name]

    @contextmanager
    def _turn(self, deadline: float | None) -> Iterator[None]:
        """The parties to oneself."""
        left = -1.0 if deadline is None else deadline - time.monotonic()
        if deadline is not None and left <= 0:
            raise DeadlineError("The deadline has passed before all was answered.")
        if not self._lock.acquire(timeout=left):
            raise DeadlineError("The parties had other work to do until the deadline.")
        try:
            yield
        finally:
            for model in self._models.values():
                _forget_costs(model)
            self._lock.release()


def open_local(
    folders: Mapping[str, str | Path],
    *,
    profile: str | Profile = "ditto",
    head: str | None = None,
    calibration: Sequence[Text] | None = None,
    prepare: Sequence[int] = (),
    cache: Path | Literal[False] | None = None,
    trio: Trio | Launched | None = None,
    on_stage: OnStage | None = None,
) -> LocalAnswering:
    """Models in Hugging Face folders, by name, and three parties for all of them.

    Plans for ``prepare`` tokens are made now, others when they are first needed. The
    rest is as in ``from_pretrained``.
    """
    if not folders:
        raise SetupError("Name the folder of a model, or several.")
    say = on_stage or (lambda _: None)
    if not isinstance(trio, Trio):
        say("starting three parties")
        trio = ProcessTrio(timeout=TIMEOUT, launched=trio, compiled=cache or None)
    try:
        models = {}
        for name, given in folders.items():
            say(f"loading {given}")
            folder = Path(find_folder(given))
            model = from_pretrained(
                folder,
                profile=profile,
                head=head,
                calibration=calibration,
                check=False,  # as a client that has no weights asks
                trio=trio,
                cache=cache,
                on_stage=on_stage,
            )
            models[name] = (folder, model)
        answering = LocalAnswering(trio, models)
        for length in prepare:
            answering.prepare(length, say)
        return answering
    except BaseException:
        trio.interrupt()
        trio.close()
        raise


def _forget_costs(model: Pretrained) -> None:
    """A process that stays must not keep what every request has cost."""
    if isinstance(model.backend, PartiesBackend):
        for costs in (model.backend.runs, model.backend.uploaded, model.backend.spent):
            costs.clear()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _card(name: str, folder: Path, model: Pretrained) -> ModelCard:
    chat = read_chat_files(folder)
    digest = hashlib.sha256(model.plans.identity.encode())
    for file in (*TOKENIZER_FILES, PROMPTS):
        path = folder / file
        content = b""
        if path.is_file():
            content = read_limited(path, _MAX_FILE, SetupError, f"{_MAX_FILE} bytes")
        digest.update(f"{file} {len(content)} ".encode() + content)
    return ModelCard(
        name,
        "local",
        model.model.head,
        model.max_tokens,
        digest.hexdigest(),
        int((folder / "config.json").stat().st_mtime),
        chat.template,
        chat.special_tokens or None,
    )
