"""``distill``: a student that three parties compute at less cost than its teacher.

Three steps that a user sees. *Prepare*: the student is the teacher with another
activation, fitted to the teacher's on training texts; plans are calibrated on these,
their types fixed, and the untrained student measured. If that is good enough with the
teacher's own weights, there is nothing to do. *Train*:
hidden states, then logits, are made those of the teacher, and if wanted once more in
the parties' own arithmetic. *Convert*: the student becomes a Hugging Face folder, and
is measured as it will be run.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax
import numpy as np

from ditto.errors import SetupError
from ditto.files import Json
from ditto.models import Model
from ditto.models.layers import OURS
from ditto.plan import Tree
from ditto.training.card import CARD, write_card
from ditto.training.data import (
    is_plain_text,
)
from ditto.training.distill_run import Cost, DistillRun, open_run
from ditto.training.distillation import Traced, traced
from ditto.training.examples import find_task
from ditto.training.finetune import RESULTS, move_files, write_model
from ditto.training.fitting import fit_activation
from ditto.training.measure import (
    Measured,
    Measurement,
    OnCount,
    lengths_of,
    usual_length,
)
from ditto.training.progress import OnProgress, Trained
from ditto.training.quantized import lengths, make_plans, quantized
from ditto.training.settings import DistillSettings
from ditto.training.source import copy_tokenizer
from ditto.training.stages import distill_stages
from ditto.training.supervised import METRICS

_POINTS = 100.0


@dataclass(frozen=True)
class Distillation:
    """What a run has made."""

    folder: Path
    student: Model
    metric: str
    teacher: Measured
    """In float, on all validation examples."""
    untrained: Measured
    """The student before any training, in the simulator."""
    costs: tuple[Cost, ...]
    """Of the finished student; of the untrained one if training was interrupted."""
    teacher_costs: tuple[Cost, ...]
    stages: dict[str, Trained] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Stages after which the student was no better than before."""
    measured: tuple[Measured, ...] = ()
    """The finished student: in float, in the simulator, by three parties."""

    @property
    def was_interrupted(self) -> bool:
        """Whether a stage is to be resumed."""
        return any(stage.was_interrupted for stage in self.stages.values())

    def as_json(self) -> Json:
        """What scripts want to know."""
        return {
            "output_dir": str(self.folder),
            "metric": self.metric,
            "teacher": self.teacher.as_json(),
            "untrained": self.untrained.as_json(),
            "student": [each.as_json() for each in self.measured],
            "costs": [vars(cost) for cost in self.costs],
            "teacher_costs": [vars(cost) for cost in self.teacher_costs],
            "stages": {
                name: {
                    "step": stage.step,
                    "total_steps": stage.total_steps,
                    "best_step": stage.best_step,
                    "loss": stage.loss,
                    "seconds": round(stage.seconds, 3),
                    **{f"eval_{name}": score for name, score in stage.scores.items()},
                }
                for name, stage in self.stages.items()
            },
            "left_out": [*self.left_out],
            "interrupted": self.was_interrupted,
        }


def distill(
    settings: DistillSettings,
    *,
    on_stage: Callable[[str], None] = lambda _: None,
    on_count: OnCount = lambda *_: None,
    on_progress: OnProgress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Distillation:
    """Train a student and write its folder; if the run was stopped, no more than
    checkpoints.

    Raises SetupError if the untrained student is good enough.
    """
    on_stage("prepare: reading the data and the teacher")
    run = _fitted(open_run(settings, on_stage), on_count)
    measurement = Measurement(run.teacher, pairs=run.pairs, on_count=on_count)
    result = _prepare(run, measurement)
    done = distill_stages(
        run.teacher,
        traced(run.student),
        run.student.params,
        run.data,
        settings,
        quantize=lambda params: _quantized(run, params),
        on_stage=on_stage,
        on_progress=on_progress,
        should_stop=should_stop,
    )
    result = replace(
        result,
        stages=done.stages,
        left_out=done.left_out,
        student=replace(run.student, params=done.params),
    )
    if result.was_interrupted:
        return result
    return _convert(run, result, measurement)


def _fitted(run: DistillRun, on_count: OnCount) -> DistillRun:
    """With a student whose parabolas are near its teacher's activation."""
    settings = run.settings
    if not _is_fitted(run):
        return run
    run.on_stage("prepare: fitting the activation")
    steps = -(-settings.fit_samples // settings.per_device_train_batch_size)
    batches = [run.data.train.at(step) for step in range(steps)]
    student = fit_activation(
        run.teacher,
        run.student,
        batches,
        lambda done, count: on_count("fitting", done, count),
    )
    return replace(run, student=student)


def _is_fitted(run: DistillRun) -> bool:
    maps = run.teacher.family.maps_around_activation
    fits = run.settings.activation in OURS and run.settings.fit_samples > 0
    return fits and maps is not None


def _prepare(run: DistillRun, measurement: Measurement) -> Distillation:
    """The teacher's score, the costs, and what the student is worth untrained."""
    settings, every = run.settings, run.examples()
    sizes = lengths_of(every)
    run.on_stage("prepare: the teacher in float")
    teacher = measurement.in_float(run.teacher, every)
    run.on_stage("prepare: plans of the untrained student")
    plans = run.plans(run.student)
    costs = run.costs(plans, sizes)
    # those of one length: each length is one more function to compile
    usual = usual_length(every)
    some = [each for each in every if each.ids.shape[1] == usual]
    some = some[: settings.simulator_samples]
    untrained = measurement.in_simulator(plans, some, run.on_stage)
    metric = _metric(settings)
    if not _is_fitted(run):
        teacher_of_some = measurement.in_float(run.teacher, some)
        _refuse_if_good(run, metric, teacher_of_some, untrained)
    same = run.student.published == run.teacher.published
    of_teacher = costs if same else run.costs(run.plans(run.teacher), sizes)
    return Distillation(
        settings.output_dir, run.student, metric, teacher, untrained, costs, of_teacher
    )


def _refuse_if_good(
    run: DistillRun, metric: str, teacher: Measured, untrained: Measured
) -> None:
    due, got = teacher.scores[metric], untrained.scores[metric]
    lost = lost_points(metric, due, got)
    allowed = run.settings.tolerance
    if untrained.overflows or not allowed or lost > allowed:
        return
    advice = (
        "The teacher serves as it is; for a student that costs less, name an "
        "activation: activation=quad."
        if run.student.published == run.teacher.published
        else "To train all the same, say tolerance=0."
    )
    raise SetupError(
        f"Nothing to do: without any training, {metric} in profile "
        f"{run.profile.name!r} is {got:.4f} where the teacher has {due:.4f} "
        f"({untrained.examples} examples, simulator), within the tolerance of "
        f"{allowed:g} points. {advice}"
    )


def lost_points(metric: str, due: float, got: float) -> float:
    """How many points, or per cent of perplexity, are lost."""
    if METRICS[metric].greater_is_better:
        return _POINTS * (due - got)
    return _POINTS * (got - due) / due


def _metric(settings: DistillSettings) -> str:
    """What a student is judged by in the end: the task's own."""
    if is_plain_text(settings):
        return "perplexity"
    task = find_task(settings)
    return "matthews" if task is not None and task.metric == "matthews" else "accuracy"


def _quantized(run: DistillRun, params: Tree) -> Traced:
    """The student by plans that are calibrated on its weights so far."""
    plans = run.plans(replace(run.student, params=params))
    sizes = lengths([run.data.train, run.validation])
    made = make_plans(plans, sizes, pairs=run.pairs, on_stage=run.on_stage)
    return quantized(made, pairs=run.pairs, prepare=plans.preparation.params)


def _convert(
    run: DistillRun, result: Distillation, measurement: Measurement
) -> Distillation:
    """Measure the student as it will be run, and write its folder."""
    settings, every = run.settings, run.examples()
    params = jax.tree.map(np.asarray, result.student.params)
    student = replace(result.student, params=params)
    run.on_stage("convert: plans of the student")
    plans = run.plans(student)
    costs = run.costs(plans, lengths_of(every))
    some = run.examples(settings.simulator_samples)
    measured = [
        measurement.in_float(student, every),
        measurement.in_simulator(plans, some, run.on_stage),
    ]
    if settings.mpc_samples:
        few = run.examples(settings.mpc_samples)
        measured.append(measurement.by_parties(plans, few, run.on_stage))
    done = replace(result, student=student, costs=costs, measured=tuple(measured))
    run.on_stage("convert: writing the model")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".files-", dir=settings.output_dir) as name:
        files = Path(name)
        copy_tokenizer(run.folder, files)
        write_model(student, files)
        text = json.dumps(done.as_json(), indent=1) + "\n"
        (files / RESULTS).write_text(text)
        write_card(files / CARD, done.as_json(), settings)
        move_files(files, settings.output_dir)
    return done
