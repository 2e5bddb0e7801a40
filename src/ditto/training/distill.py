"""``distill``: a student that three parties compute at less cost than its teacher.

Three steps that a user sees. *Prepare*: the student is the teacher with another
activation; plans are calibrated on its training texts, their types fixed, and the
untrained student measured, for if that is good enough there is nothing to do. *Train*:
hidden states, then logits, are made those of the teacher, and if wanted once more in
the parties' own arithmetic. *Convert*: the student becomes a Hugging Face folder, and
is measured as it will be run.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax
import numpy as np

from ditto.analysis import estimate
from ditto.client import Tokenizer
from ditto.compiler import Profile, find_profile
from ditto.errors import SetupError
from ditto.files import Json
from ditto.models import Head, Model, from_checkpoint, read_checkpoint
from ditto.models.hub import find_folder
from ditto.owner.plans import Plans
from ditto.owner.samples import Text, TextSamples
from ditto.plan import Plan, Tree
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.card import CARD, write_card
from ditto.training.data import (
    Data,
    LabelledData,
    is_plain_text,
    language_data,
    read_labelled_data,
    text_data,
)
from ditto.training.distillation import Traced, traced
from ditto.training.examples import find_task, read_plain_text
from ditto.training.finetune import RESULTS, move_files, write_model
from ditto.training.measure import (
    Measured,
    Measurement,
    OnCount,
    lengths_of,
    rows,
    usual_length,
)
from ditto.training.progress import OnProgress, Trained
from ditto.training.quantized import has_pairs, lengths, make_plans, quantized
from ditto.training.settings import DistillSettings
from ditto.training.source import checkpoint_labels, copy_tokenizer
from ditto.training.stages import distill_stages
from ditto.training.supervised import METRICS

_CALIBRATION_TEXTS = 32
"""Training texts that plans are calibrated on, beside what people type otherwise."""
_POINTS = 100.0


@dataclass(frozen=True)
class Cost:
    """What an answer costs, of all parties together."""

    tokens: int
    bytes: float
    rounds: float


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
            "interrupted": self.was_interrupted,
        }


@dataclass(frozen=True)
class _Run:
    """What all steps of a run work with."""

    settings: DistillSettings
    profile: Profile
    folder: Path
    """The teacher's."""
    teacher: Model
    student: Model
    data: Data
    validation: Batches
    samples: TextSamples
    pairs: bool
    on_stage: Callable[[str], None]

    def plans(self, model: Model) -> Plans:
        """Of a model, calibrated on the training texts."""
        return Plans(model, self.profile, self.samples)

    def examples(self, most: int | None = None) -> list[TrainingBatch]:
        """Of the validation file: all, or so many."""
        limit = min(self.settings.max_seq_length, self.teacher.max_tokens)
        return rows(self.validation, limit, most)

    def costs(self, plans: Plans, sizes: Sequence[int]) -> tuple[Cost, ...]:
        """For each length."""
        made = make_plans(plans, sizes, pairs=self.pairs, on_stage=self.on_stage)
        return tuple(_cost(size, made[size]) for size in sizes)


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
    run = _open(settings, on_stage)
    measurement = Measurement(run.teacher, pairs=run.pairs, on_count=on_count)
    result = _prepare(run, measurement)
    done = distill_stages(
        run.teacher,
        traced(run.student),
        run.teacher.params,
        run.data,
        settings,
        quantize=lambda params: _quantized(run, params),
        on_stage=on_stage,
        on_progress=on_progress,
        should_stop=should_stop,
    )
    result = replace(
        result, stages=done.stages, student=replace(run.student, params=done.params)
    )
    if result.was_interrupted:
        return result
    return _convert(run, result, measurement)


def _open(settings: DistillSettings, on_stage: Callable[[str], None]) -> _Run:
    folder = find_folder(settings.teacher_model_name_or_path)
    teacher = from_checkpoint(read_checkpoint(folder))
    tokenizer = Tokenizer.load(folder)
    limit = min(settings.max_seq_length, teacher.max_tokens)
    texts: Sequence[Text]
    if is_plain_text(settings):
        _demand_head(teacher, Head.TEXT_GENERATION)
        data = language_data(settings, tokenizer, limit)
        texts = _paragraphs(read_plain_text(settings.train_file))
    else:
        _demand_head(teacher, Head.TEXT_CLASSIFICATION)
        labelled = read_labelled_data(settings, checkpoint_labels(folder))
        data = text_data(labelled, settings, tokenizer, limit)
        texts = calibration_texts(labelled)
    if data.validation is None:
        raise SetupError("A student is measured beside its teacher: validation_file.")
    return _Run(
        settings,
        find_profile(settings.profile),
        folder,
        teacher,
        _student(teacher, settings),
        data,
        data.validation,
        TextSamples(tokenizer, texts),
        has_pairs(teacher, [data.train, data.validation]),
        on_stage,
    )


def calibration_texts(data: LabelledData) -> list[Text]:
    """The first training texts: what the model will be asked is like them."""
    return [
        each.text if each.pair is None else (each.text, each.pair)
        for each in data.train[:_CALIBRATION_TEXTS]
    ]


def _demand_head(teacher: Model, head: Head) -> None:
    if teacher.head is not head:
        raise SetupError(
            f"The training file is for {head.value}, the teacher for "
            f"{teacher.head.value}."
        )


def _paragraphs(text: str) -> list[str]:
    """Some of a long text, for calibration."""
    lines = [line.strip() for line in text.splitlines()]
    long = [line for line in lines if len(line.split()) > 8] or [text]
    return long[:_CALIBRATION_TEXTS]


def _student(teacher: Model, settings: DistillSettings) -> Model:
    changes: Json = {}
    if settings.activation is not None:
        changes["hidden_act"] = settings.activation
    if settings.attention_weights is not None:
        changes["attention_weights"] = settings.attention_weights
    student = teacher.with_config(**changes)
    _ = student.config  # refuses what there is not
    return student


def _prepare(run: _Run, measurement: Measurement) -> Distillation:
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
    _refuse_if_good(run, metric, measurement.in_float(run.teacher, some), untrained)
    same = run.student.published == run.teacher.published
    of_teacher = costs if same else run.costs(run.plans(run.teacher), sizes)
    return Distillation(
        settings.output_dir, run.student, metric, teacher, untrained, costs, of_teacher
    )


def _refuse_if_good(
    run: _Run, metric: str, teacher: Measured, untrained: Measured
) -> None:
    due, got = teacher.scores[metric], untrained.scores[metric]
    lost = _lost_points(metric, due, got)
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


def _lost_points(metric: str, due: float, got: float) -> float:
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


def _quantized(run: _Run, params: Tree) -> Traced:
    """The student by plans that are calibrated on its weights so far."""
    plans = run.plans(replace(run.student, params=params))
    sizes = lengths([run.data.train, run.validation])
    made = make_plans(plans, sizes, pairs=run.pairs, on_stage=run.on_stage)
    return quantized(made, pairs=run.pairs)


def _convert(run: _Run, result: Distillation, measurement: Measurement) -> Distillation:
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


def _cost(tokens: int, plan: Plan) -> Cost:
    found = estimate(plan)
    return Cost(tokens, found.bytes, found.rounds)
