"""What does not wait for anything shares its rounds."""

import jax
import numpy as np

import ditto

RNG = np.random.default_rng(0)


def test_a_normalisation_waits_for_nothing_that_can_run_beside_it() -> None:
    """The means are recast beside the tensor, and the weight is multiplied before the
    root is known."""
    x = (RNG.normal(size=(16, 128)) + 0.5).astype(np.float32)
    weight = RNG.uniform(0.5, 2.0, 128).astype(np.float32)
    matrix = (0.1 * RNG.normal(size=(128, 128))).astype(np.float32)

    def norm(w: jax.Array, m: jax.Array, x: jax.Array) -> jax.Array:
        x = x @ m
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * w

    plan = ditto.compile(
        norm,
        (weight, matrix, x),
        calibration=[(weight, matrix, x)],
        weight_argnums=(0, 1),
    )
    (root,) = (k for k, s in enumerate(plan.steps) if s.kind.name == "table_function")
    first, last = (k for k, s in enumerate(plan.steps) if s.kind.name == "multiply")
    assert first < root < last
    groups = plan.round_groups()
    tensors = [
        k
        for k, s in enumerate(plan.steps)
        if s.kind.name == "recast" and plan.values[s.outputs[0]].size == x.size
    ]
    beside = next(g for g in groups if tensors[0] in g)
    assert any(plan.values[plan.steps[k].outputs[0]].size == len(x) for k in beside)
    found = ditto.run_local(plan, (weight, matrix, x)).result
    assert np.abs(found - np.asarray(norm(weight, matrix, x))).max() < 0.01
