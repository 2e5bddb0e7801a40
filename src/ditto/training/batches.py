"""Batches of tokens, in an order that seed and step decide alone.

Whatever was done before, step k of a run sees the same batch, so a run goes on where it
was left. Every batch has one of a few shapes: JAX compiles each shape once. Where texts
are missing from a batch, rows of weight 0 stand in.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ditto.client.tokens import Encoded, Ints, bucket_of, pad_batch
from ditto.errors import SetupError

Reals = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


class TrainingBatch(NamedTuple):
    """What a step learns from. A tree of arrays, so that JAX takes it as it is."""

    ids: Ints
    """(B, S)"""
    mask: Ints
    """(B, S): 1 where there is text."""
    types: Ints
    """(B, S): which text of a pair."""
    labels: Ints
    """(B) of texts; (B, S) of language, the token that follows."""
    weights: Reals
    """As the labels: 1, or 0 where there is nothing to learn."""


class Batches(ABC):
    """The data of a run. Steps count from 0, over all epochs."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._seed = seed
        self._current: tuple[int, list[Rows]] | None = None

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """The same in every epoch."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Of the data, so that a run goes on with the same."""

    @abstractmethod
    def _order(self, rng: np.random.Generator) -> list[Rows]:
        """The rows of each batch of an epoch."""

    @abstractmethod
    def _collate(self, rows: Rows) -> TrainingBatch:
        """A batch of these rows."""

    @abstractmethod
    def in_order(self) -> Iterator[TrainingBatch]:
        """All data once, to evaluate on."""

    def at(self, step: int) -> TrainingBatch:
        """The batch of a step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._current is None or self._current[0] != epoch:
            rng = np.random.default_rng([self._seed, epoch])
            self._current = epoch, self._order(rng)
        return self._collate(self._current[1][place])


class TextBatches(Batches):
    """Labelled texts, those of one bucket together."""

    def __init__(
        self,
        texts: Sequence[Encoded],
        labels: Sequence[int],
        size: int,
        *,
        buckets: Sequence[int],
        limit: int,
        pad_id: int,
        seed: int = 0,
    ) -> None:
        super().__init__(size, seed)
        self._texts = texts
        self._labels = np.asarray(labels, np.int32)
        self._pad_id = pad_id
        lengths = (*(bucket for bucket in buckets if bucket < limit), limit)
        self._buckets = np.array([bucket_of(len(t.ids), lengths) for t in texts])

    @property
    def steps_per_epoch(self) -> int:
        """See Batches."""
        return -(-len(self._texts) // self._size)

    @cached_property
    def digest(self) -> str:
        """See Batches."""
        digest = hashlib.sha256(self._labels.tobytes())
        for text in self._texts:
            digest.update(np.array([len(text.ids), *text.ids, *text.types]).tobytes())
        return digest.hexdigest()

    def _order(self, rng: np.random.Generator) -> list[Rows]:
        """Full batches of each bucket; what is left over goes to the next longer."""
        batches: list[Rows] = []
        left = np.zeros(0, np.int64)
        for bucket in np.unique(self._buckets):
            rows = rng.permutation(np.flatnonzero(self._buckets == bucket))
            rows = np.concatenate([left, rows])
            whole = len(rows) - len(rows) % self._size
            batches += np.split(rows[:whole], whole // self._size) if whole else []
            left = rows[whole:]
        batches += [left] if len(left) else []
        return [batches[k] for k in rng.permutation(len(batches))]

    def in_order(self) -> Iterator[TrainingBatch]:
        """See Batches; the shortest first."""
        order = np.argsort(self._buckets, kind="stable")
        for start in range(0, len(order), self._size):
            yield self._collate(order[start : start + self._size])

    def _collate(self, rows: Rows) -> TrainingBatch:
        filled = np.concatenate([rows, np.repeat(rows[:1], self._size - len(rows))])
        length = int(self._buckets[rows].max())
        batch = pad_batch([self._texts[row] for row in filled], length, self._pad_id)
        weights = (np.arange(self._size) < len(rows)).astype(np.float32)
        labels = self._labels[filled]
        return TrainingBatch(batch.ids, batch.mask, batch.types, labels, weights)


class BlockBatches(Batches):
    """Blocks of a long text, every token to be told from those before it in its block.

    Training cuts the text elsewhere in every epoch.
    """

    def __init__(self, tokens: Ints, length: int, size: int, seed: int = 0) -> None:
        super().__init__(size, seed)
        self._tokens, self._length = tokens, length
        if len(tokens) < 2 * length + 1:
            raise SetupError(
                f"{len(tokens)} tokens of text are too few: blocks of {length} need "
                f"{2 * length + 1} at least. Give more text or a smaller "
                "max_seq_length."
            )

    @property
    def steps_per_epoch(self) -> int:
        """See Batches."""
        blocks = (len(self._tokens) - self._length) // self._length
        return -(-blocks // self._size)

    @cached_property
    def digest(self) -> str:
        """See Batches."""
        return hashlib.sha256(self._tokens.tobytes()).hexdigest()

    def _order(self, rng: np.random.Generator) -> list[Rows]:
        first = int(rng.integers(self._length))
        blocks = (len(self._tokens) - self._length) // self._length
        starts = rng.permutation(first + self._length * np.arange(blocks))
        return [starts[k : k + self._size] for k in range(0, blocks, self._size)]

    def in_order(self) -> Iterator[TrainingBatch]:
        """See Batches; every token but the first is told once."""
        starts = np.arange(0, len(self._tokens) - 1, self._length)
        for k in range(0, len(starts), self._size):
            yield self._collate(starts[k : k + self._size])

    def _collate(self, rows: Rows) -> TrainingBatch:
        shape = self._size, self._length
        ids, labels = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        mask, types = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        mask[:, 0] = 1  # of a row without text, too: else no score is seen
        for row, start in enumerate(rows):
            block = self._tokens[start : start + self._length + 1]
            count = len(block) - 1
            ids[row, :count], labels[row, :count] = block[:-1], block[1:]
            mask[row, :count] = 1
        weights = mask.astype(np.float32)
        weights[len(rows) :] = 0
        return TrainingBatch(ids, mask, types, labels, weights)
