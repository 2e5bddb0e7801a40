"""A teacher from a checkpoint or from nothing: transformers reads it as we do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from ditto.client import Tokenizer
from ditto.errors import CheckpointError, SetupError
from ditto.models import load_model
from ditto.training.finetune import Finetuned, finetune
from ditto.training.log import LOG, read_log
from ditto.training.settings import FinetuneSettings
from tests.folders import TEXTS, WORDS

PAIRED = [
    ("the old cat sat", "on the mat .", "same"),
    ("a red dog ran", "under the tree .", "other"),
]


def rows(count: int = 24) -> list[tuple[str, str, str]]:
    return [PAIRED[k % 2] for k in range(count)]


def written(folder: Path) -> Path:
    file = folder / "train.tsv"
    lines = ["\t".join(row) for row in (("first", "second", "kind"), *rows())]
    file.write_text("\n".join(lines) + "\n")
    return file


COLUMNS = {"text_column": "first", "text_pair_column": "second", "label_column": "kind"}


def run(out: Path, stop: Callable[[], bool] = lambda: False, **told: Any) -> Finetuned:
    values = {
        "output_dir": out, "per_device_train_batch_size": 8, "learning_rate": 1e-2,
        "num_train_epochs": 8, "length_buckets": (16,), "max_seq_length": 16,
        "per_device_eval_batch_size": 8, "warmup_ratio": 0, "eval_steps": 12,
    }  # fmt: skip
    return finetune(FinetuneSettings(**{**values, **told}), should_stop=stop)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder without a head, with the older files of a tokenizer."""
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    hf.BertModel(config).half().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Finetuned:
    folder = tmp_path_factory.mktemp("teacher")
    file = written(folder)
    told = {"train_file": file, "validation_file": file, **COLUMNS}
    return run(folder / "out", model_name_or_path=str(encoder), **told)


def test_a_head_is_put_on_and_trained(teacher: Finetuned) -> None:
    assert teacher.labels == ("other", "same")
    assert teacher.trained.scores["accuracy"] == 1.0
    assert set(teacher.drawn) == {"classifier.weight", "classifier.bias"}
    results = json.loads((teacher.folder / "all_results.json").read_text())
    assert results["eval_accuracy"] == 1.0
    assert results["train_samples"] == results["eval_samples"] == 24
    curve = [line["loss"] for line in read_log(teacher.folder / LOG) if "loss" in line]
    assert curve[-1] < 0.8 * curve[0]


def test_transformers_reads_it_alike(teacher: Finetuned) -> None:
    folder = teacher.folder
    network = hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert type(network).__name__ == "BertForSequenceClassification"
    assert network.config.id2label == {0: "other", 1: "same"}
    assert network.num_labels == 2
    assert network.dtype == torch.float32
    tokens = hf.AutoTokenizer.from_pretrained(folder)(*PAIRED[0][:2])
    ours, tokenizer = load_model(folder), Tokenizer.load(folder)
    encoded = tokenizer.encode(*PAIRED[0][:2])
    assert encoded.ids == tokens["input_ids"]
    ids, types = (np.array([each], np.int32) for each in (encoded.ids, encoded.types))
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor(ids), "token_type_ids": torch.tensor(types)}
        expected = network(**inputs).logits.numpy()
    got = np.asarray(ours.apply(ours.params, ids, np.ones_like(ids), types))
    assert np.abs(got - expected).max() < 1e-5
    assert got.argmax() == teacher.labels.index("same")


def test_an_interrupted_run_writes_no_model(
    encoder: Path, teacher: Finetuned, tmp_path: Path
) -> None:
    file = written(tmp_path)
    told = {"train_file": file, "validation_file": file, **COLUMNS}
    told["model_name_or_path"] = str(encoder)
    asked = iter(range(5))
    left = run(tmp_path / "out", lambda: next(asked, None) is None, **told)
    assert left.trained.was_interrupted
    assert sorted(f.name for f in left.folder.iterdir()) == ["checkpoint-6", LOG]
    done = run(tmp_path / "out", **told, resume_from_checkpoint=True)
    weights = (teacher.folder / "model.safetensors").read_bytes()
    assert (done.folder / "model.safetensors").read_bytes() == weights


def test_a_language_model_from_nothing(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("\n".join(TEXTS * 20))
    overrides = "n_embd=32,n_layer=1,n_head=2,n_positions=24,vocab_size=280"
    done = run(
        tmp_path / "out", train_file=file, validation_file=file,
        config_name="gpt2-tiny", config_overrides=overrides, max_seq_length=24,
        max_steps=40, eval_steps=40, learning_rate=1e-2, max_eval_samples=9,
    )  # fmt: skip
    assert done.counts[1] == 9 * 24 + 1
    assert done.model.config.vocab_size == 280
    assert done.trained.scores["perplexity"] < 40  # of 280 if nothing is known
    theirs = hf.AutoTokenizer.from_pretrained(done.folder)
    ids = Tokenizer.load(done.folder).encode(TEXTS[0]).ids
    assert theirs(TEXTS[0])["input_ids"] == ids
    assert theirs.decode(ids) == TEXTS[0]
    network = hf.AutoModelForCausalLM.from_pretrained(done.folder).eval()
    assert network.config.eos_token_id == theirs.eos_token_id
    ids = ids[:24]
    with torch.no_grad():
        expected = network(torch.tensor([ids])).logits.numpy()
    batch = np.array([ids], np.int32)
    ours = load_model(done.folder)
    got = np.asarray(ours.apply(ours.params, batch, np.ones_like(batch)))
    assert np.abs(got - expected).max() < 1e-4


def test_what_is_refused(encoder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS))
    table = written(tmp_path)
    from_encoder = {"model_name_or_path": str(encoder), "train_file": table, **COLUMNS}
    scratch = {"train_file": text, "config_name": "gpt2-tiny"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({**from_encoder, "train_file": text}, "does not write text"),
        ({**from_encoder, "text_column": "third"}, "no column 'third'"),
        ({**from_encoder, "label_column": "labels"}, "no column 'labels'"),
        ({**from_encoder, "text_column": None}, "which column has the texts"),
        ({**from_encoder, "task_name": "cole"}, "no task 'cole'"),
        ({**from_encoder, "metric_for_best_model": "bleu"}, "no metric 'bleu'"),
        ({**from_encoder, "model_name_or_path": str(text)}, "is a file"),
        ({**scratch, "config_name": "gpt3"}, "neither a JSON file nor one of"),
        ({**scratch, "config_overrides": "layers=3"}, "has 'layers=3': write name"),
        ({**scratch, "config_overrides": "vocab_size=99"}, "room for all bytes"),
        ({**scratch, "config_overrides": "n_head=3"}, "multiple of the second"),
        ({**scratch, "config_name": "bert-tiny"}, "does not write text"),
        ({**scratch, "train_file": table, **COLUMNS}, "trained on plain text"),
    ]
    for told, expected in cases:
        with pytest.raises((SetupError, CheckpointError)) as refused:
            run(tmp_path / "out", **told)
        assert expected in str(refused.value), told
    assert [*(tmp_path / "out").iterdir()] == []
