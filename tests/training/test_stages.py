"""A student that squares where its teacher has GeLU learns to answer as it does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ditto.client.tokens import Encoded
from ditto.errors import SetupError
from ditto.models import Model, random_model
from ditto.training.batches import TextBatches
from ditto.training.data import Data
from ditto.training.distillation import hidden_loss, logit_loss, traced
from ditto.training.settings import DistillSettings
from ditto.training.settings_file import read_settings
from ditto.training.stages import Distilled, distill_stages

COUNT, SIZE, LENGTH, WORDS = 64, 16, 8, 40


def batches() -> TextBatches:
    rng = np.random.default_rng(0)
    ids = [
        [int(n) for n in rng.integers(1, WORDS, LENGTH - k % 3)] for k in range(COUNT)
    ]
    texts = [Encoded(each, [0] * len(each)) for each in ids]
    labels = [k % 2 for k in range(COUNT)]
    return TextBatches(
        texts, labels, SIZE, buckets=(LENGTH,), limit=LENGTH, pad_id=0, seed=1
    )


@pytest.fixture(scope="module")
def teacher() -> Model:
    model = random_model(
        "bert-tiny",
        num_hidden_layers=1,
        vocab_size=WORDS,
        max_position_embeddings=LENGTH,
    )
    # weights large enough that the curve of GeLU matters
    params = {
        **model.params,
        "layers": jax.tree.map(lambda w: 6 * w, model.params["layers"]),
    }
    return replace(model, params=params)


def settings(folder: Path, **told: Any) -> DistillSettings:
    values = {
        "output_dir": folder, "train_file": "-", "validation_file": "-",
        "teacher_model_name_or_path": "-", "learning_rate": 2e-2,
        "num_train_epochs": 15, "eval_steps": 30, "logging_steps": 1,
    }  # fmt: skip
    return DistillSettings(**{**values, **told})


def distilled(
    teacher: Model, folder: Path, stop: Callable[[], bool] = lambda: False, **told: Any
) -> Distilled:
    student = traced(teacher.with_config(hidden_act="quad"))
    data = Data(batches(), batches(), (COUNT, COUNT))
    chosen = settings(folder, **told)
    return distill_stages(
        teacher, student, teacher.params, data, chosen, should_stop=stop
    )


@pytest.fixture(scope="module")
def done(teacher: Model, tmp_path_factory: pytest.TempPathFactory) -> Distilled:
    return distilled(teacher, tmp_path_factory.mktemp("distilled"))


def test_both_stages_bring_the_student_nearer(teacher: Model, done: Distilled) -> None:
    student = traced(teacher.with_config(hidden_act="quad"))
    theirs = traced(teacher)
    batch = batches().at(0)
    for loss in (hidden_loss(student, theirs), logit_loss(student, theirs, 2.0, 0.0)):
        before = float(loss(teacher.params, batch, teacher.params))
        after = float(loss(done.params, batch, teacher.params))
        assert before > 0
        assert after < 0.5 * before
        alike = float(loss(teacher.params, batch, teacher.params))
        assert alike == before  # the teacher is left as it was
    assert done.stages["logits"].scores["agreement"] >= 0.9
    assert "hidden_loss" in done.stages["hidden"].scores


def test_a_teacher_has_nothing_to_learn_from_itself(teacher: Model) -> None:
    theirs, batch = traced(teacher), batches().at(0)
    for loss in (hidden_loss(theirs, theirs), logit_loss(theirs, theirs, 3.0, 1.0)):
        assert abs(float(loss(teacher.params, batch, teacher.params))) < 1e-6


def test_padding_and_missing_rows_do_not_count(teacher: Model) -> None:
    student = traced(teacher.with_config(hidden_act="quad"))
    loss = hidden_loss(student, traced(teacher))
    batch = batches().at(0)
    changed = np.where(batch.mask == 1, batch.ids, 7).astype(np.int32)
    halved = batch.weights * (np.arange(SIZE) < SIZE // 2)
    value = loss(teacher.params, batch, teacher.params)
    assert np.allclose(
        loss(teacher.params, batch._replace(ids=changed), teacher.params), value
    )
    half = loss(teacher.params, batch._replace(weights=halved), teacher.params)
    other = batch.ids.copy()
    other[SIZE // 2 :] = 3
    again = batch._replace(weights=halved, ids=other)
    assert np.allclose(loss(teacher.params, again, teacher.params), half)
    assert not np.allclose(half, value)


def test_a_distillation_is_resumed_bit_for_bit(
    teacher: Model, done: Distilled, tmp_path: Path
) -> None:
    asked = iter(range(75))  # in the middle of the second stage
    left = distilled(teacher, tmp_path, lambda: next(asked, None) is None)
    assert left.was_interrupted
    assert [*left.stages] == ["hidden", "logits"]
    other = jax.tree.map(lambda w: 1.01 * w, teacher.params)
    with pytest.raises(SetupError, match="frozen weights"):
        distilled(replace(teacher, params=other), tmp_path, resume_from_checkpoint=True)
    # wherever the same teacher lies now
    told = {"teacher_model_name_or_path": "moved"}
    again = distilled(teacher, tmp_path, resume_from_checkpoint=True, **told)
    pairs = zip(
        jax.tree.leaves(again.params), jax.tree.leaves(done.params), strict=True
    )
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_a_stage_that_does_harm_is_left_out(
    teacher: Model, done: Distilled, tmp_path: Path
) -> None:
    assert done.left_out == ()
    told = {"logits_learning_rate": 1.0, "logits_num_train_epochs": 1}
    harmed = distilled(teacher, tmp_path, **told)
    assert harmed.left_out == ("logits",)
    kept = jax.tree.leaves(harmed.stages["hidden"].params)
    pairs = zip(jax.tree.leaves(harmed.params), kept, strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_settings_of_stages(tmp_path: Path) -> None:
    told = settings(tmp_path, learning_rate=5e-5, num_train_epochs=4)
    assert told.of_stage("hidden").learning_rate == 5e-5
    assert told.of_stage("logits").learning_rate == 1e-5  # the paper's two rates
    assert told.of_stage("logits").output_dir == tmp_path / "logits"
    flags = {
        "output_dir": "o", "train_file": "t", "teacher_model_name_or_path": "m",
        "validation_file": "v",
        "stages": "logits", "logits_num_train_epochs": "2",
    }  # fmt: skip
    read = read_settings(DistillSettings, None, flags)
    assert read.stages == ("logits",)
    assert read.of_stage("logits").num_train_epochs == 2
