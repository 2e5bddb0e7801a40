"""Our models against Hugging Face's, on tiny random configurations."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import transformers as hf

from ditto.errors import CheckpointError
from ditto.models import (
    Head,
    from_checkpoint,
    load_model,
    read_checkpoint,
    write_checkpoint,
)
from ditto.models.checkpoint import Checkpoint
from ditto.models.families import find_family

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
MODERN = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 4,
    "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 32,
    "num_labels": 3, "local_attention": 4, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1,
}  # fmt: skip
LLAMA = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 40,
    "max_position_embeddings": 32, "num_labels": 3, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip
QWEN3 = {**LLAMA, "head_dim": 10}
WINDOWED = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
STRETCHED = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 3.0, "original_max_position_embeddings": 16,
}  # fmt: skip
SLOWED = {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}
BIASED = {f"{name}_bias": True for name in ("attention", "mlp", "norm", "classifier")}
TWO = {"num_labels": 2}
UNTIED = {"tie_word_embeddings": False}
TIED = {"tie_word_embeddings": True}

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
    (hf.BertConfig, hf.BertForMaskedLM, {**BERT, **UNTIED}),
    (hf.RobertaConfig, hf.RobertaForMaskedLM, {**BERT, **UNTIED}),
    (hf.DistilBertConfig, hf.DistilBertForMaskedLM, {**DISTIL, **UNTIED}),
    (hf.GPT2Config, hf.GPT2LMHeadModel, {**GPT2, **UNTIED}),
    (hf.BertConfig, hf.BertForQuestionAnswering, {**BERT, **TWO}),
    (hf.DistilBertConfig, hf.DistilBertForQuestionAnswering, {**DISTIL, **TWO}),
    (hf.XLMRobertaConfig, hf.XLMRobertaForQuestionAnswering, {**BERT, **TWO}),
    (hf.XLMRobertaConfig, hf.XLMRobertaForSequenceClassification, BERT),
    (hf.XLMRobertaConfig, hf.XLMRobertaForMaskedLM, BERT),
    (hf.MPNetConfig, hf.MPNetForSequenceClassification, BERT),
    (hf.MPNetConfig, hf.MPNetForTokenClassification, BERT),
    (hf.MPNetConfig, hf.MPNetForQuestionAnswering, {**BERT, **TWO}),
    (hf.MPNetConfig, hf.MPNetForMaskedLM, BERT),
    (hf.ModernBertConfig, hf.ModernBertForSequenceClassification, MODERN),
    (
        hf.ModernBertConfig,
        hf.ModernBertForSequenceClassification,
        {**MODERN, **BIASED, "classifier_pooling": "mean"},
    ),
    (hf.ModernBertConfig, hf.ModernBertForTokenClassification, {**MODERN, **BIASED}),
    (hf.ModernBertConfig, hf.ModernBertForQuestionAnswering, {**MODERN, **TWO}),
    (hf.ModernBertConfig, hf.ModernBertForMaskedLM, MODERN),
    (hf.ModernBertConfig, hf.ModernBertForMaskedLM, {**MODERN, **UNTIED}),
    (hf.LlamaConfig, hf.LlamaForCausalLM, LLAMA),
    (hf.LlamaConfig, hf.LlamaForCausalLM, {**LLAMA, **TIED}),
    (hf.LlamaConfig, hf.LlamaForSequenceClassification, LLAMA),
    (
        hf.LlamaConfig,
        hf.LlamaForCausalLM,
        {**LLAMA, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 6},
    ),
    (hf.LlamaConfig, hf.LlamaForCausalLM, {**LLAMA, "rope_parameters": STRETCHED}),
    (hf.LlamaConfig, hf.LlamaForCausalLM, {**LLAMA, "rope_parameters": SLOWED}),
    (hf.MistralConfig, hf.MistralForCausalLM, {**LLAMA, "sliding_window": None}),
    (hf.MistralConfig, hf.MistralForCausalLM, {**LLAMA, "sliding_window": 4}),
    (hf.MistralConfig, hf.MistralForSequenceClassification, LLAMA),
    (hf.Qwen2Config, hf.Qwen2ForCausalLM, {**LLAMA, **TIED}),
    (hf.Qwen2Config, hf.Qwen2ForCausalLM, {**LLAMA, **WINDOWED}),
    (hf.Qwen2Config, hf.Qwen2ForSequenceClassification, LLAMA),
    (hf.Qwen3Config, hf.Qwen3ForCausalLM, {**QWEN3, **TIED}),
    (hf.Qwen3Config, hf.Qwen3ForCausalLM, {**QWEN3, **WINDOWED}),
    (hf.Qwen3Config, hf.Qwen3ForCausalLM, {**QWEN3, "attention_bias": True}),
    (hf.Qwen3Config, hf.Qwen3ForSequenceClassification, QWEN3),
]
COUNTED_FROM_PADDING = (hf.RobertaConfig, hf.XLMRobertaConfig, hf.MPNetConfig)


def is_generator(kind: Any, model: Any) -> bool:
    family = find_family(kind.model_type)
    return family.architectures[model.__name__] is Head.TEXT_GENERATION


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
    if kind in COUNTED_FROM_PADDING:
        ids = np.where(mask, ids, network.config.pad_token_id).astype(np.int32)
        ids[ids == network.config.pad_token_id] = 5  # positions count from the left
    with torch.no_grad():
        out = network(
            input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask)
        )
    if "QuestionAnswering" in model.__name__:
        expected = np.stack([out.start_logits, out.end_logits], -1)
    else:
        expected = out.logits.numpy()
    got = np.asarray(ours.apply(ours.params, ids, mask))
    assert got.shape == expected.shape
    if expected.ndim == 3:  # what stands at hidden positions means nothing
        got, expected = got[mask == 1], expected[mask == 1]
    assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.parametrize("head", ["pooler-output", "feature-extraction"])
@pytest.mark.parametrize(
    ("kind", "model"),
    [(hf.BertConfig, hf.BertModel), (hf.MPNetConfig, hf.MPNetModel)],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_sentence_embeddings(tmp_path: Path, kind: Any, model: Any, head: str) -> None:
    network = saved(tmp_path, kind, model, BERT)
    ids, mask = batch()
    with torch.no_grad():
        out = network(
            input_ids=torch.tensor(ids).long(), attention_mask=torch.tensor(mask)
        )
    kept = torch.tensor(mask)[:, :, None]
    expected = {
        "pooler-output": out.pooler_output,
        "feature-extraction": (out.last_hidden_state * kept).sum(1) / kept.sum(1),
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
    network, told = model.from_pretrained(tmp_path / "b", output_loading_info=True)
    ignored = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    if not network.config.tie_word_embeddings:  # Hugging Face has them, and no use
        ignored |= {"cls.predictions.bias", "lm_head.bias"}
    assert set(told["missing_keys"]) <= ignored


@pytest.mark.parametrize(
    ("kind", "model", "options"),
    [row for row in MODELS if is_generator(*row[:2])],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_generation_is_the_whole_text_again(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    """The cache gives the logits of the whole text, at any length."""
    saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    ids = np.random.default_rng(2).integers(0, 53, (3, 12)).astype(np.int32)
    lengths = np.array([4, 7, 9], np.int32)
    _, cache = ours.prefill(ours.params, ids[:, :9], lengths)
    room = ((0, 0), (0, 0), (0, 3), (0, 0))
    cache = jax.tree.map(lambda x: np.pad(x, room, constant_values=7.0), cache)
    for step in range(3):
        now = lengths + step
        token = np.take_along_axis(ids, now[:, None], 1)[:, 0]
        logits, cache = ours.decode(ours.params, token, now, cache)
        mask = np.arange(12) < now[:, None] + 1
        whole = np.asarray(ours.apply(ours.params, ids, mask))
        expected = np.take_along_axis(whole, now[:, None, None], 1)[:, 0]
        assert np.abs(logits - expected).max() <= TOLERANCE


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
            from_checkpoint(Checkpoint(config, {}))

    base = hf.BertConfig(**BERT).to_dict()
    named = {**base, "architectures": ["BertForMaskedLM"]}
    refused({"model_type": "mamba"}, "'mamba' are not supported")
    refused({**base, "architectures": ["BertForPreTraining"]}, "BertForPreTraining")
    refused({**named, "hidden_act": "mish"}, "Activation 'mish'")
    refused({**named, "is_decoder": True}, "decoder")
    refused({**named, "position_embedding_type": "relative_key"}, "absolute")
    refused(named, "has no 'embeddings.word_embeddings.weight'")
    mpnet = {**hf.MPNetConfig(**BERT).to_dict(), "architectures": ["MPNetModel"]}
    refused({**mpnet, "relative_attention_num_buckets": 8}, "num_buckets=8")
    gpt2 = {**hf.GPT2Config(**GPT2).to_dict(), "architectures": ["GPT2LMHeadModel"]}
    refused({**gpt2, "scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx")
    refused({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "has no")
    llama = {**hf.LlamaConfig(**LLAMA).to_dict(), "architectures": ["LlamaForCausalLM"]}
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    refused({**llama, "rope_parameters": yarn}, "rope_type='yarn' is not supported")
    refused(
        {**llama, "rope_scaling": {"type": "dynamic"}, "rope_parameters": None}, "dyn"
    )
    refused({**llama, "num_key_value_heads": 4}, "num_key_value_heads=4: the first")
    refused({**llama, "head_dim": 5}, "head_dim=5; channels")
    qwen2 = {**hf.Qwen2Config(**LLAMA).to_dict(), "architectures": ["Qwen2ForCausalLM"]}
    refused({**qwen2, "layer_types": ["full_attention"]}, "num_hidden_layers=3: each")
    small = {
        "bert.embeddings.word_embeddings.weight": np.zeros((52, 24), np.float32),
    }
    with pytest.raises(CheckpointError, match=r"shape \(52, 24\), .* \(53, 24\)"):
        from_checkpoint(Checkpoint(named, small))
    with pytest.raises(CheckpointError, match="not a folder"):
        load_model(tmp_path / "absent")


def test_a_configuration_that_does_not_fit_its_weights_names_the_field(
    tmp_path: Path,
) -> None:
    saved(tmp_path, hf.BertConfig, hf.BertForSequenceClassification, BERT)
    whole = read_checkpoint(tmp_path)
    for field, value, reason in (
        ("hidden_size", 48, r"shape \(53, 24\), .* \(53, 48\) .*by hidden_size=48"),
        ("hidden_size", 26, "hidden_size=26 and num_attention_heads=4: the first must"),
        ("hidden_size", "24", "hidden_size='24'; it is a whole number"),
        ("num_attention_heads", 0, "num_attention_heads=0"),
        ("vocab_size", 60, "by vocab_size=60"),
        ("intermediate_size", 41, r"intermediate.dense.weight' .*intermediate_size=41"),
        ("max_position_embeddings", 64, "by max_position_embeddings=64"),
        ("num_hidden_layers", 2, "num_hidden_layers=2, but .*a weight of layer 2"),
        ("num_hidden_layers", 4, r"has no .*layer.3"),
        ("id2label", {"0": "a", "1": "b"}, "by labels in id2label=2"),
    ):
        config = {**whole.config, field: value}
        with pytest.raises(CheckpointError, match=reason):
            from_checkpoint(Checkpoint(config, whole.tensors))


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"\xff" * 64, b"{}" * 50])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_checkpoint(tmp_path)


def test_an_index_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    index = '{"weight_map": {"a": "../secret.safetensors"}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match="no file"):
        read_checkpoint(tmp_path)
