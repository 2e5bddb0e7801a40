"""Which label stands where a value has left its range."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ditto.api.backends import SimulatedBackend
from ditto.compiler import find_profile
from ditto.fixedpoint import Array
from ditto.models import random_model
from ditto.models.computation import Computation
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.simulation import Simulated
from ditto.training import measure
from ditto.training.batches import TrainingBatch
from ditto.training.measure import Measured, Measurement

COUNT, LENGTH = 6, 4
OUT, LOST = 1, 2
"""Examples of which a value leaves its range, and reaches the answer as no number."""


@pytest.fixture
def examples() -> list[TrainingBatch]:
    ids = np.ones((1, LENGTH), np.int32)
    return [
        TrainingBatch(ids, ids, 0 * ids, np.array([1]), np.ones(1, np.float32))
        for _ in range(COUNT)
    ]


def measured(
    examples: Sequence[TrainingBatch], profile: str, monkeypatch: pytest.MonkeyPatch
) -> Measured:
    """Simulated answers that are all right, one of which nothing is known of."""
    model = random_model(
        "bert-tiny",
        num_hidden_layers=1,
        architectures=["BertForSequenceClassification"],
    )
    asked = iter(range(10 * COUNT))

    def simulated(
        _: Any, computation: Computation, inputs: Sequence[Array]
    ) -> list[Simulated]:
        found = []
        for _ in range(len(inputs[0])):
            k = next(asked)
            logits = np.array([[-1.0, 1.0]])
            if k == LOST:
                logits[:] = np.nan
            broken = k in (OUT, LOST) or computation.wide
            found.append(Simulated(logits, (), broken, True))
        return found

    monkeypatch.setattr(SimulatedBackend, "simulate_each", simulated)
    cost = SimpleNamespace(bytes=1.0, rounds=1.0)
    monkeypatch.setattr(measure, "estimate", lambda _: cost)
    monkeypatch.setattr(Plans, "plan", lambda *_: None)
    plans = Plans(model, find_profile(profile), RandomSamples(64), rows=2)
    return Measurement(model, pairs=False).in_simulator(plans, examples, lambda _: None)


def test_what_is_noted_is_asked_again_and_then_refused(
    examples: list[TrainingBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(examples, "ditto", monkeypatch)
    assert (found.retried, found.overflows) == (2, 2)
    assert found.answers == (1, 0, 0, 1, 1, 1)


def test_what_nobody_notes_stands(
    examples: list[TrainingBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(examples, "puma", monkeypatch)
    assert (found.retried, found.overflows) == (0, 2)
    assert found.answers == (1, 1, 0, 1, 1, 1)
