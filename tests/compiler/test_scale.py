"""A whole BERT-base: compiled in a minute, with nothing left for SPU."""

import time
from typing import Any

import jax
import numpy as np

import ditto
from benchmarks.layer import LayerShape, encoder_layer, exact_gelu, tokens, weights
from ditto.analysis import predict

LAYERS = 12


def test_bert_base_compiles_in_a_minute() -> None:
    shape = LayerShape()
    layer = encoder_layer(shape, exact_gelu)

    def encoder(params: list[Any], x: jax.Array) -> jax.Array:
        for k, p in enumerate(params):
            with jax.named_scope(f"encoder.layer.{k}"):
                x = layer(p, x)
        return x

    params = [weights(shape, seed) for seed in range(LAYERS)]
    x = tokens(shape, 99)
    started = time.process_time()  # of this process, whatever else runs
    plan = ditto.compile(
        encoder,
        (params, x),
        profile=ditto.PROFILES["ditto"].replace(gelu="quad"),
        calibration=[(params, tokens(shape, seed)) for seed in (1, 2)],
        weight_argnums=(0,),
    )
    seconds = time.process_time() - started
    assert seconds < 60
    regions = [step for step in plan.steps if step.kind.name == "region"]
    assert not regions
    own = [
        step.kind.name
        for step in plan.steps
        if step.kind.name in ("coarse_max", "table_function")
    ]
    assert len(own) == 4 * LAYERS  # maximum, reciprocal and two inverse roots
    costs = predict(plan)
    assert sum(cost.bytes for cost in costs) <= LAYERS * 42e6
    assert sum(cost.rounds for cost in costs) <= LAYERS * 56
    scopes = {step.scope.split("/")[0] for step in plan.steps if step.scope}
    assert scopes == {f"encoder.layer.{k}" for k in range(LAYERS)}
    assert len(plan.to_bytes()) < 1 << 20
    assert np.isfinite(ditto.estimate(plan, ditto.WAN).seconds)
