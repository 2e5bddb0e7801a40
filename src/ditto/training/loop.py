"""The training loop: of a teacher, of a student, of anything with a loss.

A run is decided by its settings, its data and its first parameters. It may be left
after any step and resumed: weights and log are then bit for bit those of a run that
was never left. There is no dropout, so no random state to keep: models are trained as
they will be run.
"""

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ditto.errors import SetupError, TrainingError
from ditto.files import Json
from ditto.plan import Tree
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.checkpoints import (
    checkpoint_folder,
    drop_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    steps_saved,
)
from ditto.training.log import TrainingLog
from ditto.training.objective import Loss, Objective
from ditto.training.optimizer import learning_rate, make_optimizer
from ditto.training.progress import OnProgress, Progress, Trained
from ditto.training.settings import TrainingSettings, arithmetic

Step = Callable[[Tree, TrainingBatch, Tree], tuple[Tree, jax.Array]]
_RECENT = 50
"""Steps that the time of a step is the mean of."""


@dataclass
class _State:
    """What is kept beside the arrays. All of it is JSON."""

    step: int = 0
    evaluated_step: int = 0
    best_step: int | None = None
    best_scores: Json = field(default_factory=dict)
    evaluations_since_best: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    last_loss: float | None = None
    seconds: float = 0.0
    stopped_early: bool = False


class _Stopped(Exception):  # noqa: N818
    """Somebody wants the run to stop."""


def train(
    params: Tree,
    objective: Objective,
    batches: Batches,
    settings: TrainingSettings,
    *,
    frozen: Tree = None,
    on_progress: OnProgress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train parameters, from the start or from a checkpoint.

    ``frozen`` are arrays that the loss needs and that do not change. ``should_stop`` is
    asked after every step, and during an evaluation after every batch: if it says yes,
    a checkpoint is written and what was reached is returned.
    """
    run = _Run(params, objective, batches, settings, frozen, on_progress, should_stop)
    run.resume_or_begin()
    try:
        if run.evaluation_is_due:  # it was left in the middle of one
            run.evaluate()
        while not run.is_finished:
            run.take_step()
            if run.log_is_due:
                run.log_loss()
            if run.evaluation_is_due:
                run.evaluate()
            if run.save_is_due:
                run.save()
            if should_stop() and not run.is_finished:
                raise _Stopped
    except _Stopped:
        run.save()
        return run.result(was_interrupted=True)
    return run.result()


class _Run:
    def __init__(
        self,
        params: Tree,
        objective: Objective,
        batches: Batches,
        settings: TrainingSettings,
        frozen: Tree,
        on_progress: OnProgress,
        should_stop: Callable[[], bool],
    ) -> None:
        self._objective, self._batches, self._settings = objective, batches, settings
        self._on_progress, self._should_stop = on_progress, should_stop
        self._folder: Path = settings.output_dir
        self._frozen = jax.tree.map(jnp.asarray, frozen)
        self._frozen_digest = _digest(frozen)
        self._total = total_steps(settings, batches.steps_per_epoch)
        self._rate = learning_rate(settings, self._total)
        optimizer = make_optimizer(settings, self._rate)
        # copies: the step below takes the arrays away from whoever has them
        copied = jax.tree.map(lambda array: jnp.array(np.asarray(array)), params)
        self._arrays: Tree = (copied, optimizer.init(copied))
        self._step = training_step(objective.loss, optimizer)
        self._state = _State()
        self._shapes: set[tuple[int, ...]] = set()
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def resume_or_begin(self) -> None:
        """From a checkpoint, if there is to be one."""
        source = self._settings.resume_from_checkpoint
        self._folder.mkdir(parents=True, exist_ok=True)
        if source is False:
            if steps_saved(self._folder):
                raise SetupError(
                    f"{self._folder} has checkpoints of a run. Go on from the newest "
                    "with --resume_from_checkpoint true, or name another output_dir."
                )
        else:
            self._resume(
                newest_checkpoint(self._folder) if source is True else Path(source)
            )
        tensorboard = self._settings.report_to == "tensorboard"
        self._log = TrainingLog(self._folder, self._state.step, tensorboard=tensorboard)

    def _resume(self, path: Path) -> None:
        if path.resolve().parent != self._folder.resolve():
            raise SetupError(f"{path} is not in {self._folder}, the output_dir.")
        arrays, content = load_checkpoint(path, self._arrays)
        saved, current = content.get("run"), self._identity
        if not isinstance(saved, dict):
            raise SetupError(f"{path} is no checkpoint of a run.")
        for name in sorted({*saved, *current}):
            if saved.get(name) != current.get(name):
                raise SetupError(
                    f"{path} is of a run with {name} = {saved.get(name)!r}, not "
                    f"{current.get(name)!r}: to resume it, say the same."
                )
        try:
            self._state = _State(**content["state"])
        except (TypeError, KeyError):
            raise SetupError(f"{path} is of another version of Ditto.") from None
        self._arrays = arrays

    @property
    def _identity(self) -> Json:
        """What decides the weights."""
        return {
            **arithmetic(self._settings),
            "total_steps": self._total,
            "data": self._batches.digest,
            "frozen weights": self._frozen_digest,
        }

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to do."""
        return self._state.step >= self._total or self._state.stopped_early

    def take_step(self) -> None:
        """One step down the loss."""
        batch = self._batches.at(self._state.step)
        started = time.monotonic()
        self._arrays, loss = self._step(self._arrays, batch, self._frozen)
        value = float(loss)
        seconds = time.monotonic() - started
        if not math.isfinite(value):
            raise TrainingError(
                f"The loss is {value} at step {self._state.step + 1}. A smaller "
                f"learning_rate than {self._settings.learning_rate:g}, or a longer "
                "warm-up, may help."
            )
        if batch.ids.shape in self._shapes:
            self._recent.append(seconds)
        self._shapes.add(batch.ids.shape)
        self._state.step += 1
        self._state.loss_sum += value
        self._state.loss_count += 1
        self._state.seconds += seconds
        self._on_progress(self._progress())

    def _progress(self) -> Progress:
        state = self._state
        mean = (
            state.loss_sum / state.loss_count if state.loss_count else state.last_loss
        )
        return Progress(
            step=state.step,
            total_steps=self._total,
            epoch=state.step / self._batches.steps_per_epoch,
            loss=math.nan if mean is None else mean,
            learning_rate=float(np.asarray(self._rate(max(0, state.step - 1)))),
            seconds_per_step=self._seconds_per_step,
        )

    @property
    def _seconds_per_step(self) -> float:
        return float(np.mean(self._recent)) if self._recent else 0.0

    @property
    def log_is_due(self) -> bool:
        """Whether the loss is to be noted now."""
        return self._is_at(self._settings.logging_steps)

    def log_loss(self) -> None:
        """Note the mean loss since the last note."""
        now, state = self._progress(), self._state
        state.last_loss, state.loss_sum, state.loss_count = now.loss, 0.0, 0
        figures = {"loss": now.loss, "learning_rate": now.learning_rate}
        self._log.add(now.step, now.epoch, figures)
        self._on_progress(Progress(**{**asdict(now), "is_logged": True}))

    @property
    def evaluation_is_due(self) -> bool:
        """Whether these parameters are to be evaluated, and were not."""
        if self._objective.evaluate is None or not self._state.step:
            return False
        every = self._settings.eval_steps or self._batches.steps_per_epoch
        return self._is_at(every) and self._state.evaluated_step < self._state.step

    def evaluate(self) -> None:
        """Score the parameters; keep them if they are the best."""
        state, metric = self._state, self._objective.metric
        if self._objective.evaluate is None or metric is None:
            return
        scores = {**self._objective.evaluate(self._arrays[0], self._heed)}
        if metric.name not in scores:
            raise SetupError(
                f"There is no metric {metric.name!r}; there are: {', '.join(scores)}."
            )
        state.evaluated_step = state.step
        best = state.best_scores.get(metric.name)
        is_best = metric.is_better(scores[metric.name], best)
        if is_best:
            state.best_step, state.best_scores = state.step, scores
            state.evaluations_since_best = 0
        else:
            state.evaluations_since_best += 1
        patience = self._settings.early_stopping_patience
        if patience is not None and state.evaluations_since_best >= patience:
            state.stopped_early = state.step < self._total
        now = self._progress()
        figures = {f"eval_{name}": value for name, value in scores.items()}
        self._log.add(now.step, now.epoch, figures)
        evaluated = {"scores": scores, "is_best": is_best}
        self._on_progress(Progress(**{**asdict(now), **evaluated}))

    def _heed(self, _: int, __: int) -> None:
        if self._should_stop():
            raise _Stopped

    @property
    def save_is_due(self) -> bool:
        """Whether a checkpoint is to be written: when told, and of the best."""
        every = self._settings.save_steps
        if every is None and self._objective.evaluate is None:
            every = self._batches.steps_per_epoch
        here = self._state.step
        if every is None:
            timed = self._state.evaluated_step == here
        else:
            timed = self._is_at(every)
        return timed or self._state.best_step == here or self.is_finished

    def save(self) -> None:
        """Write a checkpoint; the best one is kept beside it, and no other."""
        state = self._state
        content: Json = {"state": asdict(state), "run": self._identity}
        save_checkpoint(self._folder, state.step, self._arrays, content)
        kept = {state.step, state.best_step}
        drop_checkpoints(self._folder, {step for step in kept if step is not None})

    def _is_at(self, every: int) -> bool:
        """Whether so many steps have passed again, or all."""
        step = self._state.step
        return step % every == 0 or step == self._total

    def result(self, *, was_interrupted: bool = False) -> Trained:
        """What the run has come to."""
        state = self._state
        arrays = self._arrays
        if state.best_step not in (None, state.step) and not was_interrupted:
            best = checkpoint_folder(self._folder, state.best_step)
            arrays, _ = load_checkpoint(best, self._arrays)
        return Trained(
            params=arrays[0],
            step=state.step,
            total_steps=self._total,
            scores=state.best_scores,
            best_step=state.best_step,
            loss=self._progress().loss,
            seconds=state.seconds,
            seconds_per_step=self._seconds_per_step,
            was_interrupted=was_interrupted,
            stopped_early=state.stopped_early,
        )


def _digest(frozen: Tree) -> str | None:
    """Of a teacher's weights, wherever they lie; None if there are none."""
    arrays = jax.tree.leaves(frozen)
    if not arrays:
        return None
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.asarray(array).tobytes())
    return digest.hexdigest()


def total_steps(settings: TrainingSettings, steps_per_epoch: int) -> int:
    """How many steps a run has."""
    if settings.max_steps > 0:
        return settings.max_steps
    return max(1, math.ceil(settings.num_train_epochs * steps_per_epoch))


def training_step(loss: Loss, optimizer: optax.GradientTransformation) -> Step:
    """A compiled function of (parameters, optimizer's state), a batch and what is
    frozen: both after a step, and the loss before it.

    The arrays that go in are given up, so that those that come out take their place.
    """

    def step(
        arrays: Tree, batch: TrainingBatch, frozen: Tree
    ) -> tuple[Tree, jax.Array]:
        params, state = arrays
        value, gradient = jax.value_and_grad(loss)(params, batch, frozen)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    return jax.jit(step, donate_argnums=0)
