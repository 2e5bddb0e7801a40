"""A training step beside torch's: the same loss, gradients and weights."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import transformers as hf

from ditto.models import load_model
from ditto.models.parameters import save_params
from ditto.training.batches import TrainingBatch
from ditto.training.loop import training_step
from ditto.training.optimizer import learning_rate, make_optimizer
from ditto.training.settings import TrainingSettings
from ditto.training.supervised import cross_entropy, logits_of

BERT = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 32,
    "num_labels": 3,
}  # fmt: skip
GPT2 = {
    "vocab_size": 53, "n_embd": 24, "n_layer": 1, "n_head": 4, "n_positions": 32,
    "num_labels": 3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip
MODELS = [
    (hf.BertConfig, hf.BertForSequenceClassification, BERT),
    (hf.MPNetConfig, hf.MPNetForSequenceClassification, BERT),
    (hf.GPT2Config, hf.GPT2LMHeadModel, GPT2),
]
SHAPE = 4, 9
TOLERANCE = 1e-4


def batch(is_language: bool) -> TrainingBatch:
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 53, SHAPE).astype(np.int32)
    mask = np.ones(SHAPE, np.int32)
    if is_language:
        labels = rng.integers(5, 53, SHAPE).astype(np.int32)
        labels[:, :-1] = ids[:, 1:]
        weights = np.ones(SHAPE, np.float32)
        weights[:, -1] = 0  # torch has no label for the last
        return TrainingBatch(ids, mask, np.zeros_like(ids), labels, weights)
    for row, length in enumerate((9, 5, 7, 3)):
        mask[row, length:] = 0
        ids[row, length:] = 1
    types = (np.arange(9) > 3).astype(np.int32) * mask
    labels = np.array([0, 2, 1, 1], np.int32)
    return TrainingBatch(ids, mask, types, labels, np.ones(4, np.float32))


def torch_loss(network: Any, given: TrainingBatch, is_language: bool) -> Any:
    inputs = {
        "input_ids": torch.tensor(given.ids).long(),
        "attention_mask": torch.tensor(given.mask).long(),
        "labels": torch.tensor(given.ids if is_language else given.labels).long(),
    }
    if network.config.model_type == "bert":
        inputs["token_type_ids"] = torch.tensor(given.types).long()
    return network(**inputs).loss


@pytest.mark.parametrize(
    ("kind", "model", "options"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
def test_steps_are_those_of_torch(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    network = model(kind(**options)).eval()  # without dropout, as ours
    network.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    is_language = model is hf.GPT2LMHeadModel
    given = batch(is_language)
    loss = cross_entropy(logits_of(ours))

    # The loss and its gradients, of the embeddings too.
    value, gradient = jax.jit(jax.value_and_grad(loss))(ours.params, given, None)
    expected = torch_loss(network, given, is_language)
    expected.backward()
    assert abs(float(value) - expected.item()) < TOLERANCE
    listed = ours.family.parameters(ours.config, ours.head)
    theirs = dict(network.named_parameters())
    compared = 0
    for name, array in save_params(listed, gradient).items():
        theirs_now = theirs[name].grad
        assert np.abs(array - theirs_now.numpy()).max() < TOLERANCE, name
        compared += np.abs(array).max() > 0
    assert compared > 0.8 * len(listed)

    # Weights after steps with warm-up, decay and clipping.
    told = TrainingSettings(
        output_dir=tmp_path, train_file=tmp_path, learning_rate=1e-2, weight_decay=0.1,
        warmup_ratio=0.4, max_grad_norm=0.5,
    )  # fmt: skip
    steps = 5
    optimizer = make_optimizer(told, learning_rate(told, steps))
    step = training_step(loss, optimizer)
    params = jax.tree.map(jax.numpy.array, ours.params)
    arrays = (params, optimizer.init(params))
    groups = [
        {"params": [p for p in theirs.values() if (p.ndim > 1) == decays],
         "weight_decay": 0.1 * decays}
        for decays in (True, False)
    ]  # fmt: skip
    adam = torch.optim.AdamW(groups, lr=1e-2)
    schedule = hf.get_linear_schedule_with_warmup(adam, 2, steps)
    for _ in range(steps - 1):
        arrays, _ = step(arrays, given, None)
        adam.zero_grad()
        torch_loss(network, given, is_language).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        adam.step()
        schedule.step()
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), arrays[0], ours.params)
    assert max(jax.tree.leaves(moved)) > 0.01
    for name, array in save_params(listed, arrays[0]).items():
        # where a gradient is all rounding, Adam makes a step of it: keys' biases
        if not name.endswith(("key.bias", "attn.k.bias", "c_attn.bias")):
            assert np.abs(array - theirs[name].detach().numpy()).max() < 1e-3, name
