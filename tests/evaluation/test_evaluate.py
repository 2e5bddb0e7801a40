"""Models scored on files: in float, in the simulator, by three parties."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ditto.api.doubt import STATED_ERROR
from ditto.compiler import PROFILES
from ditto.errors import SetupError
from ditto.evaluation import Setting, evaluate, verify
from ditto.evaluation.plot import plot
from ditto.models import Checkpoint, read_checkpoint, write_checkpoint
from tests.folders import TEXTS, bert_folder, gpt2_folder

SETTING = Setting(PROFILES["ditto"], TEXTS, length=16, tokens=3, batch=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("bert"))


def test_all_modes_give_the_same_answers(folder: Path, data: Path) -> None:
    exact = evaluate(folder, "sst2", data.parent, "float", SETTING)
    assert exact.count == len(TEXTS)
    assert not exact.headroom
    for mode in ("simulate", "mpc"):
        found = evaluate(folder, "sst2", data, mode, SETTING, limit=3)
        assert found.count == 3
        assert found.scores["as in float"] == 1.0
        assert found.scores["accuracy"] == found.scores["accuracy of float"]
        assert found.overflows == []
        assert min(h.bits for h in found.headroom.values()) > 0


def test_embeddings_and_texts_are_compared_with_float(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    embeds = Setting(PROFILES["ditto"], TEXTS, length=16, head="feature-extraction")
    found = evaluate(folder, "cosine", data, "simulate", embeds)
    assert found.scores["least cosine"] > 0.999
    decoder = gpt2_folder(tmp_path)
    found = evaluate(decoder, "greedy", data, "simulate", SETTING, limit=2)
    assert found.scores == {"identical texts": 2.0, "tokens before they part": 3.0}


def spiked(
    folder: Path, out: Path, spike: Sequence[float] = (40.0, -35.0, 3.0)
) -> Path:
    """The same model, but for one word whose embedding is far larger."""
    checkpoint = read_checkpoint(folder)
    tensors = dict(checkpoint.tensors)
    name = "bert.embeddings.word_embeddings.weight"
    tensors[name] = np.array(tensors[name])
    tensors[name][13, :3] = spike  # "mat"
    write_checkpoint(Checkpoint(checkpoint.config, tensors), out)
    (out / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    return out


def test_an_overflow_is_reported_not_answered(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    """Calibrated without the word that is too large, asked with it."""
    model = spiked(folder, tmp_path / "spiked")
    others = [text for text in TEXTS if "mat" not in text]
    setting = Setting(PROFILES["ditto"], others, length=16)
    found = evaluate(model, "sst2", data, "simulate", setting)
    assert [line.split(":")[0] for line in found.overflows] == ["example 1"]
    assert "embeddings" in found.overflows[0]
    checked = verify(model, TEXTS[:2], setting, length=16)
    assert checked.verdict == "unsafe"
    assert checked.overflows
    assert "text 1" in checked.overflows[0]


def test_verification_by_layer(folder: Path, tmp_path: Path) -> None:
    found = verify(folder, TEXTS[:2], SETTING, length=16)
    names = [part.name for part in found.parts]
    assert names == [
        "embeddings",
        "encoder.layer.0",
        "encoder.layer.1",
        "text-classification",
    ]
    assert found.verdict == "safe"
    assert found.agreed == 1.0
    for part in found.parts:
        assert part.headroom is not None
        assert part.headroom.bits > 0
        assert part.simulated is not None
        assert 0 < part.parties.mean < 0.01
        assert part.parties.largest < 0.05
    plot(found, tmp_path / "verified.png")
    assert (tmp_path / "verified.png").stat().st_size > 10_000


def test_a_language_model_is_verified_token_by_token(tmp_path: Path) -> None:
    found = verify(gpt2_folder(tmp_path), TEXTS[:1], SETTING, length=16)
    assert [p.name for p in found.parts][-2:] == ["text-generation", "token by token"]
    assert found.parts[-1].relative < STATED_ERROR / 4
    assert found.overflows == ()
    assert found.agreed == 1.0  # near ties, which fall either way, count as such


def test_tasks_that_do_not_fit_are_refused(folder: Path, data: Path) -> None:
    with pytest.raises(SetupError, match="no task 'colour'"):
        evaluate(folder, "colour", data, "float", SETTING)
    with pytest.raises(SetupError, match="sequence classification"):
        evaluate(
            folder,
            "sst2",
            data,
            "float",
            Setting(PROFILES["ditto"], head="feature-extraction"),
        )
