"""Attention without an exponential: what is hidden has no weight."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from ditto.errors import CheckpointError
from ditto.models import random_model
from ditto.models.layers import ATTENTION_WEIGHTS, attention

BATCH, HEADS, TOKENS, SIZE = 2, 2, 5, 4
FORMS = [*ATTENTION_WEIGHTS]


def drawn() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(
        jnp.asarray(rng.normal(size=(BATCH, HEADS, TOKENS, SIZE)), jnp.float32)
        for _ in range(3)
    )  # type: ignore[return-value]


def masks(lengths: list[int]) -> Any:
    return (np.arange(TOKENS) < np.array(lengths)[:, None])[:, None, None, :]


@pytest.mark.parametrize("form", FORMS)
def test_hidden_tokens_do_not_count(form: str) -> None:
    q, k, v = drawn()
    seen = masks([3, 5])
    mixed = attention(q, k, v, seen, weights=form)
    changed = attention(q, k, v.at[0, :, 3:].set(100.0), seen, weights=form)
    assert np.array_equal(mixed, changed)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_mask_gives_what_a_public_one_does(form: str) -> None:
    q, k, v = drawn()
    seen = masks([3, 5])
    public = attention(q, k, v, seen, weights=form)
    secret = attention(q, k, v, jnp.asarray(seen, jnp.float32), weights=form)
    assert np.allclose(public, secret, atol=1e-5)


def test_weights_are_squares_over_their_sum() -> None:
    q, k, v = drawn()
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * SIZE**-0.5
    raised = (scores / 2 + 1) ** 2
    weights = raised / (raised.sum(-1, keepdims=True) + 2**-6)
    due = np.einsum("bhst,bhtd->bhsd", weights, v)
    due = due.transpose(0, 2, 1, 3).reshape(BATCH, TOKENS, -1)
    got = attention(q, k, v, masks([5, 5]), weights="square")
    assert np.allclose(got, due, atol=1e-5)


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-tiny"])
def test_every_family_has_it(name: str) -> None:
    quad = random_model(name).with_config(hidden_act="quad")
    square = quad.with_config(attention_weights="square")
    ids = np.arange(1, 7, dtype=np.int32)[None]
    inputs = ids, np.ones_like(ids)
    one, other = (m.apply(m.params, *inputs) for m in (quad, square))
    assert not np.allclose(one, other)


def test_forms_that_there_are_not_and_names_that_others_know_are_refused() -> None:
    model = random_model("bert-tiny")
    with pytest.raises(CheckpointError, match="softmax, relu, square"):
        _ = model.with_config(hidden_act="quad", attention_weights="cube").config
    with pytest.raises(CheckpointError, match="other software would"):
        _ = model.with_config(attention_weights="square").config
