"""A model from a Hugging Face folder, asked in private."""

import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ditto.client import (
    BUCKETS,
    Sampler,
    Sampling,
    Tokenizer,
    bucket_of,
    pad_batch,
)
from ditto.client.tokens import Encoded
from ditto.compiler import Profile
from ditto.compiler.profile import find_profile
from ditto.engine import Trio
from ditto.errors import AnswerWarning, CapacityError, CheckpointError, SetupError
from ditto.inference.backends import (
    Backend,
    FloatBackend,
    Mode,
    OnPart,
    OnStage,
    PartiesBackend,
    SimulatedBackend,
)
from ditto.inference.doubt import compare, doubt_of_token
from ditto.inference.jobs import Job
from ditto.inference.plans import Plans
from ditto.inference.samples import Text, TextSamples
from ditto.models import Model, from_checkpoint, read_checkpoint

Reals = npt.NDArray[np.float32]

CACHE_BUCKETS = (64, 128, 256, 512, 1024)
"""Positions that a cache has room for; it grows from one to the next."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What the client learns of one text."""

    values: Reals
    """Logits of the labels (of each token, for tagging), or an embedding."""
    label: str | None = None
    """The likeliest label, if there are labels."""
    difference: float | None = None
    """To the float model's answer, relative to its size, where that is known."""
    doubt: str | None = None
    """Why the answer is not to be trusted, if it is not."""


@dataclass(frozen=True)
class Token:
    """One generated token of each prompt, and the text it adds.

    A text that has ended goes on with padding, which adds nothing.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    doubts: tuple[str | None, ...] = ()
    """For each prompt, why its token is not to be trusted, if it is not."""


def from_pretrained(
    folder: str | Path,
    *,
    profile: str | Profile = "ditto",
    mode: Mode = "mpc",
    head: str | None = None,
    calibration: Sequence[Text] | None = None,
    margin: float | None = None,
    hides_length: bool = False,
    check: bool = True,
    trio: Trio | None = None,
    on_stage: OnStage | None = None,
    on_part: OnPart | None = None,
) -> "Pretrained":
    """The model in a Hugging Face folder, to be asked in private.

    ``mode`` says who computes: "mpc" three parties, each a process of this machine
    (or those of ``trio``); "simulate" the same plan on plain integers; "float" the
    model itself. ``calibration`` are texts, or pairs of texts, like those that will be
    asked; without them everyday ones serve. ``margin`` is how many times further than
    on those any value may go (2 unless the profile says otherwise). ``hides_length``
    keeps secret how much of a padded text is text (encoders only). ``head`` is what the
    model is used for, if not what it was saved for.

    As text and weights are in this process, every private answer is compared with the
    float model's, unless ``check`` is False: one that is not to be trusted says so in
    its ``doubt`` and as an ``AnswerWarning``.
    """
    checkpoint = read_checkpoint(folder)
    model = from_checkpoint(checkpoint, head)
    labels = checkpoint.config.get("id2label") or {}
    names = {int(k): str(v) for k, v in labels.items()}
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocabulary > model.config.vocabulary:
        raise CheckpointError(
            f"The tokenizer knows {tokenizer.vocabulary} tokens, the model "
            f"{model.config.vocabulary}: they do not belong together."
        )
    samples = TextSamples(tokenizer, calibration)
    chosen = find_profile(profile)
    if margin is not None:
        chosen = chosen.replace(margin=margin)
    plans = Plans(model, chosen, samples)
    return Pretrained(
        model,
        tokenizer,
        names,
        plans,
        mode,
        hides_length=hides_length,
        check=check,
        trio=trio,
        on_stage=on_stage,
        on_part=on_part,
    )


class Pretrained:
    """A model, its tokenizer, and who computes it. Close it when done."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        labels: dict[int, str],
        plans: Plans,
        mode: Mode,
        *,
        hides_length: bool = False,
        check: bool = True,
        trio: Trio | None = None,
        on_stage: OnStage | None = None,
        on_part: OnPart | None = None,
    ) -> None:
        if hides_length and model.family == "gpt2":
            raise SetupError("Only encoders can hide how long a text is.")
        self.model, self.tokenizer, self.labels = model, tokenizer, labels
        self.plans = plans
        self._hides_length = hides_length
        self._on_stage = on_stage or (lambda _: None)
        self._check = check
        self._exact = FloatBackend(model) if mode == "mpc" and check else None
        self._simulator: SimulatedBackend | None = None
        self.backend: Backend
        match mode:
            case "float":
                self.backend = FloatBackend(model)
            case "simulate":
                self.backend = SimulatedBackend(model, plans)
            case "mpc":
                self.backend = PartiesBackend(
                    model, plans, trio, on_stage=on_stage, on_part=on_part
                )
            case _:
                raise SetupError(f"Mode {mode!r} is none of float, simulate and mpc.")

    def also(self, mode: Mode) -> "Pretrained":
        """The same model, with the same plans, computed by another."""
        return Pretrained(
            self.model,
            self.tokenizer,
            self.labels,
            self.plans,
            mode,
            hides_length=self._hides_length,
            check=self._check,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the parties, if they were started for this model."""
        self.backend.close()

    # Answers about whole texts

    def predict(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        batch: int = 1,
        length: int | None = None,
    ) -> list[Answer]:
        """Logits, tags or embeddings of texts, or of pairs of texts.

        Texts are padded to the bucket that holds them, or all to ``length``, and asked
        ``batch`` at a time. The parties learn the bucket of each, and the length within
        it unless that is hidden.
        """
        if isinstance(texts, str):
            raise SetupError("predict takes a list of texts, such as [text].")
        if self.model.head == "generate":
            raise SetupError("This model generates text; use generate.")
        if pairs is not None and len(pairs) != len(texts):
            raise SetupError(
                f"There are {len(texts)} texts and {len(pairs)} second texts."
            )
        if length is not None and not 2 <= length <= self.positions:
            raise SetupError(
                f"A length of {length}: the model has {self.positions} positions."
            )
        seconds: Sequence[str | None] = pairs or [None] * len(texts)
        encoded = [
            self.tokenizer.encode(text, second, max_length=length or self.positions)
            for text, second in zip(texts, seconds, strict=True)
        ]
        found: dict[int, Answer] = {}
        for bucket, members in self._buckets(encoded, length).items():
            for start in range(0, len(members), batch):
                group = members[start : start + batch]
                asked = [encoded[k] for k in group]
                rows = self._ask(asked, bucket, batch, pairs is not None)
                found |= zip(group, rows, strict=False)
        answers = [found[k] for k in range(len(texts))]
        for k, answer in enumerate(answers, 1):
            if answer.doubt is not None:
                _warn(f"The answer to text {k} is not to be trusted: {answer.doubt}.")
        return answers

    def _buckets(
        self, encoded: Sequence[Encoded], length: int | None
    ) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for k, one in enumerate(encoded):
            bucket = length or self.bucket(len(one.ids))
            found.setdefault(bucket, []).append(k)
        return found

    def bucket(self, length: int, buckets: Sequence[int] = BUCKETS) -> int:
        """How many tokens a text of so many is padded to."""
        return bucket_of(length, (*buckets, self.positions), limit=self.positions)

    @property
    def positions(self) -> int:
        """How many tokens the model can take."""
        config = self.model.config
        return int(config.positions - getattr(config, "first_position", 0))

    def inputs(
        self, encoded: Sequence[Encoded], length: int, *, pairs: bool = False
    ) -> tuple[Any, ...]:
        """The arrays of a batch, as a job takes them."""
        padded = pad_batch(encoded, length, self.tokenizer.pad_id)
        mask = padded.mask.astype(np.float32) if self._hides_length else padded.mask
        return (padded.ids, mask, padded.types) if pairs else (padded.ids, mask)

    def job(self, kind: Any, batch: int, length: int, **options: Any) -> Job:
        """A job of this model."""
        return Job(kind, batch, length, hides_length=self._hides_length, **options)

    def _ask(
        self, asked: list[Encoded], bucket: int, batch: int, pairs: bool
    ) -> list[Answer]:
        full = [*asked, *[asked[-1]] * (batch - len(asked))]
        typed = pairs and getattr(self.model.config, "types", 0) > 1
        job = self.job("answer", batch, bucket, pairs=typed)
        inputs = self.inputs(full, bucket, pairs=typed)
        values, _ = self.backend.run(job, inputs)
        answers = [
            self._answer(row[: len(one.ids)] if self._by_token else row)
            for row, one in zip(values, asked, strict=False)
        ]
        if self._exact is None:
            return answers
        exact, _ = self._exact.run(job, inputs)
        compared = [
            self._compared(answer, row)
            for answer, row in zip(answers, exact, strict=False)
        ]
        if any(answer.doubt for answer in compared):
            cause = self._cause(job, inputs)
            compared = [
                replace(a, doubt=f"{a.doubt}; {cause}") if a.doubt else a
                for a in compared
            ]
        return compared

    @property
    def _by_token(self) -> bool:
        """Whether an answer has a row for every token."""
        return self.model.head in ("tag", "fill")

    def _answer(self, row: Any) -> Answer:
        if self.model.head != "classify":
            return Answer(np.asarray(row))
        best = int(np.argmax(row))
        return Answer(np.asarray(row), self.labels.get(best, str(best)))

    def _compared(self, answer: Answer, exact: Any) -> Answer:
        """An answer beside the float model's."""
        due = exact[: len(answer.values)] if self._by_token else exact
        difference, doubt = compare(answer.values, due, self.model.head)
        return replace(answer, difference=difference, doubt=doubt)

    def _cause(self, job: Job, inputs: Sequence[Any]) -> str:
        """Where a value left its range, if the simulator sees one."""
        self._on_stage("an answer is wrong: asking the simulator why")
        if self._simulator is None:
            self._simulator = SimulatedBackend(self.model, self.plans)
        try:
            self._simulator.run(job, inputs)
        except CapacityError as error:
            return f"{error}".removesuffix(".")
        return "the simulator sees no value leave its range"

    # Generation

    def generate(
        self,
        prompts: str | Sequence[str],
        tokens: int = 20,
        *,
        sampling: Sampling | None = None,
        inside: bool = False,
    ) -> Generator[Token, None, None]:
        """Tokens that follow the prompts, as they come.

        The client chooses each from the logits, by ``sampling``; with ``inside`` the
        parties choose the likeliest and the client learns nothing else. Ends early when
        every text has ended.
        """
        if self.model.head != "generate":
            raise SetupError(
                f"A model with head {self.model.head!r} does not generate text."
            )
        if inside and sampling is not None and sampling.temperature > 0:
            raise SetupError(
                "The parties choose the likeliest token; they do not draw."
            )
        if tokens < 1:
            raise SetupError(f"At least one token is generated, got tokens={tokens}.")
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        if not texts:
            raise SetupError("generate takes one prompt or more.")
        return self._generate(texts, tokens, Sampler(sampling or Sampling()), inside)

    def _generate(
        self, texts: list[str], tokens: int, sampler: Sampler, inside: bool
    ) -> Generator[Token, None, None]:
        room = self.positions - tokens + 1
        if room < 1:
            raise SetupError(
                f"The model has {self.positions} positions: no room for a prompt and "
                f"{tokens} tokens."
            )
        encoded = [self.tokenizer.encode(text) for text in texts]
        encoded = [
            Encoded(
                one.ids[-room:] or [self.tokenizer.pad_id], one.types[-room:] or [0]
            )
            for one in encoded
        ]
        bucket = self.bucket(max(len(e.ids) for e in encoded))
        padded = pad_batch(encoded, bucket, self.tokenizer.pad_id)
        positions, count = padded.lengths, len(texts)
        job = self.job("begin", count, bucket, inside=inside)
        begun = padded.ids, padded.lengths
        result, state = self.backend.run(job, begun)
        ids: list[list[int]] = [[] for _ in texts]
        shown = [""] * count
        ended = [False] * count
        try:
            exact, past = self._exactly(job, begun)
            for k in range(tokens):
                eos = self.tokenizer.eos_id
                chosen = [
                    self.tokenizer.pad_id if over else token
                    for token, over in zip(
                        _choose(result, sampler, inside), ended, strict=True
                    )
                ]
                for row, token, over in zip(ids, chosen, ended, strict=True):
                    row.extend([] if over else [token])
                added, shown = self._added(ids, shown)
                doubts = _doubts(result, exact, ended)
                for doubt in filter(None, doubts):
                    _warn(f"Token {k + 1} is not to be trusted: {doubt}.")
                yield Token(tuple(chosen), added, doubts)
                ended = [e or t == eos for e, t in zip(ended, chosen, strict=True)]
                if k + 1 == tokens or all(ended):
                    return
                room = self.bucket(int(positions.max()) + 1, CACHE_BUCKETS)
                job = self.job("go on", count, room, inside=inside)
                asked = np.asarray(chosen, np.int32), positions
                result, state = self.backend.run(job, asked, state)
                exact, past = self._exactly(job, asked, past)
                positions = positions + 1
        finally:
            self.backend.release(state)

    def _exactly(self, job: Job, inputs: Sequence[Any], state: Any = None) -> Any:
        """The float model's logits and its state, if answers are compared."""
        if self._exact is None:
            return None, None
        return self._exact.run(replace(job, inside=False), inputs, state)

    def _added(
        self, ids: list[list[int]], shown: list[str]
    ) -> tuple[tuple[str, ...], list[str]]:
        """What the last tokens add to the texts: whole characters only."""
        now = [self.tokenizer.decode(row) for row in ids]
        whole = [
            t if not t.endswith("\ufffd") else s
            for t, s in zip(now, shown, strict=True)
        ]
        added = tuple(t[len(s) :] for t, s in zip(whole, shown, strict=True))
        return added, whole


def _doubts(result: Any, exact: Any, ended: Sequence[bool]) -> tuple[str | None, ...]:
    """What is to be said of the tokens of prompts that have not ended."""
    if exact is None:
        return (None,) * len(ended)
    return tuple(
        None if over else _doubt_of(got, due)
        for got, due, over in zip(np.asarray(result), exact, ended, strict=True)
    )


def _doubt_of(got: Any, exact: Any) -> str | None:
    """Of a row of logits, or of a token that the parties chose."""
    if np.ndim(got) == 0:
        return doubt_of_token(int(got), exact)
    return compare(got, exact, "generate")[1]


def _warn(text: str) -> None:
    warnings.warn(text, AnswerWarning, stacklevel=3)


def _choose(result: Any, sampler: Sampler, inside: bool) -> list[int]:
    if inside:
        return [int(token) for token in result]
    return [sampler.choose(row) for row in result]
