"""``finetune``: a teacher, from a checkpoint or from nothing.

A classifier of texts, with a new head if the checkpoint has none, or a language model.
The result is a Hugging Face folder that transformers reads and that gives the same
logits there. No dropout is used: our models have none, and what is trained is what will
be run.
"""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np

from ditto.files import Json
from ditto.models import Checkpoint, Head, Model, write_checkpoint
from ditto.training.data import (
    Data,
    is_plain_text,
    language_data,
    read_labelled_data,
    text_data,
)
from ditto.training.examples import find_task
from ditto.training.loop import train
from ditto.training.objective import Metric
from ditto.training.progress import OnProgress, Trained
from ditto.training.settings import FinetuneSettings
from ditto.training.source import Source, known_labels, open_source
from ditto.training.supervised import find_metric, supervised

RESULTS = "all_results.json"
_MATTHEWS = "matthews"


@dataclass(frozen=True)
class Finetuned:
    """What a run has made."""

    folder: Path
    model: Model
    labels: tuple[str, ...]
    drawn: tuple[str, ...]
    """The tensors that were drawn at random."""
    metric: str | None
    """What the best parameters are told by."""
    counts: tuple[int, int]
    """Examples to learn from and to evaluate on; of language models, tokens."""
    cut: int
    """Training texts that were cut."""
    trained: Trained

    def as_json(self) -> Json:
        """What scripts want to know."""
        trained = self.trained
        return {
            "output_dir": str(self.folder),
            "head": self.model.head.value,
            "parameters": self.model.size,
            "labels": [*self.labels],
            "newly_initialized": [*self.drawn],
            "train_samples": self.counts[0],
            "eval_samples": self.counts[1],
            "train_samples_cut": self.cut,
            "step": trained.step,
            "total_steps": trained.total_steps,
            "best_step": trained.best_step,
            "metric_for_best_model": self.metric,
            **{f"eval_{name}": score for name, score in trained.scores.items()},
            "train_loss": trained.loss,
            "train_seconds": round(trained.seconds, 3),
            "seconds_per_step": round(trained.seconds_per_step, 4),
            "stopped_early": trained.stopped_early,
            "interrupted": trained.was_interrupted,
        }


def finetune(
    settings: FinetuneSettings,
    *,
    on_stage: Callable[[str], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Finetuned:
    """Train a model and write its folder; if the run was stopped, no more than a
    checkpoint."""
    metric = _metric(settings)
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".files-", dir=settings.output_dir) as name:
        files = Path(name)
        on_stage("reading the data and the model")
        source, data, labels = _prepare(settings, files)
        on_stage("compiling the first step")
        objective = supervised(source.model, data.validation, metric)
        trained = train(
            source.model.params,
            objective,
            data.train,
            settings,
            on_progress=on_progress,
            should_stop=should_stop,
        )
        params = jax.tree.map(np.asarray, trained.params)
        result = Finetuned(
            folder=settings.output_dir,
            model=replace(source.model, params=params),
            labels=labels,
            drawn=source.drawn,
            metric=None if data.validation is None else metric.name,
            counts=data.counts,
            cut=data.cut,
            trained=trained,
        )
        if not trained.was_interrupted:
            on_stage("writing the model")
            write_model(result.model, files)
            text = json.dumps(result.as_json(), indent=1) + "\n"
            (files / RESULTS).write_text(text)
            move_files(files, settings.output_dir)
    return result


def _prepare(
    settings: FinetuneSettings, files: Path
) -> tuple[Source, Data, tuple[str, ...]]:
    """The model and the batches."""
    if is_plain_text(settings):
        source = open_source(settings, Head.TEXT_GENERATION, (), files)
        length = min(settings.max_seq_length, source.model.max_tokens)
        return source, language_data(settings, source.tokenizer, length), ()
    examples = read_labelled_data(settings, known_labels(settings))
    source = open_source(settings, Head.TEXT_CLASSIFICATION, examples.labels, files)
    limit = min(settings.max_seq_length, source.model.max_tokens)
    data = text_data(examples, settings, source.tokenizer, limit)
    return source, data, examples.labels


def _metric(settings: FinetuneSettings) -> Metric:
    """As it is named, as the task has it, or what is usual."""
    if settings.metric_for_best_model is not None:
        return find_metric(settings.metric_for_best_model)
    if is_plain_text(settings):
        return find_metric("perplexity")
    task = find_task(settings)
    has_matthews = task is not None and task.metric == _MATTHEWS
    return find_metric(_MATTHEWS if has_matthews else "accuracy")


def write_model(model: Model, folder: Path) -> None:
    """The files of a Hugging Face folder, but for the tokenizer's."""
    published = {key: v for key, v in model.published.items() if v is not None}
    write_checkpoint(Checkpoint(published, model.tensors()), folder)


def move_files(files: Path, folder: Path) -> None:
    """Put new files in place, the configuration last: with it the folder is a model."""
    names = sorted(file.name for file in files.iterdir())
    for name in sorted(names, key=lambda name: name == "config.json"):
        os.replace(files / name, folder / name)
