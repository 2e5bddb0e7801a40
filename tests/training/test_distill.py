"""A student on disk: what it is measured to be, who reads it, when it is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import transformers as hf

import ditto
from ditto.errors import CheckpointError, SetupError
from ditto.models import load_model, random_model
from ditto.training.distill import Distillation, distill
from ditto.training.finetune import finetune, write_model
from ditto.training.settings import DistillSettings, FinetuneSettings

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{k}" for k in range(36)))
LENGTH = 8


def write_teacher(folder: Path, texts: Path) -> None:
    """It tells the first words apart by weights so large that GeLU's curve matters."""
    model = random_model(
        "bert-tiny",
        num_hidden_layers=1,
        vocab_size=len(WORDS),
        max_position_embeddings=LENGTH,
    )
    layers = jax.tree.map(lambda w: 6 * np.asarray(w), model.params["layers"])
    drawn = folder / "drawn"
    drawn.mkdir()
    write_model(replace(model, params={**model.params, "layers": layers}), drawn)
    (drawn / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    told = {
        "output_dir": folder / "teacher", "model_name_or_path": str(drawn),
        "learning_rate": 3e-3, "num_train_epochs": 30, "eval_steps": 120,
    }  # fmt: skip
    finetune(FinetuneSettings(**common(texts), **told))


def write_texts(file: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = []
    for k in range(64):
        label = k % 2
        first = WORDS[4 + 2 * int(rng.integers(16)) + label]
        rest = rng.choice(WORDS[4:], 3 + k % 3)
        rows.append(f"{first} {' '.join(rest)}\t{label}")
    file.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return file


def common(texts: Path) -> dict[str, Any]:
    return {
        "train_file": texts,
        "validation_file": texts,
        "per_device_train_batch_size": 16,
        "max_seq_length": LENGTH,
        "length_buckets": (LENGTH,),
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distill")
    write_teacher(folder, write_texts(folder / "texts.tsv"))
    return folder


def settings(place: Path, out: str, **told: Any) -> DistillSettings:
    values = {
        **common(place / "texts.tsv"),
        "output_dir": place / out,
        "teacher_model_name_or_path": str(place / "teacher"),
        "activation": "quad",
        "learning_rate": 2e-2,
        "num_train_epochs": 15,
        "simulator_samples": 16,
        "mpc_samples": 2,
        "tolerance": 0,
    }
    return DistillSettings(**{**values, **told})


@pytest.fixture(scope="module")
def student(place: Path) -> Distillation:
    """Squares in the feed-forward and in attention, trained in all three stages."""
    told = {
        "attention_weights": "square",
        "stages": ("hidden", "logits", "quantized"),
        "quantized_num_train_epochs": 2,
    }
    return distill(settings(place, "student", **told))


def test_a_student_is_measured_in_every_way(student: Distillation) -> None:
    assert [each.mode for each in student.measured] == ["float", "simulate", "mpc"]
    assert [each.examples for each in student.measured] == [64, 16, 2]
    for each in student.measured:
        assert each.scores["agreement"] >= 0.95
        assert each.overflows == 0
    parties = student.measured[-1]
    (cost,), (dearer,) = student.costs, student.teacher_costs
    assert (parties.bytes, parties.rounds) == (cost.bytes, cost.rounds)
    assert cost.bytes < 0.7 * dearer.bytes
    assert {*student.stages} == {"hidden", "logits", "quantized"}


def test_the_folder_says_what_it_is(student: Distillation) -> None:
    config = json.loads((student.folder / "config.json").read_text())
    assert config["hidden_act"] == "quad"
    assert config["attention_weights"] == "square"
    card = (student.folder / "README.md").read_text()
    assert "| the student, by three parties | 2 |" in card
    results = json.loads((student.folder / "all_results.json").read_text())
    assert results["student"][0]["agreement"] == student.measured[0].scores["agreement"]


def test_the_folder_is_read_as_it_was_trained(student: Distillation) -> None:
    read = load_model(student.folder)
    pairs = zip(
        jax.tree.leaves(read.params), jax.tree.leaves(student.student.params),
        strict=True,
    )  # fmt: skip
    assert all(np.array_equal(one, other) for one, other in pairs)
    with ditto.from_pretrained(student.folder, mode="float") as asked:
        (answer,) = asked.predict(["w1 w2 w3"])
    assert np.isfinite(answer.logits).all()


def test_other_software_refuses_it(student: Distillation) -> None:
    with pytest.raises(KeyError, match="quad"):
        hf.AutoModelForSequenceClassification.from_pretrained(student.folder)


def test_attention_that_would_be_silently_wrong_elsewhere_is_refused(
    place: Path,
) -> None:
    told = settings(place, "never", activation=None, attention_weights="square")
    with pytest.raises(CheckpointError, match="other software would"):
        distill(told)


def test_a_teacher_that_needs_no_student_is_left_alone(place: Path) -> None:
    told = {"simulator_samples": 4, "tolerance": 1}
    with pytest.raises(SetupError, match=r"Nothing to do.*activation=quad"):
        distill(settings(place, "never", activation=None, **told))
    told["fit_samples"] = 0
    with pytest.raises(SetupError, match=r"Nothing to do.*say tolerance=0"):
        distill(settings(place, "never", **told))
    assert not (place / "never" / "config.json").exists()


def test_training_begins_with_the_fitted_activation(place: Path) -> None:
    told = {"stages": ("hidden",), "learning_rate": 1e-9, "num_train_epochs": 0.1}
    told |= {"simulator_samples": 1, "mpc_samples": 0}
    lost = []
    for samples in (0, 64):
        asked = settings(place, f"fit{samples}", fit_samples=samples, **told)
        lost.append(distill(asked).stages["hidden"].scores["hidden_loss"])
    plain, fitted = lost
    assert fitted < plain / 3


def test_an_interrupted_run_writes_no_model(place: Path) -> None:
    told = {"stages": ("logits",), "simulator_samples": 1}
    asked = iter(range(2))
    left = distill(
        settings(place, "left", **told),
        should_stop=lambda: next(asked, None) is None,
    )
    assert left.was_interrupted
    assert left.measured == ()
    assert not (place / "left" / "config.json").exists()
    assert [*(place / "left" / "logits").glob("checkpoint-*")]


def test_settings_are_refused_in_words(place: Path) -> None:
    with pytest.raises(ValueError, match="quantized is the last"):
        settings(place, "x", stages=("quantized", "logits"))
    with pytest.raises(ValueError, match="name a validation_file"):
        settings(place, "x", validation_file=None)
