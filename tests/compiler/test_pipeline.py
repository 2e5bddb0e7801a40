"""What compile does with functions, profiles and scopes, and what it refuses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.analysis import predict
from ditto.compiler import PROFILES, Profile, compile
from ditto.compiler.trace import trace
from ditto.errors import (
    FixedPointRangeError,
    SetupError,
    UnsupportedOperationError,
)
from ditto.runtime.executor import prepare

from .cases import PIECES

RNG = np.random.default_rng(3)
X = RNG.normal(size=(8, 16)).astype(np.float32)
W = (0.3 * RNG.normal(size=(16, 16))).astype(np.float32)


def plan_of(function: Any, *arguments: Any, **options: Any) -> ditto.Plan:
    given = {"calibration": [arguments], **options}
    return compile(function, arguments, **given)


def steps(plan: ditto.Plan, op: str) -> list[Any]:
    return [step for step in plan.steps if step.kind.name == op]


# Refusals


@pytest.mark.parametrize(
    ("function", "operation", "alternative"),
    [
        (jnp.fft.fft, "complex", "DFT matrix"),
        (lambda x: jax.lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x),
         "while", "scan"),
        (lambda x: jax.lax.cond(x.sum() > 0, lambda v: v, lambda v: -v, x),
         "cond", "jnp.where"),
        (lambda x: x + jax.random.normal(jax.random.key(0), (8, 16)), None, "outside"),
        (lambda x: x.at[0].set(1.0), "scatter", "one-hot"),
        (lambda x: jnp.linalg.cholesky(x @ x.T), "cholesky", "outside"),
        (jax.lax.tan, "tan", "sin"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["spu", "ditto"])
def test_what_cannot_run_is_refused_at_compile_time(
    function: Any, operation: str | None, alternative: str, profile: str
) -> None:
    def model(x: jax.Array) -> Any:
        with jax.named_scope("encoder.layer.7"):
            return function(x)

    with pytest.raises(UnsupportedOperationError, match=alternative) as caught:
        plan_of(model, X, profile=profile)
    if operation:
        assert caught.value.operation == operation
    assert caught.value.scope == "encoder.layer.7"
    assert "encoder.layer.7" in str(caught.value)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_complex_arguments_are_refused(kind: Any) -> None:
    with pytest.raises(SetupError, match=rf"\['x'\] is {kind.__name__}.*two arrays"):
        plan_of(lambda p: p["x"] * 2, {"x": X.astype(kind)})
    with pytest.raises(SetupError, match="complex128"):
        plan_of(lambda x: x * 2, 1j)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 1j,
        lambda x: (x * (X + 1j * X)).real,
        lambda x: jnp.abs(jax.lax.complex(x, x)),
        lambda x: (x, jnp.asarray(X + 1j * X)),
        lambda x: jnp.linalg.eigvals(x @ x.T).real,
    ],
)
def test_complex_values_inside_are_refused(function: Any) -> None:
    with pytest.raises((SetupError, UnsupportedOperationError), match="two arrays"):
        plan_of(function, X)


def test_a_profile_with_types_needs_samples_or_bounds() -> None:
    with pytest.raises(SetupError, match="calibration="):
        compile(jnp.tanh, (X,))
    with pytest.raises(SetupError, match="one number for each of 1 arguments"):
        compile(jnp.tanh, (X,), bounds=[1.0, 2.0])
    plan = compile(lambda x: x * x, (X,), bounds=[4.0])
    assert np.abs(ditto.run_local(plan, (X,)).result - X * X).max() < 1e-3
    compile(jnp.tanh, (X,), profile="spu")


def test_unknown_profiles_and_overrides_are_refused() -> None:
    with pytest.raises(SetupError, match="spu, puma, paper, ditto"):
        plan_of(jnp.tanh, X, profile="dito")
    odd = PROFILES["ditto"].replace(overrides={"a*": {"engine": "spu"}})
    with pytest.raises(SetupError, match="can differ between scopes"):
        odd.at("abc")
    with pytest.raises(SetupError, match="Not a profile"):
        PROFILES["ditto"].replace(gelu="fast")


def test_a_constant_no_ring_holds_is_refused_with_its_scope() -> None:
    def model(x: jax.Array) -> jax.Array:
        with jax.named_scope("scores"):
            return jnp.where(jnp.eye(8, 16) > 0, x, -1e9).max(-1)

    with pytest.raises(FixedPointRangeError, match=r"scores.*no more than -30"):
        plan_of(model, X)


def test_infinity_in_calibration_is_refused_with_its_scope() -> None:
    def model(x: jax.Array) -> jax.Array:
        with jax.named_scope("head"):
            return jnp.exp(x * 100)

    with pytest.raises(FixedPointRangeError, match="head"):
        plan_of(model, X)


def test_arguments_of_another_shape_are_refused() -> None:
    plan = plan_of(lambda x: x + 1, X)
    with pytest.raises(SetupError, match=r"\(8, 16\) in the plan, got \(4, 16\)"):
        ditto.run_local(plan, (X[:4],))
    with pytest.raises(SetupError, match="takes 1 arrays, got 2"):
        ditto.run_local(plan, (X, X))


# Profiles


def test_profiles_are_frozen_and_survive_json() -> None:
    scoped = PROFILES["ditto"].replace(overrides={"encoder.*": {"rounds": 1}})
    for profile in (*PROFILES.values(), scoped):
        assert Profile.model_validate_json(profile.model_dump_json()) == profile
        with pytest.raises(ValueError, match="frozen"):
            profile.name = "other"


def test_an_override_holds_in_its_scope_only() -> None:
    def model(x: jax.Array) -> jax.Array:
        for k in range(2):
            with jax.named_scope(f"encoder.layer.{k}.attention"):
                x = (x @ x.T) @ x * 0.01
        return x

    overrides = {"encoder.layer.1.*": {"rounds": 1}}
    profile = PROFILES["ditto"].replace(rounds=2, overrides=overrides)
    plan = plan_of(model, X, profile=profile)
    rounds = {(s.scope, s.kind.rounds) for s in steps(plan, "einsum")}
    assert rounds == {
        ("encoder.layer.0.attention", 2),
        ("encoder.layer.1.attention", 1),
    }


def test_spu_alone_is_one_region() -> None:
    for profile in ("spu", "puma"):
        plan = plan_of(lambda x: jax.nn.softmax(x @ x.T, -1), X, profile=profile)
        assert len(steps(plan, "region")) == len(plan.regions) == 1
        assert plan.regions[0].bits == 64


def test_the_paper_computes_in_two_rings_with_its_own_casts() -> None:
    def model(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.nn.softmax((x @ w) @ x.T, -1) @ x

    plan = plan_of(model, W, X, profile="paper")
    assert {r.bits for r in plan.regions} == {32, 64}
    casts = steps(plan, "recast")
    assert {s.kind.casts for s in casts} == {"paper"}
    types = {str(plan.values[v].type) for s in casts for v in (*s.inputs, *s.outputs)}
    assert types == {"fxp32.8", "fxp64.18"}
    run = ditto.run_local(plan, (W, X))
    error = np.abs(run.result - model(W, X)).mean()
    assert error < 0.05
    assert np.abs(ditto.simulate(plan, (W, X)).result - model(W, X)).mean() < 0.05


# Types


def test_recasts_are_fused_into_products() -> None:
    plan = plan_of(lambda x, w: ((x @ w) @ w) @ w, X, W, weight_argnums=(1,))
    assert not steps(plan, "recast")
    assert len(steps(plan, "einsum")) == 3


def test_nothing_is_truncated_before_a_comparison() -> None:
    plan = plan_of(lambda x, w: (x @ w).max(-1), X, W, weight_argnums=(1,))
    (product,) = steps(plan, "einsum")
    fracs = [plan.values[v].type.frac for v in product.inputs]
    assert plan.values[product.outputs[0]].type.frac == sum(fracs)


def test_truncation_and_upcast_are_one_recast() -> None:
    plan = plan_of(lambda x: jnp.log((x * x).sum(-1)), X)
    (product,) = steps(plan, "einsum")
    assert plan.values[product.outputs[0]].type.bits == 64
    assert not [
        s for s in steps(plan, "recast") if plan.values[s.outputs[0]].type.bits == 64
    ]


def test_powers_of_two_are_free() -> None:
    plan = plan_of(lambda x: x * 0.125 + x / 4, X)
    assert {s.kind.name for s in plan.steps} == {"rescale", "add"}


def test_fracs_are_as_fine_as_the_calibrated_range_allows() -> None:
    for scale in (0.01, 1.0, 100.0):
        plan = plan_of(lambda x: x.max(-1), X * scale)
        (form,) = plan.inputs[0].encodings
        held = plan.values[form].type
        largest = float(np.abs(X * scale).max()) * 2
        assert largest < held.max_value <= 2 * largest


def test_one_value_is_recast_once_for_each_type() -> None:
    def model(x: jax.Array) -> jax.Array:
        y = x @ x.T
        return (y * y).sum(-1) + (y * y * 0.3).sum(-1) + (y @ y).sum(-1)

    plan = plan_of(model, X)
    recasts = [
        (s.inputs, plan.values[s.outputs[0]].type) for s in steps(plan, "recast")
    ]
    assert len(recasts) == len(set(recasts))


def test_division_by_a_row_takes_one_reciprocal_a_row() -> None:
    plan = plan_of(lambda x: x / jnp.abs(x).sum(-1, keepdims=True), X)
    sizes = [plan.values[s.outputs[0]].size for s in steps(plan, "table_function")]
    assert sizes == [8]


def test_a_softmax_needs_no_region() -> None:
    """The maximum is coarse and the reciprocal tabulated: SPU has nothing to do."""
    plan = plan_of(lambda x: jax.nn.softmax(x, -1), X)
    assert {s.kind.name for s in plan.steps if s.kind.interactive} >= {
        "coarse_max",
        "table_function",
    }
    assert not plan.regions
    (top,) = steps(plan, "coarse_max")
    held = plan.values[top.inputs[0]]
    assert top.kind.grid(held.type).levels <= 64


def test_a_function_of_a_wide_range_has_pieces_as_coarse_as_its_results_are_large() -> (
    None
):
    """Within 0.007 there are none for |x| up to 80; a sixtieth of 20 allows more."""
    x = np.linspace(-40, 40, 512, dtype=np.float32).reshape(8, 64)
    plan = plan_of(jax.nn.silu, x)
    assert not plan.regions
    assert steps(plan, "piecewise_quadratic")
    got = np.asarray(ditto.simulate(plan, (x,)).result)
    assert np.abs(got - np.asarray(jax.nn.silu(x))).max() < 0.014 + 2.0**-8


def test_small_public_factors_of_summands_need_no_region() -> None:
    """Sines of small angles: each alone would need bits of its own, a sum does not."""
    angles = np.outer(np.arange(8), 10.0 ** -np.arange(8)).astype(np.float32)
    sines = jnp.asarray(np.sin(angles))
    x = X[:, :8]
    assert plan_of(lambda x: x * sines, x).regions
    assert not plan_of(lambda x: x + x[:, ::-1] * sines, x).regions


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x - x.max(-1, keepdims=True), id="the maximum counts"),
        pytest.param(lambda x: jnp.exp(x - x.max(-1, keepdims=True)), id="exp counts"),
        pytest.param(lambda x: jax.nn.logsumexp(x, -1), id="added again"),
        pytest.param(lambda x: x.max(-1), id="a maximum by itself"),
        pytest.param(
            lambda x: _share_of(x, jnp.exp(x - x.max(-1, keepdims=True)).sum(-1)),
            id="another row's sum",
        ),
        pytest.param(
            lambda x: _share_of(x, jnp.exp(x - x.max(-1, keepdims=True)).sum(0)),
            id="a column's sum",
        ),
    ],
)
def test_a_maximum_that_counts_stays_exact(
    function: Callable[[jax.Array], jax.Array],
) -> None:
    plan = plan_of(function, X[:, :8])
    assert not steps(plan, "coarse_max")


def _share_of(x: jax.Array, total: jax.Array) -> jax.Array:
    return jnp.exp(x - x.max(-1, keepdims=True)) / total


def test_a_maximum_over_too_wide_a_range_stays_exact() -> None:
    plan = plan_of(lambda x: jax.nn.softmax(x, -1), X * 500)
    assert not steps(plan, "coarse_max")
    assert plan.regions


def test_a_reciprocal_of_many_values_stays_with_spu() -> None:
    many = np.linspace(1, 30, 1 << 18, dtype=np.float32)
    assert plan_of(lambda x: 1 / x, many).regions
    assert not plan_of(lambda x: 1 / x, many[:64]).regions


def test_factors_and_summands_go_into_the_table() -> None:
    plan = plan_of(lambda x: jax.lax.rsqrt((x * x).sum(-1) / 24 + 1e-5), X)
    (found,) = steps(plan, "table_function")
    ratio = found.kind.summand / found.kind.factor
    assert ratio == pytest.approx(24e-5, rel=1e-5)
    assert not steps(plan, "mul_public")


def test_steps_that_do_not_wait_for_each_other_share_their_rounds() -> None:
    def heads(x: jax.Array) -> jax.Array:
        q, k, v = x @ x.T @ x, x @ (x @ x.T).T.T @ x, x * x
        return q + k * v

    plan = plan_of(heads, X[:, :8])
    together = [g for g in plan.round_groups() if len(g) > 1]
    assert together
    for group in together:
        made = {v for i in group for v in plan.steps[i].outputs}
        assert not any(made & set(plan.steps[i].inputs) for i in group)
    costs = predict(plan)
    for group in together:
        assert [costs[i].rounds for i in group[1:]] == [0] * (len(group) - 1)


def test_a_turned_weight_is_taken_as_it_lies() -> None:
    w = np.ones((5, X.shape[1]), np.float32)
    plan = compile(
        lambda p, x: x @ p.T, (w, X), calibration=[(w, X)], weight_argnums=(0,)
    )
    assert "transpose" not in {getattr(s.kind, "operation", None) for s in plan.steps}


def test_a_state_is_left_as_it_is_taken() -> None:
    """What one run keeps, the next takes, in one type; weights are shared once."""
    Weights = tuple[jax.Array, jax.Array]  # noqa: N806

    def begin(p: Weights, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        kept = x @ p[0]
        return kept @ p[1], kept

    def go_on(
        p: Weights, x: jax.Array, at: jax.Array, state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        grown = jnp.where((jnp.arange(8) == at)[:, None], x @ p[0], state)
        return grown @ p[1], grown

    p = tuple(RNG.normal(size=s).astype(np.float32) for s in ((6, 4), (4, 4)))
    x = RNG.normal(size=(8, 6)).astype(np.float32)
    one = RNG.normal(size=(1, 6)).astype(np.float32)
    first = compile(
        begin, (p, x), calibration=[(p, x)], weight_argnums=(0,), retain_outputs=(1,)
    )
    arguments = (p, one, np.int32(3), x @ p[0])
    then = compile(
        go_on,
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        public_argnums=(2,),
        state_argnums=(3,),
        retain_outputs=(1,),
        reuse_shares_of=first,
    )
    (left,), (taken,) = first.retained(), then.state
    assert [value.type for value in then.retained()] == [left.type]
    assert [then.values[v].type for v in taken.encodings] == [left.type]
    for k in (0, 1):
        one_type, other = (
            [plan.values[v].type for v in plan.inputs[k].encodings]
            for plan in (first, then)
        )
        assert one_type == other
    assert not steps(then, "recast")
    run = ditto.run_local(then, arguments)
    for got, due in zip(run.result, go_on(*arguments), strict=True):
        assert np.abs(got - due).max() < 0.01
    large = (p, np.float32(1e6) * x)
    with pytest.raises(FixedPointRangeError, match="another plan keeps"):
        compile(
            begin,
            large,
            calibration=[large],
            weight_argnums=(0,),
            retain_outputs=(1,),
            reuse_shares_of=first,
        )


def test_a_result_keeps_its_bits_whatever_else_takes_it() -> None:
    def function(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (x @ w).sum() * 0.001, x @ w

    plan = plan_of(function, X, W)
    _, product = ditto.run_local(plan, (X, W)).result
    assert np.abs(product - X @ W).max() < 0.005


def test_a_lookup_by_secret_ids_takes_keys_from_the_client() -> None:
    table = RNG.normal(size=(50, 4)).astype(np.float32)
    ids = np.array([[3, 49], [0, 7]], np.int32)
    plan = plan_of(lambda t, i: t[i], table, ids, weight_argnums=(0,))
    (form,) = plan.inputs[1].encodings
    assert plan.values[form].shape == (2, 2, 50)
    assert not plan.regions
    run = ditto.run_local(plan, (table, ids))
    assert np.abs(run.result - table[ids]).max() < 1e-6
    with pytest.raises(SetupError, match=r"outside 0\.\.49"):
        ditto.run_local(plan, (table, ids + 1))


def test_masked_positions_need_no_room() -> None:
    scores = RNG.normal(size=(8, 8)).astype(np.float32)
    mask = np.tri(8, dtype=bool)

    def model(s: jax.Array, m: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.where(m, s, -1e9), -1)

    plan = plan_of(model, scores, mask, public_argnums=(1,))
    plain = plan_of(lambda s: jax.nn.softmax(s, -1), scores)
    (masked,), (whole,) = (steps(p, "exponential") for p in (plan, plain))
    assert masked.kind == whole.kind
    assert ditto.simulate(plan, (scores, mask)).tightest.bits > 0
    probabilities = ditto.run_local(plan, (scores, mask)).result
    assert (probabilities[~mask] == 0).all()


FITTED: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
    "logistic": jax.nn.sigmoid,
    "tanh": jnp.tanh,
}


def assert_as_good_as_pieces(gaps: Any) -> None:
    assert np.sqrt(2 * np.mean(gaps**2)) <= 0.0024
    assert abs(np.mean(gaps)) <= 0.0005
    assert np.abs(gaps).max() <= PIECES


@pytest.mark.parametrize("name", FITTED)
def test_fitted_functions_keep_their_error(name: str) -> None:
    function = FITTED[name]
    for radius in (1.0, 4.0, 10.0, 30.0):
        grid = np.linspace(-radius, radius, 4096).reshape(64, 64).astype(np.float32)
        plan = plan_of(function, grid)
        result = ditto.simulate(plan, (grid,), seed=1).result
        assert_as_good_as_pieces(result - function(grid))
        bits = 8 * sum(c.bytes for c in predict(plan)) / grid.size
        assert bits <= 800, (radius, bits)


@pytest.mark.parametrize(
    ("name", "far"),
    [
        ("gelu", 2000),
        ("silu", 2000),
        ("logistic", 500),
        ("tanh", 150),
        ("tanh", 20_000),
    ],
)
def test_fitted_functions_of_a_very_wide_range_are_clamped(
    name: str, far: float
) -> None:
    """Of values most of which are near zero, as behind a norm."""
    function = FITTED[name]
    x = np.linspace(-16, 16, 4096).reshape(64, 64).astype(np.float32)
    x[::8, :4] = np.array([-1, -0.3, 0.3, 1]) * far
    plan = plan_of(function, x)
    assert len(steps(plan, "region")) == 1
    for result in (
        ditto.simulate(plan, (x,), seed=1).result,
        ditto.run_local(plan, (x,)).result,
    ):
        assert_as_good_as_pieces(result - function(x))
    assert 8 * sum(c.bytes for c in predict(plan)) / x.size <= 1850


def test_a_number_alone_is_clamped() -> None:
    samples = [(np.float32(x),) for x in (-400, 2, 400)]
    plan = compile(jnp.tanh, samples[0], calibration=samples)
    assert steps(plan, "region")
    for x in map(np.float32, (-390, -0.4, 0.7, 390)):
        assert abs(ditto.run_local(plan, (x,)).result - np.tanh(x)) <= PIECES


def test_few_values_are_fitted_as_finely_as_may_be() -> None:
    """Those of a pooler stand next to the answer, and their bits are not seen."""
    rows = np.random.default_rng(4).uniform(-2, 2, (128, 8)).astype(np.float32)

    def with_few(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.nn.silu(x), jnp.tanh(x[:2])

    few = ditto.simulate(plan_of(with_few, rows), (rows,)).result[1]
    many = ditto.simulate(plan_of(jnp.tanh, rows), (rows,)).result
    off = [float(np.abs(y - jnp.tanh(rows[: len(y)])).mean()) for y in (few, many)]
    assert off[0] < off[1] / 2


# Trace


def test_scopes_are_kept_through_calls() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        with jax.named_scope("dense"):
            return x @ x.T

    def model(x: jax.Array) -> jax.Array:
        with jax.named_scope("encoder"):
            return inner(x)

    (node,) = [n for n in trace(model, (X,)).graph.nodes if n.op == "dot_general"]
    assert node.scope == "encoder/dense"


def test_trees_come_back_as_they_went() -> None:
    def model(p: dict[str, Any], x: jax.Array) -> Any:
        return {"sum": p["a"] + x, "pair": (x, [p["b"][0] * 2])}

    p = {"a": X, "b": [X * 0.5]}
    plan = plan_of(model, p, X)
    result = ditto.run_local(plan, (p, X)).result
    assert np.abs(result["sum"] - 2 * X).max() < 1e-5
    assert isinstance(result["pair"], tuple)
    assert np.abs(result["pair"][1][0] - X).max() < 1e-5


def test_equal_regions_are_compiled_once() -> None:
    def model(x: jax.Array) -> jax.Array:
        for k in range(6):
            with jax.named_scope(f"layer.{k}"):
                x = x - 0.5 * x.max(-1, keepdims=True)
        return x

    plan = plan_of(model, X)
    assert len(steps(plan, "region")) == 6
    assert len(plan.regions) == 1
    assert len(prepare(plan)) == 1
