"""New weights and new heads, as Hugging Face makes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from ditto.errors import CheckpointError
from ditto.models import Checkpoint, Head, random_model, read_checkpoint
from ditto.models.initial import new_model, with_head

SMALL = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 32,
}  # fmt: skip
CLASSIFIER = Head.TEXT_CLASSIFICATION


@pytest.mark.parametrize(
    ("kind", "model", "drawn"),
    [
        (hf.BertConfig, hf.BertModel, ("classifier.weight", "classifier.bias")),
        (
            hf.BertConfig,
            hf.BertForMaskedLM,
            ("bert.pooler.dense.weight", "bert.pooler.dense.bias",
             "classifier.weight", "classifier.bias"),
        ),
        (
            hf.MPNetConfig,
            hf.MPNetModel,
            ("classifier.dense.weight", "classifier.dense.bias",
             "classifier.out_proj.weight", "classifier.out_proj.bias"),
        ),
    ],
)  # fmt: skip
def test_what_a_checkpoint_has_is_kept(
    tmp_path: Path, kind: Any, model: Any, drawn: tuple[str, ...]
) -> None:
    torch.manual_seed(0)
    model(kind(**SMALL)).save_pretrained(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    made = with_head(checkpoint, CLASSIFIER, ("a", "b", "c"), seed=3)
    assert made.drawn == drawn
    tensors = made.model.tensors()
    prefix = made.model.family.base_model_prefix
    for name, array in checkpoint.tensors.items():
        for key in (name, f"{prefix}{name}"):
            if key in tensors:
                assert np.array_equal(tensors[key], array), key
    published = made.model.published
    assert published["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert published["architectures"] == [
        f"{kind.__name__.removesuffix('Config')}ForSequenceClassification"
    ]
    again = with_head(checkpoint, CLASSIFIER, ("a", "b", "c"), seed=3).model.tensors()
    other = with_head(checkpoint, CLASSIFIER, ("a", "b", "c"), seed=4).model.tensors()
    assert np.array_equal(again[drawn[0]], tensors[drawn[0]])
    assert not np.array_equal(other[drawn[0]], tensors[drawn[0]])


def test_a_head_for_other_labels_is_drawn_anew() -> None:
    model = random_model("bert-tiny", id2label={"0": "bad", "1": "good"})
    checkpoint = Checkpoint(model.published, model.tensors())
    kept = with_head(checkpoint, CLASSIFIER, ("bad", "good"), 0)
    assert kept.drawn == ()
    for labels in (("good", "bad"), ("bad", "good", "fair")):
        anew = with_head(checkpoint, CLASSIFIER, labels, 0)
        assert anew.drawn == ("classifier.weight", "classifier.bias")
    unnamed = {"0": "LABEL_0", "1": "LABEL_1"}
    checkpoint = Checkpoint({**model.published, "id2label": unnamed}, model.tensors())
    assert with_head(checkpoint, CLASSIFIER, ("bad", "good"), 0).drawn == ()


def test_a_body_is_not_drawn() -> None:
    model = random_model("bert-tiny")
    tensors = model.tensors()
    del tensors["bert.encoder.layer.1.output.dense.bias"]
    with pytest.raises(CheckpointError, match=r"no 'bert\.encoder\.layer\.1\.output"):
        with_head(Checkpoint(model.published, tensors), CLASSIFIER, ("a", "b"), 0)


def test_new_weights_are_spread_as_hugging_faces() -> None:
    size = {"vocab_size": 500, "n_embd": 64, "n_layer": 3, "n_head": 4}
    told = {**size, "n_positions": 64, "initializer_range": 0.05}
    torch.manual_seed(0)
    network = hf.GPT2LMHeadModel(hf.GPT2Config(**told))
    config = {**told, "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    ours = new_model(config, seed=1).tensors()
    for name, theirs in network.named_parameters():
        expected = theirs.detach().numpy()
        spread = float(expected.std())
        if spread:
            assert abs(float(ours[name].std()) / spread - 1) < 0.1, name
        else:
            assert np.array_equal(ours[name], expected), name


def test_what_is_no_spread_is_refused() -> None:
    config = random_model("gpt2-tiny").published
    with pytest.raises(CheckpointError, match="initializer_range='wide'"):
        new_model({**config, "initializer_range": "wide"}, 0)
    with pytest.raises(CheckpointError, match="GPT2Model is not supported"):
        new_model({**config, "architectures": ["GPT2Model"]}, 0)
