"""A student that begins with fitted parabolas is near its teacher before training."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from ditto.errors import SetupError
from ditto.models import Model, random_model
from ditto.models.layers import QUAD
from ditto.training.batches import TrainingBatch
from ditto.training.distillation import hidden_error
from ditto.training.fitting import (
    LEAST_CURVATURE,
    Parabolas,
    _moments,
    _parabolas,
    fit_activation,
)


def batches(model: Model, count: int, seed: int) -> list[TrainingBatch]:
    """Random tokens, of texts that end early."""
    rng = np.random.default_rng(seed)
    size, length = 16, 12
    ends = rng.integers(3, length + 1, (count, size, 1))
    return [
        TrainingBatch(
            rng.integers(0, model.config.vocab_size, (size, length)).astype(np.int32),
            (np.arange(length) < end).astype(np.int32),
            np.zeros((size, length), np.int32),
            np.zeros(size, np.int32),
            np.ones(size, np.float32),
        )
        for end in ends
    ]


def teacher(name: str, activation: str) -> Model:
    """With weights so large that the activation's curve matters."""
    model = random_model(name, seed=1)
    layers = [
        {**layer, "up": {**layer["up"], "w": 12 * np.asarray(layer["up"]["w"])}}
        for layer in model.params["layers"]
    ]
    model = replace(model, params={**model.params, "layers": layers})
    return model.with_config(hidden_act=activation)


def error(model: Model, student: Model, seed: int = 7) -> float:
    """Of the hidden states, on other texts."""
    (batch,) = batches(model, 1, seed)
    expected, found = (
        each.family.hidden_states(each.config, each.params, batch.ids, batch.mask)
        for each in (model, student)
    )
    return float(hidden_error(found, expected, batch))


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-tiny"])
def test_the_error_of_hidden_states_is_a_fraction(name: str) -> None:
    model = teacher(name, "gelu")
    plain = model.with_config(hidden_act="quad")
    fitted = fit_activation(model, plain, batches(model, 24, 0))
    assert error(model, fitted) < error(model, plain) / 5


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-tiny"])
def test_a_parabola_is_found_again(name: str) -> None:
    model = teacher(name, "quad")
    layers = [
        # with the teacher's weights this student would be wrong: its rows are doubled
        {**layer, "up": jax.tree.map(lambda w: 2 * np.asarray(w), layer["up"])}
        for layer in model.params["layers"]
    ]
    moved = replace(model, params={**model.params, "layers": layers})
    fitted = fit_activation(moved, moved, batches(model, 24, 0))
    assert error(moved, model) > 1e-3
    assert error(moved, fitted) < 1e-8


def test_texts_that_are_hidden_do_not_count() -> None:
    model = teacher("bert-tiny", "gelu")
    student = model.with_config(hidden_act="quad")
    some = batches(model, 4, 0)
    other = [
        batch._replace(ids=np.where(batch.mask == 1, batch.ids, 5)) for batch in some
    ]
    pair = [fit_activation(model, student, each).params for each in (some, other)]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), *pair
    )


def test_parabolas_are_the_nearest_and_curved_enough() -> None:
    rng = np.random.default_rng(0)
    h = rng.normal([0.3, 4.0, -1.0], [1.0, 0.5, 2.0], (40, 50, 3)).astype(np.float32)
    target = np.stack(
        [h[..., 0] ** 2 - h[..., 0] + 2, 3 * h[..., 1] + 1, 0.5 * h[..., 2] ** 2], -1
    )
    counted = np.ones((40, 50, 1), np.float32)
    sums = [np.asarray(each, np.float64) for each in _moments(h, target, counted)]
    found = _parabolas(sums)
    np.testing.assert_allclose(found.a, [1, LEAST_CURVATURE, 0.5], rtol=1e-2)
    np.testing.assert_allclose(found.b[[0, 2]], [-1, 0], atol=1e-2)
    np.testing.assert_allclose(found.c[[0, 2]], [2, 0], atol=2e-2)
    line = found.a[1] * h[..., 1] ** 2 + found.b[1] * h[..., 1] + found.c[1]
    assert np.abs(line - target[..., 1]).max() < 4 * LEAST_CURVATURE


def test_a_parabola_is_quad_moved_and_scaled() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(0.1, 1, 5), rng.normal(size=5), rng.normal(size=5)
    fit, h = Parabolas(a, b, c), rng.normal(size=(20, 5))
    moved = h + fit.shift
    quad = QUAD[2] * moved**2 + QUAD[1] * moved + QUAD[0]
    expected = a * h**2 + b * h + c
    np.testing.assert_allclose(fit.factor * quad + fit.constant, expected, atol=1e-12)


def test_a_gated_feed_forward_is_refused() -> None:
    model = random_model("llama-tiny")
    with pytest.raises(SetupError, match="fit_samples=0"):
        fit_activation(model, model, batches(model, 1, 0))
