"""A model from a Hugging Face folder, asked in private."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
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
from ditto.errors import CheckpointError, SetupError
from ditto.inference.backends import (
    Backend,
    FloatBackend,
    Mode,
    OnPart,
    OnStage,
    PartiesBackend,
    SimulatedBackend,
)
from ditto.inference.jobs import Job
from ditto.inference.plans import Plans
from ditto.inference.sample_text import SAMPLE_TEXT
from ditto.inference.samples import TextSamples
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


@dataclass(frozen=True)
class Token:
    """One generated token of each prompt, and the text it adds.

    A text that has ended goes on with padding, which adds nothing.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]


def from_pretrained(
    folder: str | Path,
    *,
    profile: str | Profile = "ditto",
    mode: Mode = "mpc",
    head: str | None = None,
    calibration: Sequence[str] | None = None,
    hides_length: bool = False,
    trio: Trio | None = None,
    on_stage: OnStage | None = None,
    on_part: OnPart | None = None,
) -> "Pretrained":
    """The model in a Hugging Face folder, to be asked in private.

    ``mode`` says who computes: "mpc" three parties, each a process of this machine
    (or those of ``trio``); "simulate" the same plan on plain integers; "float" the
    model itself. ``calibration`` are texts like those that will be asked; without
    them a few everyday sentences serve. ``hides_length`` keeps secret how much of a
    padded text is text (encoders only). ``head`` is what the model is used for, if not
    what it was saved for.
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
    samples = TextSamples(tokenizer, calibration or SAMPLE_TEXT)
    plans = Plans(model, find_profile(profile), samples)
    return Pretrained(
        model,
        tokenizer,
        names,
        plans,
        mode,
        hides_length=hides_length,
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
        trio: Trio | None = None,
        on_stage: OnStage | None = None,
        on_part: OnPart | None = None,
    ) -> None:
        if hides_length and model.family == "gpt2":
            raise SetupError("Only encoders can hide how long a text is.")
        self.model, self.tokenizer, self.labels = model, tokenizer, labels
        self.plans = plans
        self._hides_length = hides_length
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
                values = self._ask(asked, bucket, batch, pairs is not None)
                for k, row in zip(group, values, strict=False):
                    found[k] = self._answer(row, len(encoded[k].ids))
        return [found[k] for k in range(len(texts))]

    def _buckets(
        self, encoded: Sequence[Encoded], length: int | None
    ) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for k, one in enumerate(encoded):
            bucket = length or self._bucket(len(one.ids), BUCKETS)
            found.setdefault(bucket, []).append(k)
        return found

    def _bucket(self, length: int, buckets: Sequence[int]) -> int:
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

    def _ask(self, asked: list[Encoded], bucket: int, batch: int, pairs: bool) -> Any:
        full = [*asked, *[asked[-1]] * (batch - len(asked))]
        typed = pairs and getattr(self.model.config, "types", 0) > 1
        job = self.job("answer", batch, bucket, pairs=typed)
        values, _ = self.backend.run(job, self.inputs(full, bucket, pairs=typed))
        return values

    def _answer(self, row: Any, length: int) -> Answer:
        if self.model.head in ("tag", "fill"):
            return Answer(np.asarray(row[:length]))
        if self.model.head == "classify":
            best = int(np.argmax(row))
            return Answer(np.asarray(row), self.labels.get(best, str(best)))
        return Answer(np.asarray(row))

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
        bucket = self._bucket(max(len(e.ids) for e in encoded), BUCKETS)
        padded = pad_batch(encoded, bucket, self.tokenizer.pad_id)
        positions, count = padded.lengths, len(texts)
        job = self.job("begin", count, bucket, inside=inside)
        result, state = self.backend.run(job, (padded.ids, padded.lengths))
        ids: list[list[int]] = [[] for _ in texts]
        shown = [""] * count
        ended = [False] * count
        try:
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
                yield Token(tuple(chosen), added)
                ended = [e or t == eos for e, t in zip(ended, chosen, strict=True)]
                if k + 1 == tokens or all(ended):
                    return
                room = self._bucket(int(positions.max()) + 1, CACHE_BUCKETS)
                job = self.job("go on", count, room, inside=inside)
                token_ids = np.asarray(chosen, np.int32)
                result, state = self.backend.run(job, (token_ids, positions), state)
                positions = positions + 1
        finally:
            self.backend.release(state)

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


def _choose(result: Any, sampler: Sampler, inside: bool) -> list[int]:
    if inside:
        return [int(token) for token in result]
    return [sampler.choose(row) for row in result]
