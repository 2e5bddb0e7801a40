"""Every text once an epoch, few shapes, and the same batch at the same step."""

from collections.abc import Sequence

import numpy as np
import pytest

from ditto.client.tokens import Encoded
from ditto.errors import SetupError
from ditto.training.batches import BlockBatches, TextBatches, TrainingBatch

COUNT, SIZE = 103, 8


def texts(seed: int = 0) -> list[Encoded]:
    lengths = np.random.default_rng(seed).integers(3, 40, COUNT)
    return [
        Encoded([k, *[1] * (length - 1)], [0] * length)
        for k, length in enumerate(lengths)
    ]


def batches(seed: int = 3, some: Sequence[Encoded] | None = None) -> TextBatches:
    return TextBatches(
        texts() if some is None else some,
        [k % 2 for k in range(COUNT)],
        SIZE,
        buckets=(8, 16, 32, 64),
        limit=40,
        pad_id=0,
        seed=seed,
    )


def rows(batch: TrainingBatch) -> list[int]:
    return [int(k) for k in batch.ids[batch.weights > 0, 0]]


def test_an_epoch_sees_every_text_once() -> None:
    made = batches()
    for epoch in range(2):
        first = epoch * made.steps_per_epoch
        seen = [made.at(first + k) for k in range(made.steps_per_epoch)]
        assert sorted(k for batch in seen for k in rows(batch)) == [*range(COUNT)]
        for batch in seen:
            assert batch.ids.shape[1] in (8, 16, 32, 40)
            assert batch.ids.shape[0] == SIZE
            assert [int(n) for n in batch.labels[batch.weights > 0]] == [
                k % 2 for k in rows(batch)
            ]
        assert sum((batch.weights == 0).any() for batch in seen) == 1
    shortest = sum(batch.ids.shape[1] == 8 for batch in seen)
    assert shortest == sum(len(text.ids) <= 8 for text in texts()) // SIZE


def test_the_step_and_the_seed_decide() -> None:
    one, other = batches(), batches()
    for step in (0, 30, 5, 29):  # in whatever order they are asked for
        for a, b in zip(one.at(step), other.at(step), strict=True):
            assert np.array_equal(a, b)
    steps = range(one.steps_per_epoch)
    orders = [
        [rows(made.at(first + k)) for k in steps]
        for made, first in ((one, 0), (one, len(steps)), (batches(4), 0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def test_all_are_evaluated_once() -> None:
    seen = [*batches().in_order()]
    assert sorted(k for batch in seen for k in rows(batch)) == [*range(COUNT)]
    assert len({batch.ids.shape for batch in seen}) <= 4


def test_other_data_have_another_digest() -> None:
    changed = texts()
    changed[5] = Encoded([99, *changed[5].ids[1:]], changed[5].types)
    digests = {batches().digest, batches(9).digest, batches(some=changed).digest}
    assert len(digests) == 2


def test_blocks_hold_the_text() -> None:
    tokens = np.arange(1000, 1101, dtype=np.int32)
    made = BlockBatches(tokens, 8, 4, seed=1)
    for step in range(2 * made.steps_per_epoch):
        batch = made.at(step)
        counted = batch.weights > 0
        assert np.array_equal(batch.labels[counted], batch.ids[counted] + 1)
        assert counted.all(axis=1).sum() == counted.any(axis=1).sum()
    told = [batch.labels[batch.weights > 0] for batch in made.in_order()]
    assert np.array_equal(np.sort(np.concatenate(told)), tokens[1:])


def test_blocks_are_cut_elsewhere_in_every_epoch() -> None:
    made = BlockBatches(np.arange(101, dtype=np.int32), 8, 4, seed=1)
    first = {
        int(made.at(step * made.steps_per_epoch).ids[0, 0] % 8) for step in range(9)
    }
    assert len(first) > 2


def test_too_little_text() -> None:
    with pytest.raises(SetupError, match="20 tokens of text are too few"):
        BlockBatches(np.arange(20, dtype=np.int32), 16, 2)
