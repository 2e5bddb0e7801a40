"""Unfused activations change the time of a step, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.models import random_model
from ditto.training.unfused import with_unfused_activations


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_values_and_gradients_are_the_same(activation: str) -> None:
    model = random_model("bert-tiny", num_hidden_layers=1, hidden_act=activation)
    ids = np.arange(12, dtype=np.int32).reshape(2, 6)
    mask = np.ones_like(ids)

    def loss(apply, params):  # type: ignore[no-untyped-def]
        return jnp.square(apply(params, ids, mask)).sum()

    unfused = with_unfused_activations(model.apply)
    results = [
        jax.jit(jax.value_and_grad(lambda p, f=f: loss(f, p)))(model.params)
        for f in (model.apply, unfused)
    ]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *results
    )
    traced = str(jax.make_jaxpr(unfused)(model.params, ids, mask))
    assert traced.count("cond[") == 1
