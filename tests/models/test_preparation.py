"""Models prepared for plans: the same models, and whose outliers are split off."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import transformers as hf

from ditto.client.tokens import Encoded
from ditto.compiler import PROFILES
from ditto.compiler import compile as compile_plan
from ditto.errors import SetupError
from ditto.fixedpoint import Array
from ditto.models import Model, load_model, random_model
from ditto.models.families import find_family
from ditto.models.layers import rms_norm
from ditto.models.preparation import Preparation, Split, prepare
from ditto.models.random import PRESETS
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.simulation import simulate
from tests.models.test_parity import LLAMA, QWEN3, TIED, TOLERANCE, batch, saved

OUTLIER, LARGE = 5, 6
"""A channel of a tiny model, and the token whose embedding is large there."""


def _outlying(size: float = 4000.0) -> Model:
    """A tiny Llama one of whose tokens makes one channel large."""
    model = random_model("llama-tiny", vocab_size=64, tie_word_embeddings=False)
    table = np.array(model.params["embeddings"]["word"])
    table[LARGE, OUTLIER] = size * np.abs(table).mean()
    embeddings = {"word": table}
    return replace(model, params={**model.params, "embeddings": embeddings})


class _Starting(RandomSamples):
    """Rows that start with the token that makes outliers, as texts do."""

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        row = super().row(k, length, pairs=pairs)
        return Encoded([LARGE, *row.ids[1:]], row.types)


def _texts(rows: int, length: int = 8) -> tuple[Array, Array]:
    samples = _Starting(64)
    ids = np.array([samples.row(100 + k, length).ids for k in range(rows)], np.int32)
    return ids, np.ones_like(ids)


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
@pytest.mark.parametrize(("count", "shift"), [(0, 0), (3, 4)])
def test_the_model_is_the_same(
    tmp_path: Path,
    kind: Any,
    model: Any,
    options: dict[str, Any],
    count: int,
    shift: int,
) -> None:
    saved(tmp_path, kind, model, options)
    ours = load_model(tmp_path)
    ids, mask = batch()
    generator = np.random.default_rng(count)
    order = generator.permutation(24)
    layers = ours.params["layers"]
    shape = len(layers), len(layers[0]["down"]["w"])
    levels = tuple(2.0 ** generator.integers(-2, 6, shape))
    ready = Preparation(ours.family, Split(order, count, shift), levels).model(ours)
    expected = np.asarray(ours.apply(ours.params, ids, mask))
    got = np.asarray(ready.apply(ready.params, ids, mask))
    if expected.ndim == 3:
        got, expected = got[mask == 1], expected[mask == 1]
    assert np.abs(got - expected).max() <= TOLERANCE * max(1, np.abs(expected).max())
    assert ready.size < ours.size  # gains are inside the maps
    with pytest.raises(SetupError, match="other software would not know"):
        ready.tensors()


def test_outliers_are_found_where_there_are_some() -> None:
    ids, mask = _texts(4)
    plain = random_model("llama-tiny", vocab_size=64)
    split = prepare(plain, lambda: (ids, mask)).split
    assert split is not None
    assert split.count == 0
    split = prepare(_outlying(), lambda: (ids, mask)).split
    assert split is not None
    assert split.count == 1
    assert split.order[0] == OUTLIER
    assert split.shift > 6
    hidden = mask.copy()
    hidden[:, 0] = 0  # what the mask hides does not count
    unseen = prepare(_outlying(), lambda: (ids, hidden)).split
    assert unseen is not None
    assert unseen.count == 0


def test_outlying_gated_channels_are_levelled() -> None:
    """A hundred times the others: half of its doublings go from the one to the other
    side, and those of no other channel."""
    model = random_model("llama-tiny", vocab_size=64)
    first, *others = model.params["layers"]
    up, channel = np.array(first["up"]["w"]), 7
    up[:, channel] *= 100
    layers = [{**first, "up": {**first["up"], "w": up}}, *others]
    model = replace(model, params={**model.params, "layers": layers})
    levels = prepare(model, lambda: _texts(4)).levels
    assert levels is not None
    assert levels[0][channel] in {4, 8, 16, 32}
    assert np.delete(levels[0], channel).max() == 1
    assert all(each.max() == 1 for each in levels[1:])


@pytest.mark.parametrize(
    ("preset", "architecture"),
    [
        ("bert-tiny", "BertModel"),
        ("bert-tiny", "MPNetModel"),
        ("llama-tiny", "LlamaForCausalLM"),
        ("llama-tiny", "Qwen3ForCausalLM"),
    ],
)
@pytest.mark.parametrize(("width", "scaled"), [(8, True), (16, False)])
def test_queries_are_scaled_where_the_root_is_no_power_of_two(
    preset: str, architecture: str, width: int, scaled: bool
) -> None:
    family = architecture.removesuffix("Model").removesuffix("ForCausalLM").lower()
    config = {**PRESETS[preset], "model_type": family, "architectures": [architecture]}
    sizes = {"vocab_size": 64, "hidden_size": 4 * width, "num_attention_heads": 4}
    model = random_model({**config, **sizes, "head_dim": width})
    ids, mask = _texts(2)
    preparation = prepare(model, lambda: (ids, mask))
    ready = preparation.model(model)
    assert (preparation.query_factor is not None) == scaled
    assert ready.config.scaled_queries == scaled
    expected = np.asarray(model.apply(model.params, ids, mask))
    got = np.asarray(ready.apply(ready.params, ids, mask))
    assert np.abs(got - expected).max() <= TOLERANCE * max(1, np.abs(expected).max())
    assert prepare(ready, _no_samples).model(ready) is ready


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("BertForSequenceClassification", "bert"),
        ("BertForMaskedLM", "bert"),
        ("RobertaForTokenClassification", "roberta"),
        ("DistilBertModel", "distilbert"),
        ("MPNetModel", "mpnet"),
    ],
)
def test_what_a_normalisation_loses_is_left_out_of_weights(
    architecture: str, model_type: str
) -> None:
    config = {**PRESETS["bert-tiny"], "model_type": model_type}
    for name, own in find_family(model_type).attribute_map.items():
        config[own] = config.get(name)
    sizes = {"vocab_size": 64, "pad_token_id": 0}
    model = random_model({**config, "architectures": [architecture]}, **sizes)
    ids, mask = _texts(2)
    ready = prepare(model, _no_samples).model(model)
    assert ready.config.centred_maps
    tied = architecture == "BertForMaskedLM"  # its head reads the words' table
    assert ready.config.centred_tables != tied
    expected = np.asarray(model.apply(model.params, ids, mask))
    got = np.asarray(ready.apply(ready.params, ids, mask))
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())
    for layer in ready.params["layers"]:
        for name in ("output", "down"):
            for rows in layer[name].values():
                assert np.abs(rows.mean(-1)).max() < 1e-6
    assert prepare(ready, _no_samples).params(ready.params) is ready.params


def test_other_models_stay_as_they_are() -> None:
    model = random_model("gpt2-tiny")
    preparation = prepare(model, _no_samples)
    assert preparation.model(model) is model
    assert preparation.params(model.params) is model.params


def _no_samples() -> tuple[Array, Array]:
    raise AssertionError("What is known needs no samples.")


def test_what_cannot_be_split_is_refused() -> None:
    for count, shift in ((16, 1), (2, -1)):
        with pytest.raises(SetupError, match="of 16 channels divided"):
            Split(np.arange(16), count, shift)


def test_plans_take_the_prepared_model() -> None:
    plans = Plans(_outlying(), PROFILES["ditto"], _Starting(64), rows=8)
    assert plans.model.published["outlier_channels"] == 1
    assert Plans(plans.model, PROFILES["ditto"], _Starting(64)).model is plans.model


def test_a_normalisation_is_more_precise_where_outliers_are_split() -> None:
    """Of hidden states as SmolLM2's: the first token has one of 29,000, others of 4."""
    rng = np.random.default_rng(0)
    states = rng.normal(0, 4, (9, 8, 64)).astype(np.float32)
    states[:, 0, 0] = 29_000
    few = np.where(np.arange(64) == 0, 2.0**-8, 1.0).astype(np.float32)
    expected = np.asarray(rms_norm({}, jnp.asarray(states[:1]), 1e-5))
    errors = []
    for divisor, outliers in ((np.ones_like(few), (0, 0)), (few, (1, 8))):
        samples = [(state[None] * divisor,) for state in states]
        plan = compile_plan(
            lambda x, outliers=outliers: rms_norm({}, x, 1e-5, outliers),
            samples[0],
            calibration=samples,
        )
        got = np.asarray(simulate(plan, samples[0]).result)
        errors.append(np.abs(got - expected)[:, 1:].max())
    whole, split = errors
    assert split < whole / 8
