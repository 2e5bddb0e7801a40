"""Predicted against measured, and what people see of a plan."""

import xml.etree.ElementTree as ET
from pathlib import Path

import jax
import numpy as np
import pytest

import ditto
from benchmarks.layer import LayerShape, encoder_layer, exact_gelu, tokens, weights
from benchmarks.spu_cost import measure
from ditto.analysis import by_scope, predict, tune_rounds
from ditto.analysis.estimation import ROUND
from ditto.analysis.explanation import lines
from ditto.analysis.spu_cost import table
from ditto.errors import SetupError
from ditto.steps import check_plan

SHAPE = LayerShape(tokens=16, width=32, heads=4, inner=64)


def layer_plan(profile: str) -> tuple[ditto.Plan, tuple[object, ...]]:
    arguments = (weights(SHAPE, 0), tokens(SHAPE, 1))
    plan = ditto.compile(
        encoder_layer(SHAPE, exact_gelu),
        arguments,
        profile=profile,
        calibration=[arguments],
        weight_argnums=(0,),
    )
    return plan, arguments


@pytest.mark.parametrize("profile", ["spu", "puma", "paper", "ditto"])
def test_a_layer_costs_what_is_predicted(profile: str) -> None:
    plan, arguments = layer_plan(profile)
    run = ditto.run_local(plan, arguments)
    predicted = predict(plan)
    assert not any(cost.unknown for cost in predicted)
    for measured, cost in zip(run.steps, predicted, strict=True):
        if cost.native:
            assert (measured.bytes, measured.rounds) == (cost.bytes, cost.rounds)
        else:
            assert measured.bytes == pytest.approx(cost.bytes, rel=0.05)
    assert run.rounds == pytest.approx(sum(c.rounds for c in predicted), rel=0.05)
    scopes = run.by_scope()
    assert sum(s.bytes for s in scopes.values()) == run.bytes


def test_processes_with_tls_send_the_same() -> None:
    plan, arguments = layer_plan("ditto")
    run = ditto.run_local(plan, arguments, processes=True)
    native = [c.bytes for c in predict(plan) if c.native]
    measured = [
        s.bytes for s, c in zip(run.steps, predict(plan), strict=True) if c.native
    ]
    assert measured == native
    expected = encoder_layer(SHAPE, exact_gelu)(*arguments)
    assert np.abs(run.result - expected).mean() < 0.01


def test_the_cost_table_is_what_spu_sends() -> None:
    """Bits are exact; rounds may differ by the few messages that SPU overlaps."""
    for ring, rows in measure().items():
        kept = table()[ring]
        assert set(rows) == set(kept)
        for key, (bits, rounds) in rows.items():
            assert bits == kept[key][0], (ring, key)
            assert abs(rounds - kept[key][1]) <= max(3, 0.1 * rounds), (ring, key)


def test_explain_shows_every_step_that_sends() -> None:
    plan, _ = layer_plan("ditto")
    text = ditto.explain(plan)
    shown = lines(plan)
    assert len(shown) == sum(1 for c in predict(plan) if c.bytes)
    assert "coarse_max" in text
    assert "reciprocal" in text
    assert "attention" in text
    assert f"{sum(c.bytes for c in predict(plan)) / 1e6:.3f}" in text
    assert len(ditto.explain(plan, free=True).splitlines()) > len(text.splitlines())
    total = sum(b for b, _ in by_scope(plan).values())
    assert total == sum(c.bytes for c in predict(plan))


def test_explain_tells_what_it_cannot_price() -> None:
    x = np.ones((4, 4), np.float32)
    plan = ditto.compile(lambda a: jax.numpy.sort(a, -1), (x,), profile="spu")
    assert "no row in the cost table" in ditto.explain(plan)


def test_a_plan_is_suited_to_a_network() -> None:
    """Few rounds where they are long, few bytes where they are not."""
    plan, arguments = layer_plan("ditto")
    far = tune_rounds(plan, ditto.Network(rtt=0.1, bandwidth=1e9))
    thin = tune_rounds(plan, ditto.Network(rtt=0.0, bandwidth=1e3))
    check_plan(far)
    check_plan(thin)

    def totals(chosen: ditto.Plan) -> tuple[float, float]:
        costs = predict(chosen)
        return sum(c.bytes for c in costs), sum(c.rounds for c in costs)

    assert totals(far)[1] <= totals(plan)[1] < totals(thin)[1]
    assert totals(thin)[0] < min(totals(plan)[0], totals(far)[0])
    shown = ditto.run_local(far, arguments)
    expected = encoder_layer(SHAPE, exact_gelu)(*arguments)
    assert np.abs(shown.result - expected).mean() < 0.01


def test_estimates_grow_with_latency_and_shrink_with_bandwidth() -> None:
    plan, _ = layer_plan("ditto")
    lan, wan = ditto.estimate(plan, ditto.LAN), ditto.estimate(plan, ditto.WAN)
    assert lan.rounds == wan.rounds
    assert wan.waiting == pytest.approx(wan.rounds * (0.02 + ROUND))
    assert wan.sending == pytest.approx(8 * wan.bytes / 3 / 400e6)
    assert lan.seconds < wan.seconds
    with pytest.raises(SetupError, match="such as 40ms"):
        ditto.Network.parse("40", "400mbit")
    assert ditto.Network.parse("40ms", "400mbit") == ditto.WAN


def test_the_picture_is_svg_with_every_sending_step() -> None:
    plan, _ = layer_plan("ditto")
    root = ET.fromstring(ditto.draw(plan))  # noqa: S314  (our own text)
    boxes = root.findall("{http://www.w3.org/2000/svg}rect")
    sending = sum(1 for c in predict(plan) if c.bytes)
    assert len(boxes) >= sending


def test_plans_are_saved_and_read(tmp_path: Path) -> None:
    plan, _ = layer_plan("paper")
    plan.save(tmp_path / "layer.plan")
    assert ditto.load_plan(tmp_path / "layer.plan").digest == plan.digest
