"""How large values get on samples, computed one by one or together."""

from typing import Any

import numpy as np
import pytest

from ditto.compiler import compile as compile_plan
from ditto.compiler.builder import Builder
from ditto.compiler.calibrate import Calibration, Range
from ditto.operations import walk
from ditto.plan import Graph
from ditto.simulation import simulate

STEP = 0.5


def score(length: int) -> Graph:
    """The coarse maximum of x W, less which nothing is above 0."""
    builder = Builder()
    x = builder.input(0, (length, 3), "float32")
    weights = builder.input(1, (3, 5), "float32")
    dimensions = (((1,), (0,)), ((), ()))
    product = builder.emit(
        "dot_general", x, weights,
        dimension_numbers=dimensions, precision=None, preferred_element_type=np.float32,
        out_sharding=None,
    )  # fmt: skip
    top = builder.emit(
        "coarse_max", product, axes=(1,), step=STEP, low=-8.0, high=8.0, hidden=None
    )
    return builder.finish([product, top])


@pytest.mark.parametrize("length", [2, 400_000])  # together, and one by one
def test_samples_show_the_same_together_as_alone(length: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(3, 5)).astype(np.float32)
    xs = [rng.normal(size=(length, 3)).astype(np.float32) for _ in range(5)]
    graph = score(length)
    ranges = Calibration([[x, weights] for x in xs]).ranges(graph)
    product, top = graph.outputs
    lows, highs = [], []
    for k, x in enumerate(xs):
        values = dict(walk(graph, [x, weights]))
        lows.append([values[i].min() + STEP * (k % 2) * (i == top) for i in range(4)])
        highs.append([values[i].max() + STEP * (k % 2) * (i == top) for i in range(4)])
    for i in (0, 1, product, top):
        assert ranges[i].low == pytest.approx(np.min(lows, 0)[i], rel=1e-6)
        assert ranges[i].high == pytest.approx(np.max(highs, 0)[i], rel=1e-6)


def test_one_sample_has_both_ends_of_a_coarse_maximum() -> None:
    graph = score(1)
    x, weights = np.ones((1, 3), np.float32), np.ones((3, 5), np.float32)
    seen = Calibration([[x, weights]]).ranges(graph)[graph.outputs[1]]
    assert seen == Range(3.0, 3.0 + STEP, (3.0**2 + 3.5**2) / 2, 1.0)


def test_rows_that_are_outliers_say_nothing_of_the_others() -> None:
    builder = Builder()
    graph = builder.finish([x := builder.input(0, (1, 32, 64), "float32")])
    value = np.random.default_rng(0).normal(size=(1, 32, 64)).astype(np.float32)
    usual = Calibration([[value]]).ranges(graph)[x]
    assert usual.usual == usual.rms == pytest.approx(1, rel=0.1)
    value[0, 0, 5] = 3000
    seen = Calibration([[value]]).ranges(graph)[x]
    assert seen.largest == 3000
    assert seen.rms == pytest.approx(3000 / np.sqrt(32 * 64), rel=0.01)
    assert seen.usual == pytest.approx(1, rel=0.1)
    each = [value[:, :1], value[:, 1:2], value[:, 2:3]]  # as a decoder sees tokens
    builder = Builder()
    graph = builder.finish([x := builder.input(0, (1, 1, 64), "float32")])
    assert Calibration([[v] for v in each]).ranges(graph)[x].usual < 1.3


def test_a_token_that_goes_far_leaves_the_others_their_bits() -> None:
    """The first token of a text, in the feed-forward of a decoder."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.25, (32, 48)).astype(np.float32)
    x[0] *= 150
    weights = [rng.normal(0, 0.1, shape) for shape in ((48, 96), (48, 96), (96, 48))]
    gate, up, down = (each.astype(np.float32) for each in weights)

    def feed_forward(x: Any, gate: Any, up: Any, down: Any) -> Any:
        return ((x @ gate) * (x @ up)) @ down

    arguments = (x, gate, up, down)
    plan = compile_plan(
        feed_forward, arguments, calibration=[arguments], weight_argnums=(1, 2, 3)
    )
    exact = feed_forward(*arguments)
    errors = np.asarray(simulate(plan, arguments).result) - exact
    usual = np.sqrt((exact[1:] ** 2).mean())
    assert np.sqrt((errors[1:] ** 2).mean()) < 0.02 * usual
    assert np.abs(errors[0]).max() < 0.02 * np.abs(exact[0]).max()
