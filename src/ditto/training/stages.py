"""The training half of a distillation: stages, one after the other.

``distill_stages`` takes any student, so it knows neither plans nor parties. Each stage
is a run of the one training loop in a folder of its own, such as ``output_dir/hidden``:
it can be left and resumed as any other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from ditto.models import Head, Model
from ditto.plan import Tree
from ditto.training.checkpoints import steps_saved
from ditto.training.data import Data
from ditto.training.distillation import (
    Traced,
    hidden_loss,
    likeness,
    logit_loss,
    logits_alone,
    together,
    traced,
)
from ditto.training.loop import train
from ditto.training.objective import Objective
from ditto.training.progress import OnProgress, Trained
from ditto.training.settings import DistillSettings, Stage
from ditto.training.supervised import class_scores, find_metric, language_scores


@dataclass(frozen=True)
class Distilled:
    """What the stages have come to."""

    params: Tree
    """The student's, after the last stage that made it better."""
    stages: dict[str, Trained]
    left_out: tuple[str, ...] = ()
    """Stages after which the student was no better than before."""

    @property
    def was_interrupted(self) -> bool:
        """Whether a stage is to be resumed."""
        return any(stage.was_interrupted for stage in self.stages.values())


def distill_stages(
    teacher: Model,
    student: Traced,
    params: Tree,
    data: Data,
    settings: DistillSettings,
    *,
    quantize: Callable[[Tree], Traced] | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
    on_progress: OnProgress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Distilled:
    """Make a student, from its first parameters on, answer as its teacher.

    ``quantize`` makes the student of the stage quantized, from the parameters so far.
    A stage after the first that makes its own metric worse is left out: the logits of
    a small task, which its teacher knows by heart, can do harm.
    """
    finished: dict[str, Trained] = {}
    left_out: list[str] = []
    for stage in settings.stages:
        if stage == "quantized" and quantize is not None:
            student = quantize(params)
        on_stage(f"stage {stage}: compiling the first step")
        of_stage = settings.of_stage(stage)
        is_begun = bool(steps_saved(of_stage.output_dir))
        if settings.resume_from_checkpoint and not is_begun:
            of_stage = of_stage.model_copy(update={"resume_from_checkpoint": False})
        objective = objective_of(stage, teacher, student, data, settings)
        trained = train(
            params,
            objective,
            data.train,
            of_stage,
            frozen=teacher.params,
            on_progress=on_progress,
            should_stop=should_stop,
        )
        is_kept = not finished or trained.was_interrupted
        finished[stage] = trained
        if is_kept or _is_better(objective, trained, params):
            params = jax.tree.map(np.asarray, trained.params)
        else:
            left_out.append(stage)
        if trained.was_interrupted:
            break
    return Distilled(params, finished, tuple(left_out))


def _is_better(objective: Objective, trained: Trained, before: Tree) -> bool:
    """Than before the stage; a tie counts for what was trained."""
    evaluate, metric = objective.evaluate, objective.metric
    if evaluate is None or metric is None:
        return True
    score = evaluate(before, lambda *_: None)[metric.name]
    return not metric.is_better(score, trained.scores[metric.name])


def objective_of(
    stage: Stage, teacher: Model, student: Traced, data: Data, settings: DistillSettings
) -> Objective:
    """What a stage makes smaller; hidden states are told by their loss, logits by the
    metric that is named, or by how often the teacher's answer is given."""
    theirs = traced(teacher)
    if stage == "hidden":
        loss = hidden_loss(student, theirs)
    else:
        weight = 0.0 if stage == "quantized" else settings.hidden_loss_weight
        loss = logit_loss(student, theirs, settings.logit_temperature, weight)
    if data.validation is None:
        return Objective(loss)
    is_language = teacher.head is Head.TEXT_GENERATION
    scores = language_scores if is_language else class_scores
    evaluate = together(
        scores(logits_alone(student), data.validation),
        likeness(student, theirs, teacher.params, data.validation),
    )
    named = settings.metric_for_best_model or "agreement"
    return Objective(
        loss, evaluate, find_metric("hidden_loss" if stage == "hidden" else named)
    )
