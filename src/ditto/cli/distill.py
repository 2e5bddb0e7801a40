"""``ditto distill``: a student that costs less, from a teacher."""

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

    from ditto.training.distill import Distillation
    from ditto.training.measure import Measured

_WHO = {"float": "float", "simulate": "simulator", "mpc": "three parties"}


def distill(context: typer.Context) -> None:
    """Train a student that costs the parties less than its teacher."""
    from ditto.training.settings import DistillSettings

    run_with_flags(DistillSettings, train, context)


def train(
    flags: dict[str, str],
    config: ConfigFile = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Train a student that costs the parties less than its teacher.

    The student is the teacher with another activation, such as `quad`, a square where
    GeLU was. Three steps: *prepare* calibrates plans and measures the untrained
    student; *train* makes its hidden states, then its logits those of the teacher;
    *convert* writes a Hugging Face folder with a model card, measured in float, in the
    simulator and by three parties. If the untrained student is good enough, it says so
    and does nothing.

    Ctrl-C writes a checkpoint; `--resume_from_checkpoint true` goes on from it.

    `ditto distill --teacher_model_name_or_path my-sst2 --activation quad --task_name
    sst2 --train_file sst2/train.tsv --validation_file sst2/dev.tsv --output_dir quad`
    """
    require("jax", "optax", "yaml")
    from ditto.training.settings import DistillSettings
    from ditto.training.settings_file import read_settings

    settings = read_settings(DistillSettings, config, flags)
    report = Report(json_file)
    chosen_cache(no_cache=False)
    from ditto.training.distill import distill as train_student

    with stopping() as should_stop, watching(quiet=quiet) as watch:
        done = train_student(
            settings,
            on_stage=watch.stage,
            on_count=watch.count,
            on_progress=watch.progress,
            should_stop=should_stop,
        )
    if not done.was_interrupted:
        report.print(scores(done))
        report.print(costs(done))
        for stage in done.left_out:
            report.print(f"Stage {stage} made the student no better: left out.")
    finish(report, done.as_json(), was_interrupted=done.was_interrupted)


def scores(done: "Distillation") -> "Table":
    """The teacher and the student, in every way that they were computed."""
    rows = [
        _row("teacher, float", done.teacher, done.metric),
        _row("untrained, simulator", done.untrained, done.metric),
        *(
            _row(f"student, {_WHO[each.mode]}", each, done.metric)
            for each in done.measured
        ),
    ]
    headings = ["examples", done.metric, "agreement", "out of range"]
    return table(f"{done.folder}: written", ["computed"], headings, rows)


def _row(who: str, measured: "Measured", metric: str) -> list[str]:
    return [
        who,
        f"{measured.examples:,}",
        f"{measured.scores[metric]:.4f}",
        f"{measured.scores['agreement']:.4f}",
        "" if measured.mode == "float" else f"{measured.overflows}",
    ]


def costs(done: "Distillation") -> "Table":
    """What an answer costs, before and after."""
    rows = [
        [
            f"{ours.tokens}",
            f"{theirs.bytes / 1e6:,.1f}",
            f"{ours.bytes / 1e6:,.1f}",
            f"{theirs.rounds:,.0f}",
            f"{ours.rounds:,.0f}",
        ]
        for theirs, ours in zip(done.teacher_costs, done.costs, strict=True)
    ]
    headings = ["MB teacher", "student", "rounds teacher", "student"]
    return table("an answer costs", ["tokens"], headings, rows)
