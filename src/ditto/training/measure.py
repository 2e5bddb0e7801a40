"""A student beside its teacher: in float, in the simulator, by three parties."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from ditto.analysis import estimate
from ditto.api.backends import (
    Backend,
    FloatBackend,
    Mode,
    Outcome,
    PartiesBackend,
    SimulatedBackend,
    State,
)
from ditto.client import BUCKETS, bucket_of
from ditto.evaluation.comparison import evenly_spaced
from ditto.evaluation.metrics import accuracy, f1, matthews, perplexity
from ditto.files import Json
from ditto.fixedpoint import Array
from ditto.models import Head, Model
from ditto.models.computation import Computation
from ditto.owner.plans import OnStage, Plans
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.quantized import computation

_TOKENS_AT_ONCE = 1024
OnCount = Callable[[str, int, int], None]
"""Called with who computes, how many examples are done, and how many there are."""


@dataclass(frozen=True)
class Measured:
    """What a model scored on some examples, computed in one way."""

    mode: Mode
    examples: int
    scores: dict[str, float]
    """The metrics, and ``agreement`` with the teacher."""
    retried: int = 0
    """Examples with a value that left its range: a plan with wide margins answered."""
    overflows: int = 0
    """Examples with a value that left those, too: the first label stands. Where the
    profile notes nothing, those with any: what was computed stands, as the parties
    would not know."""
    bytes: float | None = None
    """Of all parties together, for an example; the mean."""
    rounds: float | None = None
    seconds: float | None = None
    """Of the slowest party; the mean."""
    answers: tuple[int, ...] = ()
    """The label of each example; of a language model, of each token."""

    def as_json(self) -> Json:
        """What scripts want to know."""
        told: Json = {"mode": self.mode, "examples": self.examples, **self.scores}
        if self.mode != "float":
            told |= {"retried": self.retried, "overflows": self.overflows}
        if self.bytes is not None:
            told |= {"bytes": self.bytes, "rounds": self.rounds}
        if self.seconds is not None:
            told["seconds"] = round(self.seconds, 3)
        return told


@dataclass(frozen=True)
class _Asked:
    """Logits of one example, and whether all values stayed in their range."""

    logits: Array
    in_range: bool

    @classmethod
    def of(cls, logits: Array, *, in_range: bool) -> "_Asked":
        """Numbers in any case: what the simulator has lost is zero."""
        return cls(np.nan_to_num(np.asarray(logits, np.float64)), in_range)

    def without_answer(self) -> "_Asked":
        """All labels are as likely."""
        return replace(self, logits=np.zeros_like(self.logits))


def rows(
    batches: Batches,
    limit: int,
    most: int | None = None,
    *,
    buckets: Sequence[int] = BUCKETS,
) -> list[TrainingBatch]:
    """Examples one by one, or so many of them, evenly spaced, padded as a client pads
    them; ``limit`` is the longest."""
    lengths = (*(bucket for bucket in buckets if bucket < limit), limit)
    every = [*_rows(batches, lengths)]
    if most is None or most >= len(every):
        return every
    return [every[k] for k in evenly_spaced(len(every), most)]


def _rows(batches: Batches, lengths: Sequence[int]) -> Iterator[TrainingBatch]:
    for batch in batches.in_order():
        for k in range(len(batch.ids)):
            if batch.weights[k].any():
                length = bucket_of(int(batch.mask[k].sum()), lengths)
                yield _padded(batch, k, length)


def _padded(batch: TrainingBatch, k: int, length: int) -> TrainingBatch:
    """Row k with so many tokens; its labels and weights if they are of tokens, too."""

    def fit(array: Array) -> Array:
        row = array[k : k + 1]
        if row.ndim < 2:
            return row
        return np.pad(row[:, :length], ((0, 0), (0, max(0, length - row.shape[1]))))

    return TrainingBatch._make(fit(array) for array in batch)


def lengths_of(examples: Iterable[TrainingBatch]) -> list[int]:
    """Ascending."""
    return sorted({example.ids.shape[1] for example in examples})


def usual_length(examples: Iterable[TrainingBatch]) -> int:
    """That most examples have."""
    counts = Counter(int(example.ids.shape[1]) for example in examples)
    return counts.most_common(1)[0][0]


class _Floats(FloatBackend):
    """The model as it was trained, on many texts at once."""

    def __init__(self, model: Model) -> None:
        super().__init__(replace(model, params=jax.tree.map(jnp.asarray, model.params)))

    def at_once(self, length: int) -> int:
        """See Backend."""
        return max(1, _TOKENS_AT_ONCE // length)

    def run(
        self, computation: Computation, inputs: Sequence[Array], state: State = None
    ) -> Outcome:
        """See Backend. Fewer texts are filled up: each number is compiled anew."""
        count = len(inputs[0])
        missing = self.at_once(computation.length) - count
        filled = [np.concatenate([x, np.repeat(x[:1], missing, 0)]) for x in inputs]
        outcome = super().run(computation, filled, state)
        return replace(outcome, result=outcome.result[:count])


class Measurement:
    """Compares models with a teacher's answers on the same examples."""

    def __init__(
        self, teacher: Model, *, pairs: bool, on_count: OnCount = lambda *_: None
    ) -> None:
        self._teacher = _Floats(teacher)
        self._is_language = teacher.head is Head.TEXT_GENERATION
        self._pairs, self._on_count = pairs, on_count

    def in_float(self, model: Model, examples: Sequence[TrainingBatch]) -> Measured:
        """The model as it was trained."""
        return self._measure("float", _Floats(model), examples)

    def in_simulator(
        self, plans: Plans, examples: Sequence[TrainingBatch], on_stage: OnStage
    ) -> Measured:
        """Its plans on plain integers; bytes and rounds as they declare them."""
        backend = SimulatedBackend(plans, on_stage)
        checked = plans.profile.range_check
        found = self._measure("simulate", backend, examples, retries=checked)
        costs = {
            length: estimate(plans.plan(computation(length, pairs=self._pairs)))
            for length in lengths_of(examples)
        }
        each = [costs[example.ids.shape[1]] for example in examples]
        return replace(
            found,
            bytes=sum(cost.bytes for cost in each) / len(each),
            rounds=sum(cost.rounds for cost in each) / len(each),
        )

    def by_parties(
        self, plans: Plans, examples: Sequence[TrainingBatch], on_stage: OnStage
    ) -> Measured:
        """By three parties, each a process of this machine."""
        backend = PartiesBackend(plans, on_stage=on_stage)
        checked = plans.profile.range_check
        try:
            found = self._measure("mpc", backend, examples, retries=checked)
        finally:
            backend.close()
        runs, count = backend.runs, found.examples
        return replace(
            found,
            bytes=sum(run.bytes for run in runs) / count,
            rounds=sum(run.rounds for run in runs) / count,
            seconds=sum(run.seconds for run in runs) / count,
        )

    def _measure(
        self,
        mode: Mode,
        backend: Backend,
        examples: Sequence[TrainingBatch],
        *,
        retries: bool = False,
    ) -> Measured:
        """``retries``: what is told to have left its range is asked again."""
        self._on_count(mode, 0, len(examples))
        theirs = [each.logits for each in self._all_logits(self._teacher, examples)]
        got = self._all_logits(backend, examples, mode)
        out = [k for k, each in enumerate(got) if not each.in_range]
        overflows, out = len(out), out if retries else []
        if retries:
            wide = [examples[k] for k in out]
            again = self._all_logits(backend, wide, wide=True)
            for k, each in zip(out, again, strict=True):
                # the parties note it and answer nothing: the first label stands
                got[k] = each if each.in_range else each.without_answer()
            overflows = sum(not each.in_range for each in again)
        answered = [each.logits for each in got]
        scores, answers = self._scores(examples, answered, theirs)
        counts = len(out), overflows
        return Measured(mode, len(examples), scores, *counts, answers=answers)

    def _all_logits(
        self,
        backend: Backend,
        examples: Sequence[TrainingBatch],
        mode: Mode | None = None,
        *,
        wide: bool = False,
    ) -> "list[_Asked]":
        """In the order of the examples.

        Those of one length are asked together, as many as the backend takes.
        """
        found: dict[int, _Asked] = {}
        for length in lengths_of(examples):
            alike = [
                k for k, each in enumerate(examples) if each.ids.shape[1] == length
            ]
            together = backend.at_once(length)
            for start in range(0, len(alike), together):
                chosen = alike[start : start + together]
                some = [examples[k] for k in chosen]
                found |= zip(chosen, self._ask(backend, some, wide=wide), strict=True)
                if mode is not None:
                    self._on_count(mode, len(found) - 1, len(examples))
        return [found[k] for k in range(len(examples))]

    def _ask(
        self, backend: Backend, examples: Sequence[TrainingBatch], *, wide: bool
    ) -> "list[_Asked]":
        """Examples of one length, asked together."""
        asked = computation(examples[0].ids.shape[1], pairs=self._pairs)
        asked = replace(asked, wide=wide)
        names = ("ids", "mask", "types") if self._pairs else ("ids", "mask")
        given = [
            np.concatenate([getattr(each, name) for each in examples]) for name in names
        ]
        if isinstance(backend, SimulatedBackend):
            return [
                _Asked.of(each.result, in_range=not each.broken)
                for each in backend.simulate_each(asked, given)
            ]
        outcome = backend.run(asked, given)
        in_range = outcome.in_range is not False
        every = [outcome.result[k : k + 1] for k in range(len(examples))]
        return [_Asked.of(each, in_range=in_range) for each in every]

    def _scores(
        self,
        examples: Sequence[TrainingBatch],
        got: Sequence[Array],
        theirs: Sequence[Array],
    ) -> tuple[dict[str, float], tuple[int, ...]]:
        counted = [example.weights > 0 for example in examples]
        labels = _joined([each.labels for each in examples], counted)
        said = _joined([each.argmax(-1) for each in got], counted)
        due = _joined([each.argmax(-1) for each in theirs], counted)
        answers = tuple(int(label) for label in said)
        agreement = float(np.mean(said == due))
        if self._is_language:
            losses = _joined(
                [_losses(*pair) for pair in zip(got, examples, strict=True)], counted
            )
            value = perplexity(float(losses.mean()))
            return {"perplexity": value, "agreement": agreement}, answers
        scores = {
            "accuracy": accuracy(labels, said), "matthews": matthews(labels, said),
            "agreement": agreement,
        }  # fmt: skip
        if max(labels.max(), said.max()) == 1:
            scores["f1"] = f1(labels, said)
        return scores, answers


def _joined(parts: Sequence[Array], counted: Sequence[Array]) -> Array:
    return np.concatenate(
        [part[count] for part, count in zip(parts, counted, strict=True)]
    )


def _losses(logits: Array, example: TrainingBatch) -> Array:
    """How surprising every next token is."""
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    chosen = np.take_along_axis(logits, example.labels[..., None], -1)[..., 0]
    return np.asarray(total - chosen)
