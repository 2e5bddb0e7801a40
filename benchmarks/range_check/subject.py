"""A model that is put to the test: in float, in the simulator, and by the parties."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.range_check.inputs import Case, Form
from benchmarks.range_check.search import Probe
from ditto import from_pretrained
from ditto.api import Answer, Phase, Token
from ditto.api.doubt import compare
from ditto.client import BUCKETS, Tokenizer
from ditto.client.tokens import Encoded, pad_batch
from ditto.errors import AnswerWarning, OutOfRangeError
from ditto.fixedpoint import Array
from ditto.models.computation import Computation
from ditto.models.family import Cache
from ditto.owner.plans import grown
from ditto.simulation import Headroom, Simulated, Simulator

TOKENS = 2
"""Of a language model's answer: one by the plan of the prompt, one by that of a
further token."""
KEPT = 3
"""Simulators at a time: each holds the weights."""


class Rows(Tokenizer):
    """Reads rows of tokens where others read text, so that any row can be asked.

    The text is a row's ids, and where the model tells two texts apart, the second text
    is the row's types.
    """

    def encode(
        self,
        text: str,
        pair: str | None = None,
        max_length: int | None = None,
        *,
        add_special_tokens: bool = True,
    ) -> Encoded:
        """See Tokenizer; nothing is cut, and nothing added."""
        del max_length, add_special_tokens
        ids = [int(word) for word in text.split()]
        types = [0] * len(ids) if pair is None else [int(w) for w in pair.split()]
        return Encoded(ids, types)


@dataclass(frozen=True)
class Outcome:
    """What the simulator says of one case."""

    flagged: bool
    """Whether the parties would say that a value left its range."""
    inside: bool
    """Whether every value stayed in its range."""
    difference: float
    """To the float answer, relative to its size."""
    wrong: bool
    """Whether that is beyond the stated error."""
    tightest: Headroom

    def worse(self, other: "Outcome") -> "Outcome":
        """Of two parts of one answer."""
        return Outcome(
            self.flagged or other.flagged,
            self.inside and other.inside,
            max(self.difference, other.difference),
            self.wrong or other.wrong,
            min(self.tightest, other.tightest, key=lambda h: h.bits),
        )


@dataclass(frozen=True)
class Asked:
    """What the parties answered, beside the float model."""

    flagged: bool
    """By the usual plan."""
    right: bool
    """Whether the answer is right: if it was flagged, that of the wide plan."""


class Subject:
    """A model with default calibration. Close it when done."""

    def __init__(self, name: str, folder: Path, margin: float | None = None) -> None:
        self.name = name
        self.parties = from_pretrained(folder, margin=margin, on_out_of_range="retry")
        self.tokenizer = self.parties.tokenizer
        self.parties.tokenizer = Rows.load(folder)
        self.parties.tokenizer.eos_id = None  # a text never ends before its time
        self.plain = self.parties.with_mode("float")
        self._simulators: dict[Computation, Simulator] = {}

    def close(self) -> None:
        """End the parties."""
        self.parties.close()

    @property
    def is_decoder(self) -> bool:
        """Whether it continues texts."""
        return self.parties.model.family.is_decoder

    @property
    def form(self) -> Form:
        """What inputs it takes: a decoder needs room for the tokens that it adds."""
        most = self.parties.max_tokens
        if not self.is_decoder:
            lengths = tuple(k for k in (8, 32, 128, 256) if k <= most)
            return Form(self.tokenizer, lengths, lengths[-1])
        lengths = tuple(dict.fromkeys(min(k, most) for k in BUCKETS))
        return Form(self.tokenizer, lengths, most - TOKENS + 1)

    def probe(self, length: int) -> Probe:
        """The first part of an answer to inputs of one length, for a search."""
        computation, _ = self._question(Case("", 0, self.form.between([0]), length))
        plan = self.parties.plans.plan(computation)

        def arrays(row: Encoded) -> tuple[Array, ...]:
            return self._question(Case("", 0, row, length))[1]

        return Probe(plan, self.parties.plans.model.params, arrays)

    def simulate(self, case: Case, seed: int) -> Outcome:
        """The case with the protocols' rounding, beside the float model's answer."""
        computation, inputs = self._question(case)
        found = self._simulate(computation, inputs, seed)
        exact = self.plain.backend.run(computation, inputs)
        if not self.is_decoder:
            return self._outcome(found, found.result, exact.result)
        logits, cache = cast(tuple[Array, Cache], found.result)
        outcome = self._outcome(found, logits, exact.result)
        if outcome.flagged:
            return outcome
        position = len(case.row.ids)
        length = self.parties.cache_length(position + 1)
        decode = self.parties.computation(Phase.DECODE, 1, length)
        step = np.argmax(logits, -1).astype(np.int32), np.array([position], np.int32)
        found = self._simulate(decode, (*step, grown(cache, length)), seed)
        exact = self.plain.backend.run(decode, step, exact.state)
        logits, _ = cast(tuple[Array, Cache], found.result)
        return outcome.worse(self._outcome(found, logits, exact.result))

    def ask(self, case: Case) -> Asked:
        """The case by three parties, with wide ranges if the usual ones are left."""
        text = " ".join(map(str, case.row.ids))
        types = [" ".join(map(str, case.row.types))] if case.pair else None
        answers: Sequence[Answer | Token]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AnswerWarning)  # kept with the answer
                if self.is_decoder:
                    answers = list(self.parties.stream(text, TOKENS))
                else:
                    answers = self.parties.predict([text], types, pad_to=case.length)
        except OutOfRangeError:  # of the wide ranges, too
            return Asked(flagged=True, right=False)
        doubts = [
            doubt
            for answer in answers
            for doubt in (
                answer.doubts if isinstance(answer, Token) else (answer.doubt,)
            )
        ]
        return Asked(any(answer.wide for answer in answers), not any(doubts))

    def _question(self, case: Case) -> tuple[Computation, tuple[Array, ...]]:
        model = self.parties
        if self.is_decoder:
            batch = pad_batch([case.row], case.length, self.tokenizer.pad_id)
            computation = model.computation(Phase.PREFILL, 1, case.length)
            return computation, (batch.ids, batch.lengths)
        computation = model.computation(
            Phase.FORWARD, 1, case.length, with_types=case.pair
        )
        return computation, model.inputs([case.row], case.length, with_types=case.pair)

    def _simulate(
        self, computation: Computation, inputs: tuple[Array | Cache, ...], seed: int
    ) -> Simulated:
        simulator = self._simulators.pop(computation, None)
        if simulator is None:
            simulator = Simulator(self.parties.plans.plan(computation))
        self._simulators[computation] = simulator  # the last that was used
        while len(self._simulators) > KEPT:
            del self._simulators[next(iter(self._simulators))]
        return simulator((self.parties.plans.model.params, *inputs), seed=seed)

    def _outcome(self, found: Simulated, got: Array, exact: Array) -> Outcome:
        head = self.parties.model.head
        difference, doubt = compare(np.asarray(got)[0], np.asarray(exact)[0], head)
        return Outcome(
            not found.in_range,
            not any(place.left for place in found.headroom),
            difference,
            doubt is not None,
            found.tightest,
        )
