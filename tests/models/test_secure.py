"""Whole models through the compiler, with three parties, beside the float model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf

import ditto
from ditto.api import Computation, Phase, Plans
from ditto.api.backends import FloatBackend, SimulatedBackend
from ditto.compiler import PROFILES
from ditto.models import load_model
from ditto.owner.samples import RandomSamples
from tests.models.test_parity import (
    BERT,
    DISTIL,
    GPT2,
    LLAMA,
    MODERN,
    QWEN3,
    TIED,
    TWO,
    WINDOWED,
    is_generator,
    saved,
)

MODELS = [
    (hf.BertConfig, hf.BertForSequenceClassification, BERT),
    (hf.BertConfig, hf.BertForTokenClassification, BERT),
    (hf.RobertaConfig, hf.RobertaForSequenceClassification, BERT),
    (hf.DistilBertConfig, hf.DistilBertForMaskedLM, DISTIL),
    (hf.GPT2Config, hf.GPT2LMHeadModel, GPT2),
    (hf.ModernBertConfig, hf.ModernBertForSequenceClassification, MODERN),
    (hf.MPNetConfig, hf.MPNetForQuestionAnswering, {**BERT, **TWO}),
    (hf.LlamaConfig, hf.LlamaForCausalLM, LLAMA),
    (hf.MistralConfig, hf.MistralForCausalLM, {**LLAMA, "sliding_window": 4}),
    (hf.Qwen2Config, hf.Qwen2ForCausalLM, {**LLAMA, **TIED}),
    (hf.Qwen3Config, hf.Qwen3ForCausalLM, {**QWEN3, **WINDOWED}),
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
        weight_argnums=(0,),
        public_argnums=(2,),
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
    assert [plan.values[v].shape for g in words for v in g.encodings] == [(2, 8, 53)]


@pytest.mark.parametrize(
    ("kind", "model", "options"),
    [row for row in MODELS if is_generator(*row[:2])],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_secure_generation(
    tmp_path: Path, kind: Any, model: Any, options: dict[str, Any]
) -> None:
    """The plans of a prompt and of the tokens that follow, beside the float model."""
    saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    plans = Plans(ours, PROFILES["ditto"], RandomSamples(ours.config.vocab_size))
    backends = SimulatedBackend(plans), FloatBackend(ours)
    ids = np.random.default_rng(0).integers(2, 53, (2, 8)).astype(np.int32)
    lengths = np.array([8, 5], np.int32)
    prefill, decode = Computation(Phase.PREFILL, 2, 8), Computation(Phase.DECODE, 2, 16)
    runs = [backend.run(prefill, (ids, lengths)) for backend in backends]
    for step in range(3):
        logits, expected = (run.result for run in runs)
        assert np.abs(logits - expected).max() <= 0.03 * np.abs(expected).max()
        token = np.argmax(expected, -1).astype(np.int32)
        runs = [
            backend.run(decode, (token, lengths + step), run.state)
            for backend, run in zip(backends, runs, strict=True)
        ]
