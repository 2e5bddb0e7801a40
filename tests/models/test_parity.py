"""Our models against Hugging Face's, on tiny random configurations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from ditto.errors import CheckpointError
from ditto.models import load_model, read_checkpoint, write_checkpoint
from ditto.models.checkpoint import Checkpoint

TOLERANCE = 1e-5
BERT = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 32,
    "num_labels": 3,
}  # fmt: skip
DISTIL = {
    "vocab_size": 53, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 48,
    "max_position_embeddings": 32, "num_labels": 3,
}  # fmt: skip
GPT2 = {
    "vocab_size": 53, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 32,
    "num_labels": 3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip

MODELS = [
    (hf.BertConfig, hf.BertForSequenceClassification, BERT),
    (hf.BertConfig, hf.BertForTokenClassification, BERT),
    (hf.BertConfig, hf.BertForMaskedLM, BERT),
    (hf.BertConfig, hf.BertForSequenceClassification, {**BERT, "hidden_act": "relu"}),
    (hf.RobertaConfig, hf.RobertaForSequenceClassification, BERT),
    (hf.RobertaConfig, hf.RobertaForTokenClassification, BERT),
    (hf.RobertaConfig, hf.RobertaForMaskedLM, BERT),
    (hf.DistilBertConfig, hf.DistilBertForSequenceClassification, DISTIL),
    (hf.DistilBertConfig, hf.DistilBertForTokenClassification, DISTIL),
    (hf.DistilBertConfig, hf.DistilBertForMaskedLM, DISTIL),
    (hf.GPT2Config, hf.GPT2LMHeadModel, GPT2),
    (hf.GPT2Config, hf.GPT2ForSequenceClassification, GPT2),
    (hf.GPT2Config, hf.GPT2LMHeadModel, {**GPT2, "n_inner": 30}),
]


def saved(folder: Path, kind: Any, model: Any, options: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    network = model(kind(**options)).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # biases and norms are not trivial
            parameter.add_(0.1 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    return network


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    ids = rng.integers(2, 53, (3, 9)).astype(np.int32)
    mask = np.ones((3, 9), np.int32)
    for row, length in enumerate((9, 5, 7)):
        mask[row, length:] = 0
        ids[row, length:] = 0
    return ids, mask


@pytest.mark.parametrize(
    ("kind", "model", "options"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
def test_parity(tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]) -> None:
    network = saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    ids, mask = batch()
    if kind is hf.RobertaConfig:
        ids = np.where(mask, ids, network.config.pad_token_id).astype(np.int32)
        ids[ids == network.config.pad_token_id] = 5  # positions count from the left
    with torch.no_grad():
        expected = network(
            input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask)
        ).logits.numpy()
    got = np.asarray(ours.apply(ours.params, ids, mask))
    assert got.shape == expected.shape
    if expected.ndim == 3:  # what stands at hidden positions means nothing
        got, expected = got[mask == 1], expected[mask == 1]
    assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.parametrize("head", ["pooled", "mean"])
def test_sentence_embeddings(tmp_path: Path, head: str) -> None:
    network = saved(tmp_path, hf.BertConfig, hf.BertModel, BERT)
    ids, mask = batch()
    with torch.no_grad():
        out = network(
            input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask)
        )
    kept = torch.tensor(mask)[:, :, None]
    expected = {
        "pooled": out.pooler_output,
        "mean": (out.last_hidden_state * kept).sum(1) / kept.sum(1),
    }[head].numpy()
    ours = load_model(tmp_path, head)
    got = np.asarray(ours.apply(ours.params, ids, mask))
    assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.parametrize(
    ("kind", "model", "options"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
def test_round_trip(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    saved(tmp_path / "a", kind, model, options)
    first = read_checkpoint(tmp_path / "a")
    ours = load_model(tmp_path / "a")
    write_checkpoint(Checkpoint(first.config, ours.tensors()), tmp_path / "b")
    again = load_model(tmp_path / "b")
    ids, mask = batch()
    assert np.array_equal(
        ours.apply(ours.params, ids, mask), again.apply(again.params, ids, mask)
    )
    _, told = model.from_pretrained(tmp_path / "b", output_loading_info=True)
    ignored = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert set(told["missing_keys"]) <= ignored


def test_shards_load(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = hf.BertForMaskedLM(hf.BertConfig(**BERT))
    network.save_pretrained(tmp_path / "one")
    network.save_pretrained(tmp_path / "many", max_shard_size="10KB")
    assert not (tmp_path / "many" / "model.safetensors").exists()
    one, many = (read_checkpoint(tmp_path / n).tensors for n in ("one", "many"))
    assert one.keys() == many.keys()
    assert all(np.array_equal(one[k], many[k]) for k in one)


def test_what_is_outside_the_set_is_refused_with_the_reason(tmp_path: Path) -> None:
    def refused(config: dict[str, Any], reason: str) -> None:
        with pytest.raises(CheckpointError, match=reason):
            from_config(config)

    def from_config(config: dict[str, Any]) -> None:
        from ditto.models import from_checkpoint

        from_checkpoint(Checkpoint(config, {}))

    base = hf.BertConfig(**BERT).to_dict()
    named = {**base, "architectures": ["BertForMaskedLM"]}
    refused({"model_type": "llama"}, "'llama' are not supported")
    refused({**base, "architectures": ["BertForQuestionAnswering"]}, "QuestionAnswer")
    refused({**named, "hidden_act": "mish"}, "Activation 'mish'")
    refused({**named, "is_decoder": True}, "decoder")
    refused({**named, "position_embedding_type": "relative_key"}, "absolute")
    refused(named, "has no 'embeddings.word_embeddings.weight'")
    gpt2 = {**hf.GPT2Config(**GPT2).to_dict(), "architectures": ["GPT2LMHeadModel"]}
    refused({**gpt2, "scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx")
    refused({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "has no")
    with pytest.raises(CheckpointError, match="not a folder"):
        load_model(tmp_path / "absent")


def test_pickled_weights_are_refused_with_the_command_that_converts(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(CheckpointError, match="save_pretrained"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"\xff" * 64, b"{}" * 50])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_checkpoint(tmp_path)


def test_an_index_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    index = '{"weight_map": {"a": "../secret.safetensors"}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match="no file"):
        read_checkpoint(tmp_path)
