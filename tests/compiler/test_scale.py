"""A whole BERT-base: compiled in a minute, each distinct region once."""

import time
from typing import Any

import jax
import numpy as np

import ditto
from ditto.bench.layer import LayerShape, encoder_layer, exact_gelu, tokens, weights
from ditto.compiler.cost import predict
from ditto.compiler.execute import compile_plan_region

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
    compile_plan_region.cache_clear()
    started = time.monotonic()
    plan = ditto.compile(
        encoder,
        (params, x),
        profile=ditto.PROFILES["ditto"].replace(gelu="quad"),
        calibration=[(params, tokens(shape, seed)) for seed in (1, 2)],
        weights=(0,),
    )
    seconds = time.monotonic() - started
    assert seconds < 60
    regions = [step for step in plan.steps if step.op == "region"]
    assert len(regions) == 4 * LAYERS  # max, reciprocal and two inverse roots
    assert len(plan.regions) == compile_plan_region.cache_info().misses == 3
    costs = predict(plan)
    assert sum(cost.bytes for cost in costs) <= LAYERS * 85e6
    scopes = {step.scope.split("/")[0] for step in plan.steps if step.scope}
    assert scopes == {f"encoder.layer.{k}" for k in range(LAYERS)}
    assert len(plan.to_bytes()) < 1 << 20
    assert np.isfinite(plan.estimate(ditto.WAN).seconds)
