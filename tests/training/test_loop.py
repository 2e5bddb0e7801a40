"""The loop: it learns, it can be left and resumed bit for bit, it stops when told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.client.tokens import Encoded
from ditto.errors import SetupError, TrainingError
from ditto.plan import Tree
from ditto.training.batches import TextBatches, TrainingBatch
from ditto.training.checkpoints import steps_saved
from ditto.training.log import LOG, read_log
from ditto.training.loop import train
from ditto.training.objective import Metric, Objective
from ditto.training.optimizer import decays, learning_rate
from ditto.training.progress import OnEvaluation, Progress, Scores, Trained
from ditto.training.settings import TrainingSettings

WORDS, WIDTH, COUNT, SIZE = 20, 8, 70, 8
STEPS = 9
"""In an epoch."""


def data(label: Callable[[int], int] = lambda word: word % 2) -> TextBatches:
    rng = np.random.default_rng(1)
    words = [rng.integers(1, WORDS, rng.integers(2, 12)) for _ in range(COUNT)]
    texts = [Encoded([int(n) for n in ids], [0] * len(ids)) for ids in words]
    labels = [label(int(ids[0])) for ids in words]
    return TextBatches(texts, labels, SIZE, buckets=(12,), limit=12, pad_id=0, seed=5)


def first_params() -> Tree:
    rng = np.random.default_rng(2)
    table = rng.standard_normal((WORDS, WIDTH)).astype(np.float32)
    weights = rng.standard_normal((WIDTH, 2)).astype(np.float32)
    return {"table": table, "dense": {"w": weights, "b": np.zeros(2, np.float32)}}


def logits(params: Tree, batch: TrainingBatch) -> jax.Array:
    first = jnp.tanh(params["table"][batch.ids[:, 0]])
    return first @ params["dense"]["w"] + params["dense"]["b"]


def loss(params: Tree, batch: TrainingBatch, frozen: Tree) -> jax.Array:
    chosen = jax.nn.log_softmax(logits(params, batch))
    each = -jnp.take_along_axis(chosen, batch.labels[:, None], 1)[:, 0]
    return (each * batch.weights).sum() / batch.weights.sum() + frozen["more"]


def accuracy(params: Tree, on_batch: OnEvaluation) -> Scores:
    right = 0
    batches = [*data().in_order()]
    for k, batch in enumerate(batches):
        on_batch(k, len(batches))
        said = np.asarray(logits(params, batch)).argmax(-1)
        right += int(((said == batch.labels) & (batch.weights > 0)).sum())
    return {"accuracy": right / COUNT}


OBJECTIVE = Objective(loss, accuracy, Metric("accuracy", greater_is_better=True))


def settings(folder: Path, **changes: Any) -> TrainingSettings:
    values = {
        "output_dir": folder, "train_file": "-", "validation_file": "-",
        "learning_rate": 0.2, "num_train_epochs": 3, "logging_steps": 4,
    }  # fmt: skip
    return TrainingSettings(**{**values, **changes})


def run(
    folder: Path,
    objective: Objective = OBJECTIVE,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Progress], None] = lambda _: None,
    **changes: Any,
) -> Trained:
    return train(
        first_params(),
        objective,
        data(),
        settings(folder, **changes),
        frozen={"more": np.float32(0.5)},
        on_progress=on_progress,
        should_stop=should_stop,
    )


def same(one: Tree, other: Tree) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def after(count: int) -> Callable[[], bool]:
    """Says to stop when it is asked for the n-th time."""
    asked = iter(range(count))
    return lambda: next(asked, None) is None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder)


def test_it_learns(whole: tuple[Path, Trained]) -> None:
    folder, trained = whole
    assert trained.step == trained.total_steps == 3 * STEPS
    assert trained.scores["accuracy"] > 0.9
    curve = [line["loss"] for line in read_log(folder / LOG) if "loss" in line]
    assert curve[-1] < 0.7 * curve[0]
    assert min(curve) > 0.5  # what is frozen counts


@pytest.mark.parametrize("stop", [7, STEPS + 3])
def test_a_resumed_run_is_the_same_bit_for_bit(
    whole: tuple[Path, Trained], tmp_path: Path, stop: int
) -> None:
    left = run(tmp_path, should_stop=after(stop))
    assert left.was_interrupted
    assert left.step < 3 * STEPS
    again = run(tmp_path, resume_from_checkpoint=True, should_stop=after(13))
    done = (
        run(tmp_path, resume_from_checkpoint=True) if again.was_interrupted else again
    )
    assert not done.was_interrupted
    assert same(done.params, whole[1].params)
    assert not same(left.params, whole[1].params)
    assert (tmp_path / LOG).read_text() == (whole[0] / LOG).read_text()
    assert done.scores == whole[1].scores


def test_a_run_may_be_left_during_an_evaluation(
    whole: tuple[Path, Trained], tmp_path: Path
) -> None:
    left = run(tmp_path, should_stop=after(STEPS + 3))
    evaluated = [line for line in read_log(tmp_path / LOG) if "eval_accuracy" in line]
    assert (left.step, evaluated) == (STEPS, [])
    done = run(tmp_path, resume_from_checkpoint=tmp_path / f"checkpoint-{STEPS}")
    assert same(done.params, whole[1].params)
    assert (tmp_path / LOG).read_text() == (whole[0] / LOG).read_text()


def test_a_finished_run_stays_as_it_is(whole: tuple[Path, Trained]) -> None:
    again = run(whole[0], resume_from_checkpoint=True)
    assert same(again.params, whole[1].params)
    assert again.step == whole[1].step


def scripted(scores: list[float]) -> Objective:
    coming = iter(scores)

    def evaluate(_: Tree, on_batch: OnEvaluation) -> Scores:
        return {"score": next(coming)}

    return Objective(loss, evaluate, Metric("score", greater_is_better=True))


def test_the_best_is_kept(tmp_path: Path) -> None:
    seen: dict[int, Tree] = {}

    def watch(params: Tree, on_batch: OnEvaluation) -> Scores:
        seen[len(seen)] = jax.tree.map(np.array, params)
        return {"score": (0.1, 0.9, 0.3, 0.9, 0.2)[len(seen) - 1]}

    objective = Objective(loss, watch, Metric("score", greater_is_better=True))
    trained = run(tmp_path, objective, eval_steps=2, max_steps=10)
    assert (trained.best_step, trained.scores) == (4, {"score": 0.9})
    assert same(trained.params, seen[1])
    assert steps_saved(tmp_path) == [4, 10]


def test_it_stops_early(tmp_path: Path) -> None:
    objective = scripted([0.5, 0.6, 0.1, 0.6, 0.7])
    trained = run(tmp_path, objective, eval_steps=2, early_stopping_patience=2)
    assert trained.stopped_early
    assert (trained.step, trained.best_step) == (8, 4)
    resumed = run(
        tmp_path, objective, eval_steps=2, early_stopping_patience=2,
        resume_from_checkpoint=True,
    )  # fmt: skip
    assert resumed.step == 8


def test_it_says_where_it_is(tmp_path: Path) -> None:
    said: list[Progress] = []
    run(tmp_path, on_progress=said.append, max_steps=8, eval_steps=8)
    assert [p.step for p in said if not p.is_logged and not p.scores] == [*range(1, 9)]
    assert [p.step for p in said if p.is_logged] == [4, 8]
    (evaluated,) = (p for p in said if p.scores)
    assert evaluated.is_best
    assert said[-1].learning_rate < said[2].learning_rate


def test_tensorboard_has_the_same(tmp_path: Path) -> None:
    run(tmp_path, max_steps=4, report_to="tensorboard")
    (file,) = (tmp_path / "runs").iterdir()
    assert b"eval_accuracy" in file.read_bytes()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "has checkpoints of a run. Go on from the newest with --resume_from"),
        ({"resume_from_checkpoint": True, "seed": 3}, "seed = 42, not 3"),
        ({"resume_from_checkpoint": True, "max_steps": 3}, "max_steps = -1, not 3"),
        ({"resume_from_checkpoint": "elsewhere/checkpoint-1"}, "is not in"),
    ],
)
def test_another_run_is_not_mixed_in(
    whole: tuple[Path, Trained], changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SetupError) as refused:
        run(whole[0], **changes)
    assert expected in str(refused.value)


def test_other_data_are_refused(whole: tuple[Path, Trained]) -> None:
    chosen = settings(whole[0], resume_from_checkpoint=True)
    other = data(lambda word: word % 3 % 2)
    with pytest.raises(SetupError, match="is of a run with data = "):
        train(first_params(), OBJECTIVE, other, chosen, frozen={"more": 0.5})


def test_broken_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no checkpoint to resume from"):
        run(tmp_path, resume_from_checkpoint=True)
    run(tmp_path, max_steps=2)
    folder = tmp_path / "checkpoint-2"
    state = (folder / "trainer_state.json").read_text()
    for text in ("{", "[]", "{}", json.dumps({**json.loads(state), "state": {"a": 1}})):
        (folder / "trainer_state.json").write_text(text)
        with pytest.raises(SetupError):
            run(tmp_path, max_steps=2, resume_from_checkpoint=True)
    (folder / "trainer_state.json").write_text(state)
    (folder / "state.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(SetupError, match="no checkpoint of a run"):
        run(tmp_path, max_steps=2, resume_from_checkpoint=True)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    objective = Objective(lambda p, b, f: loss(p, b, f) * jnp.inf)
    with pytest.raises(TrainingError, match=r"inf at step 1\. A smaller"):
        run(tmp_path, objective)


def test_schedules(tmp_path: Path) -> None:
    def rates(**changes: Any) -> list[float]:
        chosen = settings(tmp_path, learning_rate=1.0, warmup_ratio=0.2, **changes)
        return [round(float(learning_rate(chosen, 10)(k)), 3) for k in range(11)]

    rising = [0.0, 0.5]
    falling = [round(1 - k / 8, 3) for k in range(9)]
    assert rates() == [*rising, *falling]
    assert rates(lr_scheduler_type="constant") == [1.0] * 11
    assert rates(lr_scheduler_type="constant_with_warmup") == [*rising, *[1.0] * 9]
    cosine = rates(lr_scheduler_type="cosine")
    assert (cosine[:3], cosine[6], cosine[10]) == ([0.0, 0.5, 1.0], 0.5, 0.0)


def test_vectors_do_not_decay() -> None:
    assert decays(first_params()) == {"table": True, "dense": {"w": True, "b": False}}
