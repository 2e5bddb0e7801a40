"""Proven bounds hold for every input, are nearly reached, and are said as they are."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.compiler import PROFILES, RangeReport, compile
from ditto.compiler.bounds import take_proven
from ditto.compiler.bounds.bound import UNKNOWN, Bound, of_rows, rows_along
from ditto.compiler.bounds.prover import Proof
from ditto.compiler.bounds.report import CheckedRange
from ditto.compiler.bounds.rows import Rows, largest_product, spectral_norm
from ditto.compiler.builder import Builder
from ditto.compiler.calibrate import Range
from ditto.models import Model, random_model
from ditto.models.computation import Computation, Phase
from ditto.models.layers import layer_norm
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Plan
from ditto.simulation import Simulator

WIDTH, TOKENS = 24, 8


def reported(
    function: Any, samples: list[Any], **options: Any
) -> tuple[Plan, RangeReport]:
    found: list[RangeReport] = []
    plan = compile(
        function,
        samples[0],
        calibration=samples,
        weight_argnums=(0,),
        on_ranges=found.append,
        **options,
    )
    return plan, found[0]


def at(plan: Plan, report: RangeReport, step: str) -> list[CheckedRange]:
    return [r for r in report.ranges if plan.steps[r.step].kind.name == step]


def dense_after_norm(p: Any, x: jax.Array) -> jax.Array:
    return layer_norm(p["norm"], x, 1e-5) @ p["w"]


def two_layers(p: Any, x: jax.Array) -> jax.Array:
    return dense_after_norm(p, x) @ p["w"].T


def dense_params(rng: np.random.Generator) -> Any:
    return {
        "norm": {
            "gamma": rng.uniform(0.5, 2.0, WIDTH).astype(np.float32),
            "beta": rng.normal(size=WIDTH).astype(np.float32),
        },
        "w": rng.normal(size=(WIDTH, 16)).astype(np.float32),
    }


def test_a_dense_layer_after_a_normalisation_is_proven_and_reached() -> None:
    rng = np.random.default_rng(0)
    p = dense_params(rng)
    samples = [(p, rng.normal(size=(4, WIDTH)).astype(np.float32)) for _ in range(8)]
    plan, report = reported(two_layers, samples)
    (product,) = at(plan, report, "einsum")
    assert product.held in ("proven", "caught")
    # the worst row: as long as it can be, in the direction of one column
    stretched = p["norm"]["gamma"][:, None] * p["w"]
    stretched = stretched - stretched.mean(0)
    worst = np.concatenate([stretched.T, -stretched.T]).astype(np.float32)
    reached = float(np.abs(dense_after_norm(p, jnp.asarray(worst))).max())
    bound = max(abs(end) for end in product.proven)
    assert reached <= bound <= 1.05 * reached
    seen = max(abs(end) for end in product.seen)
    assert bound > 1.3 * seen, "samples alone would not have shown it"


def _model(family: str, scale: float) -> Model:
    model = random_model(
        family,
        seed=3,
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    params = jax.tree.map(lambda x: np.asarray(x) * np.float32(scale), model.params)
    return Model(model.family, model.head, model.published, params)


@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_no_input_goes_beyond_what_is_proven(scale: float) -> None:
    model = _model("bert-tiny", scale)
    plans = Plans(model, PROFILES["ditto"], RandomSamples(64), rows=4)
    computation = Computation(Phase.FORWARD, 1, TOKENS)
    plan, report = plans.plan(computation), plans.ranges(computation)
    assert report.certain("recast") >= 0.8
    proven = {r.step: r for r in report.ranges if r.kind != "fit"}
    simulator = Simulator(plan)
    rng = np.random.default_rng(1)
    checked = 0
    for k in range(64):
        ids = rng.integers(0, 64, (1, TOKENS)).astype(np.int32)
        if k % 2:
            ids[:] = ids[0, 0]
        mask = (np.arange(TOKENS) < 1 + k % TOKENS)[None].astype(np.int32)
        for room in simulator((plans.model.params, ids, mask), seed=k).headroom:
            if room.step in proven and room.least <= room.most:
                low, high = proven[room.step].proven
                ulp = 1e-2 * max(abs(low), abs(high), 1.0)
                assert low - ulp <= room.least <= room.most <= high + ulp, room
                checked += 1
    assert checked > 64 * 20


def test_what_has_no_rule_rests_on_samples() -> None:
    rng = np.random.default_rng(2)
    samples = [
        ({}, *(rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)))
        for _ in range(4)
    ]

    def function(_: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * y) * y

    plan, report = reported(function, samples)
    (first,) = at(plan, report, "multiply")
    assert first.held == "sampled"
    assert math.isinf(first.proven[1])
    assert report.certain() < 1


def test_bounds_that_grow_without_end_are_none() -> None:
    """What float32 can hardly square is not followed: no ring would hold it."""
    ends = [np.full(4, end, np.float32) for end in (-1e20, 1e20)]
    endless = Rows.between((1,), (4,), *ends)
    assert of_rows(endless) is UNKNOWN
    assert rows_along(Bound(-1e20, 1e20), (2, 4), (1,)) is None
    held = Rows.between((1,), (4,), -ends[1] * 1e-10, ends[1] * 1e-10)
    assert of_rows(held).rows is held
    assert rows_along(Bound(-1e10, 1e10), (2, 4), (1,)) is not None


def test_a_report_is_by_part_and_adds_up() -> None:
    model = _model("bert-tiny", 1.0)
    plans = Plans(model, PROFILES["ditto"], RandomSamples(64), rows=4)
    report = plans.ranges(Computation(Phase.FORWARD, 1, TOKENS))
    parts = report.parts()
    assert {"embeddings", "encoder.layer.0", "encoder.layer.1"} <= set(parts)
    for held, count in report.counts().items():
        assert count == sum(part.counts()[held] for part in parts.values())


def test_a_profile_without_ranges_reports_none() -> None:
    model = _model("bert-tiny", 1.0)
    plans = Plans(model, PROFILES["spu"], RandomSamples(64), rows=2)
    assert plans.ranges(Computation(Phase.FORWARD, 1, TOKENS)) == RangeReport(())


def _gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


def _fit_after_norm(
    scale: float, fitted: Callable[[jax.Array], jax.Array] = _gelu
) -> CheckedRange:
    """The range of a function of what is as far from zero as the scale says."""
    rng, width = np.random.default_rng(4), 48
    norm = {"gamma": np.ones(width, np.float32), "beta": np.zeros(width, np.float32)}
    p = {"norm": norm, "w": scale * rng.normal(size=(width, 16)).astype(np.float32)}
    samples = [(p, rng.normal(size=(8, width)).astype(np.float32)) for _ in range(4)]

    def function(p: Any, x: jax.Array) -> jax.Array:
        return fitted(dense_after_norm(p, x))

    _, report = reported(function, samples)
    (fit,) = (r for r in report.ranges if r.kind == "fit")
    return fit


def test_a_gelu_that_goes_as_far_as_its_operand_can_is_proven() -> None:
    assert _fit_after_norm(0.12).held == "proven"


def test_a_gelu_beyond_its_fit_is_caught() -> None:
    fit = _fit_after_norm(0.18)
    assert fit.held == "caught"
    assert fit.proven[1] > fit.high


def test_what_is_clamped_cannot_leave_its_fit() -> None:
    fit = _fit_after_norm(40.0, jnp.tanh)
    assert fit.held == "proven"
    assert fit.proven == pytest.approx((-6.0, 6.0), rel=1e-4)


@pytest.mark.parametrize(
    ("scale", "held"), [(0.02, "proven"), (0.1, "caught"), (0.3, "sampled")]
)
def test_exp_by_squarings_is_good_as_far_as_it_says(scale: float, held: str) -> None:
    """A little beyond, the recast of a square sees it."""
    fit = _fit_after_norm(scale, jnp.exp)
    assert fit.held == held
    assert (fit.proven[1] < fit.high) == (held == "proven")


# The set that rows lie in


def _drawn(rows: Rows, rng: np.random.Generator) -> Any:
    """Rows of a set, most of them at its edge."""
    total = rows.centre.copy()
    for ball in rows.balls:
        z = rng.normal(size=len(ball))
        total = total + (z / np.linalg.norm(z)) @ ball
    if rows.box is not None:
        total = total + rng.choice([-1, 1], len(rows.box)) * rows.box
    return total


def _rows(rng: np.random.Generator, box: bool) -> Rows:
    balls = tuple(rng.normal(size=(6, 12)).astype(np.float32) for _ in range(2))
    extent = np.abs(rng.normal(size=12)).astype(np.float32) if box else None
    return Rows((2,), (12,), rng.normal(size=12).astype(np.float32), balls, extent)


@pytest.mark.parametrize("box", [False, True])
def test_rows_stay_in_their_set(box: bool) -> None:
    rng = np.random.default_rng(5)
    rows, other = _rows(rng, box), _rows(rng, box=False)
    w = rng.normal(size=(12, 5)).astype(np.float32)
    heads = rows.along((1, 2), (3, 4))
    mixed = heads.apart((1,)).between_zero_and(1.0)
    image, centred, total = rows.times(w, 2), rows.centred(), rows.plus(other)
    for _ in range(300):
        x, y = _drawn(rows, rng), _drawn(other, rng)
        _inside(rows, x)
        _inside(image, x @ w)
        _inside(centred, x - x.mean())
        _inside(total, x + y)
        least, most = rows.total()
        assert least - 1e-3 <= x.sum() <= most + 1e-3
        assert abs(x @ y) <= largest_product(rows, other) * 1.001
        drawn = np.stack([_drawn(rows, rng) for _ in range(3)]).reshape(3, 3, 4)
        weights = rng.dirichlet(np.ones(3), size=3)  # of each head its own
        _inside(mixed, np.einsum("ht,thd->hd", weights, drawn).reshape(-1))


def _inside(rows: Rows, x: Any) -> None:
    assert np.all(np.abs(x - rows.centre) <= rows.extent + 1e-3)
    assert np.linalg.norm(x) <= rows.norm * 1.001


@pytest.mark.parametrize("shape", [(40, 60), (150, 300), (300, 150)])
def test_the_spectral_norm_is_bounded_closely(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(6).normal(size=shape).astype(np.float32)
    exact = float(np.linalg.norm(matrix.astype(np.float64), 2))
    assert exact * 0.9999 <= spectral_norm(matrix) <= 1.25 * exact
    assert spectral_norm(np.zeros(shape, np.float32)) == 0.0


# What types are chosen for


def test_types_take_a_proof_that_is_cheap_and_room_where_samples_differ() -> None:
    builder = Builder()
    x = builder.input(0, (4,), "float32")
    ends = [builder.emit("neg", x)]
    for _ in range(4):
        ends.append(builder.emit("neg", ends[-1]))
    graph = builder.finish(ends)
    seen = [
        Range(-1.0, 1.0, 0.25),  # nothing is proved, samples agree
        Range(-1.0, 1.0, 0.25, spread=3.0),  # and here they do not
        Range(-1.0, 1.0, 0.25, spread=9.0),
        Range(-1.0, 1.0, 0.25),  # proved within twice the limit: nothing to do
        Range(-1.0, 1.0, 0.25),  # a bit more
        Range(-1.0, 1.0, 0.25),  # too far
    ]
    reach = [math.inf, math.inf, math.inf, 7.9, 15.0, 100.0]
    proof = Proof([(-end, end) for end in reach], {})
    found = take_proven(graph, seen, [2.0] * 6, proof)
    assert [r.largest for r in found] == [1.0, 1.5, 2.0, 1.0, 3.75, 1.0]
