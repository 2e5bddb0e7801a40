"""Embeddings against those of sentence-transformers, on tiny folders and a real one."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ditto
from ditto.api import from_pretrained
from ditto.errors import CheckpointError, SetupError, TextCutWarning
from ditto.models import load_model, random_model
from ditto.models.sentence import Pooling, read_sentence_modules
from tests.folders import TEXTS, WORDS, write_model

MINILM = os.environ.get("DITTO_MINILM")
TOLERANCE = 1e-5
PROMPTS = {"query": "the old ", "passage": "a new "}


def sentence_folder(
    path: Path,
    *,
    pooling: dict[str, Any],
    normalize: bool = True,
    dense: str | None = None,
    length: int = 24,
    **settings: Any,
) -> Path:
    """A tiny encoder, as sentence-transformers writes it."""
    model = random_model(
        "bert-tiny", hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        vocab_size=len(WORDS), architectures=["BertModel"], seed=4,
    )  # fmt: skip
    write_model(path, model)
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    )
    kinds = ["Pooling", *(["Dense"] if dense else [])]
    kinds += ["Normalize"] if normalize else []
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_OLD}Transformer"}]
    for k, kind in enumerate(kinds, 1):
        (path / f"{k}_{kind}").mkdir()
        modules.append(
            {"idx": k, "name": str(k), "path": f"{k}_{kind}", "type": _OLD + kind}
        )
    (path / "modules.json").write_text(json.dumps(modules))
    config = {"word_embedding_dimension": 32, **pooling}
    (path / "1_Pooling" / "config.json").write_text(json.dumps(config))
    if dense:
        from safetensors.numpy import save_file

        rng = np.random.default_rng(0)
        weights = {
            "linear.weight": rng.normal(size=(12, 32)).astype(np.float32),
            "linear.bias": rng.normal(size=12).astype(np.float32),
        }
        save_file(weights, path / "2_Dense" / "model.safetensors")
        config = {
            "in_features": 32, "out_features": 12, "bias": True,
            "activation_function": dense,
        }  # fmt: skip
        (path / "2_Dense" / "config.json").write_text(json.dumps(config))
    (path / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": length, "do_lower_case": False, **settings})
    )
    (path / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": PROMPTS, "default_prompt_name": None})
    )
    return path


_OLD = "sentence_transformers.models."
CASES = {
    "mean": ({"pooling_mode_mean_tokens": True}, {}),
    "cls": ({"pooling_mode_cls_token": True}, {}),
    "max": ({"pooling_mode_max_tokens": True}, {"normalize": False}),
    "last": ({"pooling_mode": "lasttoken"}, {"do_lower_case": True}),
    "dense": (
        {"pooling_mode": "mean"},
        {"dense": "torch.nn.modules.activation.Tanh", "normalize": False},
    ),
    "dense identity": (
        {"pooling_mode_cls_token": True},
        {"dense": "torch.nn.modules.linear.Identity"},
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("case", CASES)
def test_embeddings_are_those_of_sentence_transformers(
    tmp_path: Path, case: str
) -> None:
    theirs = pytest.importorskip("sentence_transformers")
    pooling, options = CASES[case]
    folder = sentence_folder(tmp_path, pooling=pooling, **options)
    network = theirs.SentenceTransformer(str(folder), device="cpu")
    long = " ".join(TEXTS)
    texts = [*TEXTS, "The OLD Cat", long]
    ours = from_pretrained(folder, mode="float")
    assert ours.max_tokens == 24
    with pytest.warns(TextCutWarning, match="Text 7 is too long: 24 of its"):
        got = np.stack([a.embedding for a in ours.predict(texts)])
    expected = network.encode(texts)
    assert np.abs(got - expected).max() <= TOLERANCE
    with_prompt = ours.predict(TEXTS[:2], prompt_name="query")
    expected = network.encode(TEXTS[:2], prompt_name="query")
    gaps = [a.embedding - b for a, b in zip(with_prompt, expected, strict=True)]
    assert np.abs(gaps).max() <= TOLERANCE
    same = ours.predict([PROMPTS["query"] + TEXTS[0]])[0]
    assert same.similarity(with_prompt[0]) > 1 - 1e-6


@pytest.mark.skipif(
    MINILM is None, reason="needs DITTO_MINILM, the folder of README's model"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_real_model_is_that_of_sentence_transformers() -> None:
    theirs = pytest.importorskip("sentence_transformers")
    texts = ["hello world", "thanks 👍", "Ünïcode, TEXT!", "one two three " * 200]
    expected = theirs.SentenceTransformer(str(MINILM), device="cpu").encode(texts)
    model = from_pretrained(str(MINILM), mode="float")
    with pytest.warns(ditto.TextCutWarning, match="256 of its 602 tokens"):
        got = np.stack([answer.embedding for answer in model.predict(texts)])
    assert np.abs(np.linalg.norm(got, axis=1) - 1).max() <= TOLERANCE
    assert np.abs(got - expected).max() <= TOLERANCE
    assert (got * expected).sum(1).min() >= 1 - TOLERANCE


@pytest.mark.parametrize("pooling", ["cls", "max", "lasttoken"])
def test_every_pooling_has_a_plan(tmp_path: Path, pooling: str) -> None:
    folder = sentence_folder(tmp_path, pooling={"pooling_mode": pooling}, length=8)
    model = load_model(folder)
    ids = np.random.default_rng(0).integers(5, len(WORDS), (2, 8)).astype(np.int32)
    mask = np.arange(8) < np.array([[8], [5]])
    samples = [(model.params, np.roll(ids, k, 1), mask) for k in range(6)]
    plan = ditto.compile(
        model.apply, samples[0], calibration=samples, weight_argnums=(0,),
        public_argnums=(2,),
    )  # fmt: skip
    expected = np.asarray(model.apply(model.params, ids, mask))
    found = ditto.simulate(plan, samples[0]).result
    assert np.abs(found - expected).max() <= 0.03 * np.abs(expected).max()


def test_the_first_token_alone_is_cheaper(tmp_path: Path) -> None:
    """With ``cls`` the last layer computes one row, not all."""
    sizes = {}
    for pooling in ("cls", "mean"):
        folder = sentence_folder(
            tmp_path / pooling, pooling={"pooling_mode": pooling}, length=8
        )
        model = from_pretrained(folder, calibration=TEXTS)
        sizes[pooling] = model.estimate(pad_to=8).bytes
    assert sizes["cls"] < 0.8 * sizes["mean"]


def test_what_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    def refused(reason: str) -> None:
        with pytest.raises(CheckpointError, match=reason):
            read_sentence_modules(folder)

    folder = sentence_folder(
        tmp_path, pooling={"pooling_mode": "mean"}, dense="torch.nn.Tanh"
    )
    read = read_sentence_modules(folder)
    assert read is not None
    assert (read.pooling, read.encoding.max_seq_length) == (Pooling.MEAN, 24)
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    pooling, dense = folder / "1_Pooling/config.json", folder / "2_Dense/config.json"
    pooling.write_text(json.dumps(both))
    refused("pools by cls and mean; supported is one of: mean, cls, max, lasttoken")
    pooling.write_text(json.dumps({"pooling_mode": "weightedmean"}))
    refused("pools by weightedmean")
    pooling.write_text(json.dumps({"pooling_mode": "mean"}))
    sizes = {"in_features": 32, "out_features": 12}
    dense.write_text(json.dumps({**sizes, "activation_function": "mine.Mish"}))
    refused("activation 'Mish'")
    dense.write_text(json.dumps({**sizes, "use_residual": True}))
    refused("use_residual")
    dense.write_text(json.dumps(sizes))
    modules = json.loads((folder / "modules.json").read_text())
    for types, reason in (
        (("Transformer", "Pooling", "LSTM"), "module 'LSTM'"),
        (("Transformer", "Pooling", "Normalize", "Dense"), "in this order"),
        (("Transformer", "Normalize"), "in this order"),
        (("Pooling",), "begin with a Transformer"),
    ):
        listed = [{"type": _OLD + t, "path": ""} for t in types]
        listed[1:] = [
            each | {"path": "1_Pooling"} if each["type"].endswith("Pooling") else each
            for each in listed[1:]
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        refused(reason)
    modules[1]["path"] = "../elsewhere"
    (folder / "modules.json").write_text(json.dumps(modules))
    refused("names a folder beside it")


def test_prompts_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path, pooling={"include_prompt": False})
    model = from_pretrained(folder, mode="float")
    with pytest.raises(SetupError, match="no prompt 'topic'; it has: 'query', 'pass"):
        model.predict(TEXTS[:1], prompt_name="topic")
    with pytest.raises(SetupError, match="not both"):
        model.predict(TEXTS[:1], prompt="a", prompt_name="query")
    with pytest.raises(SetupError, match="include_prompt is false"):
        model.predict(TEXTS[:1], prompt_name="query")
    with pytest.raises(SetupError, match="more than the 24 that are taken"):
        model.predict([" ".join(TEXTS)], too_long="raise")
