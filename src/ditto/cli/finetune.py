"""``ditto finetune``: a teacher, from a checkpoint or from nothing."""

from typing import TYPE_CHECKING

import typer

from ditto.cli.report import JsonFile, Quiet, Report
from ditto.cli.settings_flags import run_with_flags
from ditto.cli.show import chosen_cache, table
from ditto.cli.signals import stopping
from ditto.cli.training_command import ConfigFile, finish
from ditto.cli.training_progress import watching
from ditto.extras import require

if TYPE_CHECKING:
    from rich.table import Table

    from ditto.training.finetune import Finetuned


def finetune(context: typer.Context) -> None:
    """Train a model: a classifier of texts, or a language model."""
    from ditto.training.settings import FinetuneSettings

    run_with_flags(FinetuneSettings, train, context)


def train(
    flags: dict[str, str],
    config: ConfigFile = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Train a model: a classifier of texts from an encoder, or a language model.

    Names and meanings are those of Hugging Face's scripts. `output_dir` becomes a
    Hugging Face folder that `ditto run`, `ditto eval` and transformers read. On the way
    it has checkpoints and `trainer_log.jsonl`, the learning curve.

    Ctrl-C writes a checkpoint; `--resume_from_checkpoint true` goes on from it, and
    the weights become those of a run that was never interrupted.

    `ditto finetune --model_name_or_path ENCODER --task_name sst2 --train_file
    sst2/train.tsv --validation_file sst2/dev.tsv --output_dir my-sst2`
    """
    require("jax", "optax", "yaml")
    from ditto.training.settings import FinetuneSettings
    from ditto.training.settings_file import read_settings

    settings = read_settings(FinetuneSettings, config, flags)
    report = Report(json_file)
    chosen_cache(no_cache=False)
    from ditto.training.finetune import finetune as train_model

    with stopping() as should_stop, watching(quiet=quiet) as watch:
        done = train_model(
            settings,
            on_stage=watch.stage,
            on_progress=watch.progress,
            should_stop=should_stop,
        )
    report.print(summary(done))
    finish(report, done.as_json(), was_interrupted=done.trained.was_interrupted)


def summary(done: "Finetuned") -> "Table":
    """What the run has come to."""
    trained = done.trained
    unit = "examples" if done.labels else "tokens"
    rows = [
        ["model", f"{done.model.family.model_type}, {done.model.head.value}"],
        ["parameters", f"{done.model.size:,}"],
        [f"{unit} learnt from", f"{done.counts[0]:,}"],
        [f"{unit} evaluated on", f"{done.counts[1]:,}"],
        ["steps", f"{trained.step} of {trained.total_steps}"],
        ["seconds of training", f"{trained.seconds:.0f}"],
        ["seconds a step", f"{trained.seconds_per_step:.2f}"],
        ["training loss", f"{trained.loss:.4f}"],
    ]
    if done.cut:
        rows.append(["texts cut to max_seq_length", f"{done.cut:,}"])
    if done.drawn:
        rows.append(["tensors of a new head", f"{len(done.drawn)}"])
    if trained.best_step is not None:
        early = ", stopped early" if trained.stopped_early else ""
        rows.append(["best after step", f"{trained.best_step}{early}"])
    rows += [[name, f"{score:.4f}"] for name, score in trained.scores.items()]
    how = "not finished" if trained.was_interrupted else "written"
    return table(f"{done.folder}: {how}", ["figure"], ["value"], rows)
