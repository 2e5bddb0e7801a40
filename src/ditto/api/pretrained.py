"""A model, its tokenizer and who computes it, asked in private."""

import copy
import warnings
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from ditto.analysis import LAN, Estimate, Network, estimate, explain
from ditto.api.answers import Answer, Generation, Token
from ditto.api.backends import (
    Backend,
    FloatBackend,
    Mode,
    OnPart,
    OnStage,
    Outcome,
    PartiesBackend,
    SimulatedBackend,
    State,
)
from ditto.api.doubt import compare, doubts_of_tokens
from ditto.api.local import Run
from ditto.api.out_of_range import ask
from ditto.api.prompts import added_texts, choose_tokens, encode_prompts, finished
from ditto.client import (
    BUCKETS,
    Sampler,
    Sampling,
    Tokenizer,
    bucket_of,
    pad_batch,
)
from ditto.client.out_of_range import OnOutOfRange, check_policy, refusal
from ditto.client.questions import Asked, Question, TooLong, make_questions
from ditto.client.reading import Reader, cosine_of
from ditto.client.tokens import Encoded
from ditto.errors import AnswerWarning, CapacityError, SetupError
from ditto.fixedpoint import Array
from ditto.launch import Launched
from ditto.models import Head, Model
from ditto.models.computation import Computation, Phase, Reveal
from ditto.owner.plans import Plans
from ditto.plan import Audit, Plan, Tree
from ditto.runtime import Trio

CACHE_BUCKETS = (64, 128, 256, 512, 1024)
"""Positions that a cache has room for; it grows from one to the next."""


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
        hide_length: bool = False,
        check: bool = True,
        on_out_of_range: OnOutOfRange = "retry",
        name: str = "model",
        trio: Trio | Launched | None = None,
        on_stage: OnStage | None = None,
        on_part: OnPart | None = None,
        cache: Path | None = None,
        warm: bool = False,
        audit: Audit = "off",
        public_prefix: Sequence[int] = (),
    ) -> None:
        """``public_prefix`` are tokens that the model has a prefix of."""
        if hide_length and model.family.is_decoder:
            raise SetupError("Only encoders hide lengths: leave out hide_length.")
        self.model, self.tokenizer, self.labels = model, tokenizer, labels
        self.plans = plans
        self.public_prefix = tuple(public_prefix)
        problem_type = model.published.get("problem_type")
        self._reader = Reader(
            model.head, tokenizer, labels, problem_type, model.sentence.encoding
        )
        self._hide_length, self._check, self._audit = hide_length, check, audit
        self._on_stage = on_stage or (lambda _: None)
        self._policy = check_policy(on_out_of_range)
        self.name, self.mode = name, mode
        self._exact = FloatBackend(model) if mode == "mpc" and check else None
        self._simulator: SimulatedBackend | None = None
        self.backend: Backend
        match mode:
            case "float":
                self.backend = FloatBackend(model)
            case "simulate":
                self.backend = SimulatedBackend(plans, on_stage)
            case "mpc":
                self.backend = PartiesBackend(
                    plans,
                    trio,
                    on_stage=on_stage,
                    on_part=on_part,
                    cache=cache,
                    warm=warm,
                    audit=audit,
                )
            case _:
                raise SetupError(f"Mode {mode!r} is none of float, simulate and mpc.")

    def with_mode(self, mode: Mode) -> "Pretrained":
        """The same model with the same plans in another mode."""
        return Pretrained(
            self.model,
            self.tokenizer,
            self.labels,
            self.plans,
            mode,
            hide_length=self._hide_length,
            check=self._check,
            on_out_of_range=self._policy,
            name=self.name,
            on_stage=self._on_stage,
            audit=self._audit,
            public_prefix=self.public_prefix,
        )

    def with_policy(self, on_out_of_range: OnOutOfRange) -> "Pretrained":
        """The same model, at the same parties, with another ``on_out_of_range``."""
        same = copy.copy(self)
        same._policy = check_policy(on_out_of_range)
        return same

    def __repr__(self) -> str:
        model = self.model
        return (
            f"<{self.name}: {model.family.model_type} for {model.head.value}, "
            f"{model.config.num_hidden_layers} layers, {model.size / 1e6:.1f}M "
            f"weights, "
            f"{self.max_tokens} tokens at most; profile {self.plans.profile.name}, "
            f"mode {self.mode}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the parties, if they were started for this model."""
        self.backend.close()

    # Before anything runs, and after

    def plan(self, pad_to: int = BUCKETS[0], batch_size: int = 1) -> Plan:
        """What the parties do for texts of up to ``pad_to`` tokens, or prompts."""
        phase = Phase.PREFILL if self.model.family.is_decoder else Phase.FORWARD
        return self.plans.plan(self.computation(phase, batch_size, pad_to))

    def plans_of(self, pad_to: int, batch_size: int = 1) -> dict[str, Plan]:
        """The plan of an answer; or those of the first token and of each further one,
        in a cache that has room for a few."""
        if not self.model.family.is_decoder:
            return {"answer": self.plan(pad_to, batch_size)}
        length = self.cache_length(min(pad_to + 1, self.max_tokens))
        decode = self.computation(Phase.DECODE, batch_size, length)
        return {
            "first token": self.plan(pad_to, batch_size),
            "further token": self.plans.plan(decode),
        }

    def explain(self, pad_to: int = BUCKETS[0], batch_size: int = 1) -> str:
        """A table of the plan's steps: scope, types, bytes, rounds."""
        return explain(self.plan(pad_to, batch_size))

    def estimate(
        self, network: Network = LAN, pad_to: int = BUCKETS[0], batch_size: int = 1
    ) -> Estimate:
        """How long an answer will take on a network."""
        return estimate(self.plan(pad_to, batch_size), network)

    @property
    def last_run(self) -> Run | None:
        """What the parties' last computation cost, if they have computed any."""
        if isinstance(self.backend, PartiesBackend) and self.backend.runs:
            return self.backend.runs[-1]
        return None

    # Answers about whole texts

    def predict(
        self,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        batch_size: int = 1,
        pad_to: int | None = None,
        too_long: TooLong = "cut",
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> list[Answer]:
        """Logits or embeddings of texts, or of pairs of texts, and what they say.

        Texts are padded to the bucket that holds them, or all to ``pad_to`` tokens, and
        asked ``batch_size`` at a time. The parties learn the bucket of each, and the
        length within it unless that is hidden.

        Of a text that is longer than the model takes, or than ``pad_to``, the beginning
        is asked, with a ``TextCutWarning``; with ``too_long="raise"`` it is refused.
        ``prompt`` is put before every text, or ``prompt_name``, one of the model's own
        (``model.model.sentence.encoding.prompts``); by default the model's default.
        """
        if self.model.head is Head.TEXT_GENERATION:
            raise SetupError("This model generates text; use generate.")
        if pad_to is not None and not _is_between(pad_to, 2, self.max_tokens):
            raise SetupError(
                f"pad_to={pad_to!r}: it is a whole number, 2 at least and "
                f"{self.max_tokens} at most, the tokens that the model takes."
            )
        if not _is_between(batch_size, 1):
            raise SetupError(
                f"batch_size={batch_size!r}: it is a whole number, 1 at least."
            )
        asked = Asked(pad_to or self.max_tokens, too_long, prompt, prompt_name)
        head, encoding = self.model.head, self.model.sentence.encoding
        questions = make_questions(
            texts, text_pairs, self.tokenizer, head, asked, encoding
        )
        by_index: dict[int, Answer] = {}
        for bucket, members in self._buckets(questions, pad_to).items():
            together = self.backend.at_once(bucket) if batch_size == 1 else batch_size
            for start in range(0, len(members), together):
                group = members[start : start + together]
                batch = [questions[k] for k in group]
                rows = self._ask(batch, bucket, batch_size, text_pairs is not None)
                by_index |= zip(group, rows, strict=False)
        answers = [by_index[k] for k in range(len(texts))]
        for k, answer in enumerate(answers, 1):
            if answer.doubt is not None:
                _warn(f"The answer to text {k} is not to be trusted: {answer.doubt}.")
        return answers

    def _buckets(
        self, questions: Sequence[Question], pad_to: int | None
    ) -> dict[int, list[int]]:
        buckets: dict[int, list[int]] = {}
        for k, one in enumerate(questions):
            bucket = pad_to or self.bucket(len(one.encoded.ids))
            buckets.setdefault(bucket, []).append(k)
        return buckets

    def output_of(self, text: str, pair: str | None = None) -> Array:
        """What the head computes for a text, whatever that says: to measure with."""
        encoded = self.tokenizer.encode(text, pair, max_length=self.max_tokens)
        asked = [Question((text,) if pair is None else (text, pair), encoded)]
        bucket = self.bucket(len(encoded.ids))
        return self._ask(asked, bucket, 1, pair is not None)[0].output

    def bucket(self, length: int, buckets: Sequence[int] = BUCKETS) -> int:
        """How many tokens a text of so many is padded to."""
        return bucket_of(length, (*buckets, self.max_tokens), limit=self.max_tokens)

    def cache_length(self, length: int) -> int:
        """How many positions a cache has for a text of so many tokens: for the public
        prefix before it too, and for all that its prompt may have been padded to."""
        before = len(self.public_prefix)
        limit, held = self.max_tokens + before, before + self.bucket(length)
        return bucket_of(held, (*CACHE_BUCKETS, limit), limit=limit)

    @property
    def max_tokens(self) -> int:
        """The longest text that the model takes."""
        return self.model.max_tokens

    def inputs(
        self, encoded: Sequence[Encoded], length: int, *, with_types: bool = False
    ) -> tuple[Array, ...]:
        """The arrays of a batch, as a computation takes them."""
        padded = pad_batch(encoded, length, self.tokenizer.pad_id)
        mask = padded.mask.astype(np.float32) if self._hide_length else padded.mask
        return (padded.ids, mask, padded.types) if with_types else (padded.ids, mask)

    def computation(
        self,
        phase: Phase,
        batch_size: int,
        length: int,
        *,
        with_types: bool = False,
        reveal: Reveal = "logits",
    ) -> Computation:
        """A computation of this model."""
        return Computation(
            phase, batch_size, length, with_types, reveal, self._hide_length
        )

    def _ask(
        self, batch: list[Question], bucket: int, batch_size: int, pairs: bool
    ) -> list[Answer]:
        encoded = [question.encoded for question in batch]
        full = [*encoded, *[encoded[-1]] * (batch_size - len(batch))]
        with_types = pairs and self.model.config.type_vocab_size > 1
        computation = self.computation(
            Phase.FORWARD, batch_size, bucket, with_types=with_types
        )
        inputs = self.inputs(full, bucket, with_types=with_types)
        outcome = self._run(computation, inputs)
        answers = [
            self._answer(question, row, outcome)
            for question, row in zip(batch, outcome.result, strict=False)
        ]
        if self._exact is None:
            return answers
        exact = self._exact.run(computation, inputs).result
        compared = [
            self._compared(answer, row)
            for answer, row in zip(answers, exact, strict=False)
        ]
        if any(answer.doubt for answer in compared):
            cause = self._cause(computation, inputs)
            compared = [
                replace(a, doubt=f"{a.doubt}; {cause}") if a.doubt else a
                for a in compared
            ]
        return compared

    def _run(self, computation: Computation, inputs: Sequence[Array]) -> Outcome:
        """The outcome of a computation, asked again if that is what to do."""
        given = (self._policy, self.name, self._on_stage)
        return ask(self.backend, computation, inputs, *given)

    def _answer(self, question: Question, row: Array, outcome: Outcome) -> Answer:
        read = self._reader.read(question, row)
        seen = {"in_range": outcome.in_range, "wide": outcome.wide}
        return Answer(**(vars(read) | seen))

    def _compared(self, answer: Answer, exact: Array) -> Answer:
        """An answer beside the float model's."""
        head = self.model.head
        expected = exact[: len(answer.output)] if head.is_per_token else exact
        expected = self._reader.finished(expected)
        difference, doubt = compare(answer.output, expected, head)
        cosine = cosine_of(answer.output, expected) if head.is_embedding else None
        return replace(answer, difference=difference, cosine=cosine, doubt=doubt)

    def _cause(self, computation: Computation, inputs: Sequence[Array]) -> str:
        """Where a value left its range, if the simulator sees one."""
        self._on_stage("an answer is wrong: asking the simulator why")
        if self._simulator is None:
            self._simulator = SimulatedBackend(self.plans, self._on_stage)
        try:
            self._simulator.run(computation, inputs)
        except CapacityError as error:
            return f"{error}".removesuffix(".")
        return "the simulator sees no value leave its range"

    # Generation

    def generate(
        self,
        prompts: str | Sequence[str],
        max_new_tokens: int = 20,
        *,
        sampling: Sampling | None = None,
        reveal: Reveal = "logits",
    ) -> list[Generation]:
        """The texts that follow the prompts, when they are finished; see ``stream``."""
        tokens = list(
            self.stream(prompts, max_new_tokens, sampling=sampling, reveal=reveal)
        )
        return [finished(self.tokenizer, tokens, k) for k in range(len(tokens[0].ids))]

    def stream(
        self,
        prompts: str | Sequence[str],
        max_new_tokens: int = 20,
        *,
        sampling: Sampling | None = None,
        reveal: Reveal = "logits",
        add_special_tokens: bool = True,
    ) -> Generator[Token, None, None]:
        """Tokens that follow the prompts, as they come.

        The client chooses each from the logits, by ``sampling``; with
        ``reveal="token"`` the parties choose the likeliest and the client learns
        nothing else. Ends early when every text has ended. Prompts that a chat template
        wrote are asked without ``add_special_tokens``.
        """
        if self.model.head is not Head.TEXT_GENERATION:
            raise SetupError(
                f"A model with head {self.model.head.value!r} does not generate text."
            )
        if reveal not in ("logits", "token"):
            raise SetupError(f"reveal={reveal!r} is neither 'logits' nor 'token'.")
        if reveal == "token" and sampling is not None and sampling.temperature > 0:
            raise SetupError(
                "With reveal='token' the parties do not draw: set temperature=0."
            )
        encoded = encode_prompts(
            prompts, max_new_tokens, self.max_tokens, self.tokenizer,
            add_special_tokens=add_special_tokens, prefix=self.public_prefix,
        )  # fmt: skip
        sampler = Sampler(sampling or Sampling())
        return self._stream(encoded, max_new_tokens, sampler, reveal)

    def _stream(
        self,
        encoded: list[Encoded],
        max_new_tokens: int,
        sampler: Sampler,
        reveal: Reveal,
    ) -> Generator[Token, None, None]:
        bucket = self.bucket(max(len(one.ids) for one in encoded))
        padded = pad_batch(encoded, bucket, self.tokenizer.pad_id)
        lengths, count = padded.lengths, len(encoded)
        computation = self.computation(Phase.PREFILL, count, bucket, reveal=reveal)
        prompt = padded.ids, padded.lengths
        outcome = self._run(computation, prompt)
        rows = [row[:n].tolist() for row, n in zip(*prompt, strict=True)]
        ids: list[list[int]] = [[] for _ in encoded]
        shown = [""] * count
        ended = [False] * count
        eos = self.tokenizer.eos_id
        try:
            exact, exact_state = self._exactly(computation, prompt)
            for k in range(max_new_tokens):
                chosen = [
                    self.tokenizer.pad_id if over else token
                    for token, over in zip(
                        choose_tokens(outcome.result, sampler, reveal),
                        ended,
                        strict=True,
                    )
                ]
                for row, token, over in zip(ids, chosen, ended, strict=True):
                    row.extend([] if over else [token])
                added, shown = added_texts(self.tokenizer, ids, shown)
                doubts = doubts_of_tokens(outcome.result, exact, ended)
                for doubt in filter(None, doubts):
                    _warn(f"Token {k + 1} is not to be trusted: {doubt}.")
                seen = outcome.in_range, outcome.wide
                yield Token(tuple(chosen), added, doubts, *seen)
                ended = [e or t == eos for e, t in zip(ended, chosen, strict=True)]
                if k + 1 == max_new_tokens or all(ended):
                    return
                bucket = self.cache_length(int(lengths.max()) + 1)
                computation = self.computation(
                    Phase.DECODE, count, bucket, reveal=reveal
                )
                positions = lengths + np.int32(len(self.public_prefix))
                step = np.asarray(chosen, np.int32), positions
                for row, token in zip(rows, chosen, strict=True):
                    row.append(token)
                outcome = self._continue(computation, step, outcome, rows)
                exact, exact_state = self._exactly(computation, step, exact_state)
                lengths = lengths + 1
        finally:
            self.backend.release(outcome.state)

    def _continue(
        self,
        computation: Computation,
        step: Sequence[Array],
        before: Outcome,
        rows: list[list[int]],
    ) -> Outcome:
        """One more token; if a value leaves its range, the whole texts once more."""
        wide = replace(computation, wide=before.wide)
        found = replace(self.backend.run(wide, step, before.state), wide=before.wide)
        if found.in_range is not False or self._policy == "return":
            return found
        if self._policy == "raise" or before.wide:
            raise refusal(self.name, wide=before.wide)
        self.backend.release(found.state)
        encoded = [Encoded(row, [0] * len(row)) for row in rows]
        length = self.bucket(max(len(row) for row in rows))
        padded = pad_batch(encoded, length, self.tokenizer.pad_id)
        whole = replace(computation, phase=Phase.PREFILL, length=length, wide=True)
        return replace(self._run(whole, (padded.ids, padded.lengths)), wide=True)

    def _exactly(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> tuple[Tree, State]:
        """The float model's logits and its state, if answers are compared."""
        if self._exact is None:
            return None, None
        exact = replace(computation, reveal="logits")
        outcome = self._exact.run(exact, inputs, state)
        return outcome.result, outcome.state


def _warn(text: str) -> None:
    warnings.warn(text, AnswerWarning, stacklevel=3)


def _is_between(value: object, least: int, most: int | None = None) -> bool:
    """Whether it is a whole number within limits."""
    return type(value) is int and least <= value <= (value if most is None else most)
