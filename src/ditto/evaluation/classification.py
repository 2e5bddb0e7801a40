"""The labels that a model gives to examples, by whoever computes."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ditto.api import Pretrained
from ditto.api.answers import Reals
from ditto.api.backends import PartiesBackend
from ditto.errors import AnswerWarning, CapacityError, TextCutWarning
from ditto.evaluation.tasks import Example

NO_LABEL = -1
"""Of an example that leaves its ranges in the simulator."""

Progress = Callable[[int, int], None]
"""Called with how many examples are answered, and how many there are."""


@dataclass(frozen=True, eq=False)
class Classified:
    """What was answered to an example."""

    label: int
    seconds: float
    logits: Reals | None = None
    """None if it left its ranges in the simulator."""
    overflow: str | None = None
    """What left its range in the simulator."""
    doubt: str | None = None
    """Why the parties' answer is not to be trusted."""
    is_cut: bool = False
    """Whether it was longer than the model, or the setting, takes."""
    bytes: int | None = None
    """What the parties sent for it, all together; None if they did not compute it."""
    rounds: int | None = None


def classify(
    model: Pretrained,
    examples: Sequence[Example],
    pad_to: int | None,
    progress: Progress = lambda *_: None,
) -> list[Classified]:
    """Answers to examples, in their order.

    Those of the same padded length are asked as many at once as the backend takes.
    """
    answers: dict[int, Classified] = {}
    limit = pad_to or model.max_tokens
    tokens = [len(model.tokenizer.encode(one.text, one.pair).ids) for one in examples]
    buckets: dict[int, list[int]] = {}
    for k, count in enumerate(tokens):
        bucket = pad_to or model.bucket(min(count, limit))
        buckets.setdefault(bucket, []).append(k)
    for bucket, members in buckets.items():
        size = model.backend.at_once(bucket)
        for start in range(0, len(members), size):
            progress(len(answers), len(examples))
            group = members[start : start + size]
            cut = [tokens[k] > limit for k in group]
            found = _answers(model, [examples[k] for k in group], cut, pad_to)
            answers |= zip(group, found, strict=True)
    return [answers[k] for k in range(len(examples))]


def _answers(
    model: Pretrained, examples: list[Example], cut: list[bool], pad_to: int | None
) -> list[Classified]:
    """Answers to examples that are asked together; one by one if one overflows."""
    texts = [example.text for example in examples]
    pairs = [example.pair for example in examples if example.pair is not None] or None
    backend = model.backend
    runs_before = len(backend.runs) if isinstance(backend, PartiesBackend) else 0
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TextCutWarning)  # noted here
            warnings.simplefilter("ignore", AnswerWarning)
            answers = model.predict(texts, pairs, pad_to=pad_to)
    except CapacityError as overflow:
        seconds = time.perf_counter() - started
        if len(examples) == 1:
            what = str(overflow)
            return [Classified(NO_LABEL, seconds, overflow=what, is_cut=cut[0])]
        alone = zip(examples, cut, strict=True)
        return [_answers(model, [one], [is_cut], pad_to)[0] for one, is_cut in alone]
    seconds = (time.perf_counter() - started) / len(examples)
    runs = backend.runs[runs_before:] if isinstance(backend, PartiesBackend) else []
    return [
        Classified(
            int(np.argmax(answer.logits)),
            seconds,
            answer.logits,
            doubt=answer.doubt,
            is_cut=is_cut,
            bytes=sum(run.bytes for run in runs) if runs else None,
            rounds=sum(run.rounds for run in runs) if runs else None,
        )
        for answer, is_cut in zip(answers, cut, strict=True)
    ]
