"""Whole models through the compiler, with three parties, beside the float model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf

import ditto
from ditto.models import load_model
from tests.models.test_parity import BERT, DISTIL, GPT2, saved

MODELS = [
    (hf.BertConfig, hf.BertForSequenceClassification, BERT),
    (hf.BertConfig, hf.BertForTokenClassification, BERT),
    (hf.RobertaConfig, hf.RobertaForSequenceClassification, BERT),
    (hf.DistilBertConfig, hf.DistilBertForMaskedLM, DISTIL),
    (hf.GPT2Config, hf.GPT2LMHeadModel, GPT2),
]


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = np.ones((2, 8), bool)
    mask[1, 5:] = False
    return rng.integers(2, 53, (2, 8)).astype(np.int32), mask


@pytest.mark.parametrize(
    ("kind", "model", "options"), MODELS, ids=lambda v: getattr(v, "__name__", "")
)
def test_secure_inference(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    """Token ids and weights are secret, the mask is public; nothing was retrained."""
    saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    ids, mask = batch(0)
    samples = [(ours.params, *batch(seed)) for seed in range(1, 6)]
    plan = ditto.compile(
        ours.apply,
        (ours.params, ids, mask),
        calibration=samples,
        weights=(0,),
        public=(2,),
    )
    expected = np.asarray(ours.apply(ours.params, ids, mask))
    run = ditto.run_local(plan, (ours.params, ids, mask))
    simulated = ditto.simulate(plan, (ours.params, ids, mask))
    kept = (slice(None),) if expected.ndim == 2 else (mask,)
    scale = max(1.0, float(np.abs(expected[kept]).max()))
    assert np.abs(run.result - expected)[kept].max() <= 0.03 * scale
    assert np.abs(simulated.result - expected)[kept].max() <= 0.03 * scale
    assert simulated.tightest.bits > 0
    words = [g for g in plan.inputs if g.role == "secret"]
    assert [plan.values[v].shape for g in words for v in g.forms] == [(2, 8, 53)]
