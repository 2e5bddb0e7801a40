"""From the files of a run to its batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ditto.client import Tokenizer
from ditto.client.tokens import Ints
from ditto.training.batches import Batches, BlockBatches, TextBatches
from ditto.training.examples import (
    LabelledText,
    find_columns,
    find_task,
    label_ids,
    label_names,
    read_labelled,
    read_plain_text,
)
from ditto.training.settings import TrainingSettings

_PLAIN = ".txt"


@dataclass(frozen=True)
class Data:
    """What is learnt from, and what is evaluated on."""

    train: Batches
    validation: Batches | None
    counts: tuple[int, int]
    """Of examples, or of tokens."""
    cut: int = 0
    """Training texts that are longer than ``max_seq_length``."""


@dataclass(frozen=True)
class LabelledData:
    """Files with columns, read."""

    train: Sequence[LabelledText]
    validation: Sequence[LabelledText]
    labels: tuple[str, ...]


def is_plain_text(settings: TrainingSettings) -> bool:
    """Whether it is a language model that is to be trained."""
    return settings.train_file.suffix.lower() == _PLAIN


def read_labelled_data(
    settings: TrainingSettings, known: Sequence[str] = ()
) -> LabelledData:
    """The files of a run with columns.

    Labels are those of the task, those that the model knows if it knows all, or those
    of the training file.
    """
    file, held_out = settings.train_file, settings.validation_file
    columns = find_columns(settings, file)
    train = read_labelled(file, columns, settings.max_train_samples)
    validation = []
    if held_out is not None:
        validation = read_labelled(held_out, columns, settings.max_eval_samples)
    task = find_task(settings)
    labels = label_names(train) if task is None else task.labels
    if task is None and {*labels} <= {*known}:
        labels = tuple(known)
    return LabelledData(train, validation, labels)


def text_data(
    data: LabelledData, settings: TrainingSettings, tokenizer: Tokenizer, limit: int
) -> Data:
    """Batches of labelled texts, of up to ``limit`` tokens each."""
    cut = 0

    def batches(
        examples: Sequence[LabelledText], file: Path, size: int
    ) -> tuple[Batches, int]:
        texts = [tokenizer.encode(each.text, each.pair, limit) for each in examples]
        labelled = TextBatches(
            texts,
            label_ids(examples, data.labels, file),
            size,
            buckets=settings.length_buckets,
            limit=limit,
            pad_id=tokenizer.pad_id,
            seed=settings.seed,
        )
        return labelled, sum(text.cut > 0 for text in texts)

    size = settings.per_device_train_batch_size
    train, cut = batches(data.train, settings.train_file, size)
    validation = None
    if settings.validation_file is not None:
        size = settings.per_device_eval_batch_size
        validation, _ = batches(data.validation, settings.validation_file, size)
    return Data(train, validation, (len(data.train), len(data.validation)), cut)


def language_data(
    settings: TrainingSettings, tokenizer: Tokenizer, length: int
) -> Data:
    """Batches of blocks of ``length`` tokens; samples are such blocks."""

    def tokens(file: Path, samples: int | None) -> Ints:
        ids = np.array(tokenizer.encode(read_plain_text(file)).ids, np.int32)
        return ids if samples is None else ids[: samples * length + 1]

    seen = tokens(settings.train_file, settings.max_train_samples)
    size = settings.per_device_train_batch_size
    train = BlockBatches(seen, length, size, settings.seed)
    if settings.validation_file is None:
        return Data(train, None, (len(seen), 0))
    unseen = tokens(settings.validation_file, settings.max_eval_samples)
    size = settings.per_device_eval_batch_size
    validation = BlockBatches(unseen, length, size, settings.seed)
    return Data(train, validation, (len(seen), len(unseen)))
