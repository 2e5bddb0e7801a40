"""Hidden states whose outliers are split off: the same model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf

from ditto.errors import SetupError
from ditto.models import load_model, random_model
from ditto.models.outliers import largest_channels, split_outliers
from tests.models.test_parity import LLAMA, QWEN3, TIED, TOLERANCE, batch, saved


@pytest.mark.parametrize(
    ("kind", "model", "options"),
    [
        (hf.LlamaConfig, hf.LlamaForCausalLM, {**LLAMA, **TIED}),
        (hf.LlamaConfig, hf.LlamaForSequenceClassification, LLAMA),
        (hf.LlamaConfig, hf.LlamaForCausalLM,
         {**LLAMA, "attention_bias": True, "mlp_bias": True}),
        (hf.Qwen2Config, hf.Qwen2ForCausalLM, LLAMA),
        (hf.Qwen3Config, hf.Qwen3ForCausalLM, {**QWEN3, **TIED}),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_the_model_is_the_same(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    ids, mask = batch()
    order = largest_channels(ours, ids, mask)
    assert sorted(order) == list(range(24))
    split = split_outliers(ours, order, 3, 4)
    expected = np.asarray(ours.apply(ours.params, ids, mask))
    got = np.asarray(split.apply(split.params, ids, mask))
    if expected.ndim == 3:
        got, expected = got[mask == 1], expected[mask == 1]
    assert np.abs(got - expected).max() <= TOLERANCE * max(1, np.abs(expected).max())
    with pytest.raises(SetupError, match="other software would not know"):
        split.tensors()


def test_what_cannot_be_split_is_refused() -> None:
    llama, bert = random_model("llama-tiny"), random_model("bert-tiny")
    for count, shift in ((0, 1), (16, 1), (2, -1)):
        with pytest.raises(SetupError, match="of 16 channels divided"):
            split_outliers(llama, np.arange(16), count, shift)
    with pytest.raises(SetupError, match="type bert are not split"):
        split_outliers(bert, np.arange(16), 2, 1)
