"""A model is exported, and asked without its checkpoint."""

import json
import shutil
from pathlib import Path

import numpy as np

from ditto.api import from_pretrained
from tests.cli.test_cli import ditto
from tests.documents import check_document
from tests.folders import TEXTS, bert_folder


def test_export_and_run(tmp_path: Path) -> None:
    model, bundle = bert_folder(tmp_path / "bert"), tmp_path / "bundle"
    texts, out = tmp_path / "texts.txt", tmp_path / "answers.json"
    texts.write_text("\n".join(TEXTS) + "\n")
    exact = from_pretrained(model, mode="float").predict(TEXTS[:2])
    done = ditto(
        "export", str(model), "--out", str(bundle), "--length", "16", "--batch", "2",
        "--calibration", str(texts), "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_document("export", json.loads(out.read_text()))
    again = ditto("export", str(model), "--out", str(bundle), "--length", "16")
    assert again.returncode == 4
    assert "exists" in again.stderr
    shutil.rmtree(model)
    done = ditto(
        "run", str(bundle), "--text", TEXTS[0], "--text", TEXTS[1], "--json", str(out)
    )
    assert done.returncode == 0, done.stderr
    assert TEXTS[0] in done.stdout
    check_document("run", json.loads(out.read_text()))
    refused = ditto("run", str(bundle), "--text", "x", "--profile", "spu")
    assert refused.returncode == 4
    assert "--profile cannot be chosen for a bundle" in refused.stderr
    for answer, expected in zip(
        json.loads(out.read_text())["answers"], exact, strict=True
    ):
        assert answer["label"] == expected.label
        assert np.abs(np.array(answer["logits"]) - expected.logits).max() < 0.02
