"""The same plan on plain integers, with the same rounding, on one machine.

Integers are held in float64, which is exact far beyond the 30 bits of a legal value, so
an overflow is seen and not wrapped. It is looked for where it does harm: where a recast
needs the carry, in the range of a grid, a table or a fitted function, in what SPU takes
and in what the client opens. Between those places numbers may wrap around and come
back. An element that leaves such a range turns into NaN and takes with it all that
depends on it; only if that reaches an answer is the answer wrong.

A recast rounds to nearest, or with a seed as the protocol does, up or down at random.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ditto.compiler.graph import Graph, Node, walk
from ditto.compiler.operations import evaluate
from ditto.compiler.plan import (
    Input,
    Output,
    Plan,
    Step,
    Value,
    curve_of,
    grid_of,
    is_indices,
)
from ditto.compiler.trace import dtype_of
from ditto.engine import FXP_FRAC
from ditto.errors import CapacityError, SetupError
from ditto.fixedpoint import FxpType
from ditto.protocols import Curve, product_type
from ditto.protocols.recast import Conversion


@dataclass(frozen=True)
class Headroom:
    """How far the values at one place stayed from the ends of its range."""

    step: int
    op: str
    scope: str
    least: float
    most: float
    """The smallest and the largest value seen."""
    low: float
    high: float
    """What the place takes: low <= value < high."""
    pole: float | None = None
    """Where the function of a table is infinite; ranges are then ratios to it."""

    @property
    def bits(self) -> float:
        """Doublings that would still fit; not above 0 if it was left."""
        if self.least > self.most:
            return math.inf
        if self.pole is None and self.low < 0 < self.high:
            used = max(self.most / self.high, self.least / self.low)
        elif self.pole is None:
            middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
            used = max(self.most - middle, middle - self.least) / half
        elif self.least <= self.pole:
            return -math.inf
        else:
            used = max(
                (self.most - self.pole) / (self.high - self.pole),
                (self.low - self.pole) / (self.least - self.pole),
            )
        return -math.log2(used) if used > 0 else math.inf

    @property
    def left(self) -> bool:
        """Whether a value was outside."""
        return self.least < self.low or self.most >= self.high

    @property
    def reached(self) -> float:
        """The value that came closest to an end, or went furthest beyond."""
        ends = (replace(self, most=self.least), replace(self, least=self.most))
        return min(ends, key=lambda end: end.bits).least

    @property
    def tensor(self) -> str:
        """A name for people."""
        return f"{self.op} (step {self.step})"

    def __str__(self) -> str:
        return (
            f"{self.tensor} in scope {self.scope or '(top)'!r} reaches "
            f"{self.reached:.6g} in a range of {self.low:.6g} to {self.high:.6g}"
        )


@dataclass(frozen=True)
class Simulated:
    """The result and how close to their bounds the values came."""

    result: Any
    headroom: tuple[Headroom, ...]
    broken: bool
    """Whether a value that left its range reached an answer."""

    @property
    def tightest(self) -> Headroom:
        """The place that came closest to the end of its range."""
        return min(self.headroom, key=lambda h: h.bits)

    def check(self) -> Self:
        """Itself; raises CapacityError if its answer would be wrong on shares."""
        if not self.broken:
            return self
        first = next((h for h in self.headroom if h.left), None) or self.tightest
        raise CapacityError(
            f"{first}: on shares the result would be silently wrong. Calibrate with "
            f"inputs like this one, or raise the profile's margin."
        )


def simulate(
    plan: Plan, arguments: Sequence[Any], *, seed: int | None = None
) -> Simulated:
    """Run a plan once on plain integers; for many runs make a ``Simulator``.

    Raises CapacityError if a value that leaves its range reaches the result.
    """
    return Simulator(plan)(arguments, seed=seed).check()


@dataclass(frozen=True)
class Place:
    """Where integers have to satisfy low <= x < high: in a step, for an ulp."""

    step: int
    low: float
    high: float
    ulp: float = 1.0
    pole: float | None = None
    hidden: float | None = None
    """Integers up to this, if they are in range, stand for what a mask hides."""

    @classmethod
    def of(cls, step: int, kind: FxpType) -> Self:
        """Where a value has to stay below its type's limit."""
        return cls(step, -kind.limit, kind.limit, kind.ulp)


class Simulator:
    """A plan, jitted: call it on arguments of the plan's shapes.

    Weights are rounded once, as long as they are the very same arrays.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._places: list[Place] = []
        self._run = jax.jit(self._trace, static_argnames="noisy")
        self._enter = jax.jit(self._entered)
        self._weights: tuple[list[Any], Any, Any] | None = None

    def __call__(
        self, arguments: Sequence[Any], *, seed: int | None = None
    ) -> Simulated:
        """Simulate. Refuses inputs that could not be shared; look at ``broken``."""
        leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(tuple(arguments))]
        for leaf in leaves:
            dtype_of(leaf, "An argument")
        shapes = [given.shape for given in self.plan.inputs]
        if [leaf.shape for leaf in leaves] != shapes:
            raise SetupError(
                f"The plan takes arrays of shapes {shapes}, got "
                f"{[leaf.shape for leaf in leaves]}."
            )
        with jax.enable_x64(True):
            key = jax.random.key(seed or 0)
            weights, weight_tops = self._held_weights(leaves)
            others = [
                None if given.role == "weight" else leaf
                for given, leaf in zip(self.plan.inputs, leaves, strict=True)
            ]
            outputs, ends, lost, tops = self._run(
                weights, others, key, noisy=seed is not None
            )
        self._check_inputs({**weight_tops, **tops})
        headroom = tuple(
            self._headroom(place, float(least), float(most))
            for place, (least, most) in zip(self._places, np.asarray(ends), strict=True)
        )
        shown = [
            x
            for x, output in zip(outputs, self.plan.outputs, strict=True)
            if not output.kept
        ]
        broken = bool(lost) or any(bool(np.isnan(x).any()) for x in shown)
        results = [
            _typed(x, output.dtype)
            for x, output in zip(outputs, self.plan.outputs, strict=True)
        ]
        return Simulated(self.plan.arrange(results), headroom, broken)

    def _headroom(self, place: Place, least: float, most: float) -> Headroom:
        step = self.plan.steps[place.step]
        pole = None if place.pole is None else place.pole * place.ulp
        seen, taken = (least, most), (place.low, place.high)
        least, most, low, high = (x * place.ulp for x in (*seen, *taken))
        return Headroom(place.step, step.op, step.scope, least, most, low, high, pole)

    def _held_weights(self, leaves: list[Any]) -> tuple[Any, Any]:
        """The weights as integers, and the largest of each."""
        given = [
            leaf if given.role == "weight" else None
            for given, leaf in zip(self.plan.inputs, leaves, strict=True)
        ]
        known = self._weights
        if known is None or any(
            a is not b for a, b in zip(known[0], given, strict=True)
        ):
            known = (given, *self._enter(given))
            self._weights = known
        return known[1:]

    def _entered(self, leaves: list[Any]) -> tuple[dict[int, Any], dict[int, Any]]:
        held = enter(self.plan, leaves)
        secret = [v for v in held if self.plan.values[v].kind == "shared"]
        return held, {v: _largest(held[v], lost=jnp.inf) for v in secret}

    def _check_inputs(self, largest: dict[int, Any]) -> None:
        names = {v: given.name for given in self.plan.inputs for v in given.forms}
        for v, top in largest.items():
            kind = self.plan.values[v].fxp
            if not float(top) < kind.limit:
                reached = math.ldexp(float(top), -kind.frac)
                raise CapacityError(
                    f"Input {names[v]} reaches {reached:.6g}, but {kind} holds "
                    f"|value| < {kind.max_value:.6g}. Calibrate with inputs like this "
                    f"one."
                )

    def _trace(self, weights: Any, leaves: list[Any], key: Any, *, noisy: bool) -> Any:
        machine = Machine(self.plan, key if noisy else None)
        others, tops = self._entered(leaves)
        held = machine.run({**weights, **others})
        outputs = [machine.opened(held, output) for output in self.plan.outputs]
        self._places = machine.places
        return outputs, _stack(machine.ends), machine.lost, tops


def _stack(pairs: list[Any]) -> Any:
    return jnp.stack(pairs) if pairs else jnp.zeros((0, 2))


def _typed(x: Any, dtype: str) -> Any:
    """A result as the function gives it; what was lost is 0 among integers."""
    array = np.asarray(x)
    if np.dtype(dtype).kind != "f":
        array = np.nan_to_num(array)
    return array.astype(dtype)


def _largest(x: Any, lost: float = 0.0) -> Any:
    return jnp.max(jnp.abs(jnp.where(jnp.isnan(x), lost, x)), initial=0.0)


def _ends(x: Any) -> Any:
    """The least and the largest of what is not lost."""
    lost = jnp.isnan(x)
    least = jnp.min(jnp.where(lost, jnp.inf, x), initial=jnp.inf)
    most = jnp.max(jnp.where(lost, -jnp.inf, x), initial=-jnp.inf)
    return jnp.stack([least, most])


def _counted(x: Any, place: Place) -> Any:
    """The elements that say how far values go: not those that stand for hidden ones."""
    if place.hidden is None:
        return x
    return jnp.where((x >= place.low) & (x <= place.hidden), jnp.nan, x)


def enter(plan: Plan, leaves: Sequence[Any]) -> dict[int, Any]:
    """The integers of all inputs but those that are None, in all their forms."""
    return {
        v: _form(leaf, plan.values[v], given)
        for given, leaf in zip(plan.inputs, leaves, strict=True)
        if leaf is not None
        for v in given.forms
    }


def _form(leaf: Any, value: Value, given: Input) -> Any:
    if value.type is None:
        return jnp.asarray(leaf, given.dtype)
    if is_indices(given, value):
        return jnp.asarray(leaf, jnp.int32)
    return jnp.rint(jnp.asarray(leaf, jnp.float64) * 2.0**value.type.frac)


@dataclass(frozen=True)
class Call:
    """A native step with the integers of its operands."""

    index: int
    step: Step
    xs: list[Any]
    kinds: list[Value]
    out: Value


class Machine:
    """Runs steps on integers in float64. ``held`` maps values to arrays."""

    def __init__(self, plan: Plan, key: Any = None) -> None:
        self.plan = plan
        self._key = key
        self.places: list[Place] = []
        """Where values have to stay in a range, in order."""
        self.ends: list[Any] = []
        """The least and the largest integer at each place."""
        self.lost: Any = jnp.asarray(False)
        """Whether a value left its range where what depends on it is not followed."""

    def run(self, given: dict[int, Any]) -> dict[int, Any]:
        """All values of the plan, from those of its inputs (``enter``)."""
        held = dict(given)
        for i, step in enumerate(self.plan.steps):
            operands = [held[v] for v in step.inputs]
            held |= zip(step.outputs, self.step(i, step, operands), strict=True)
        return held

    def opened(self, held: dict[int, Any], output: Output) -> Any:
        """A result as the client sees it, or as the parties keep it."""
        kind = self.plan.values[output.value].type
        makers = (i for i, s in enumerate(self.plan.steps) if output.value in s.outputs)
        maker = next(makers, None)
        if kind is None or maker is None or output.kept:
            return self.real(held, output.value)
        whole = float(2 * kind.limit)
        place = Place(maker, -whole, whole, kind.ulp)
        return self._within(held[output.value], place) * kind.ulp

    def real(self, held: dict[int, Any], v: int) -> Any:
        """A value as numbers."""
        kind = self.plan.values[v].type
        return held[v] if kind is None else held[v] * 2.0**-kind.frac

    def step(self, i: int, step: Step, operands: list[Any]) -> list[Any]:
        """The results of one step."""
        values = self.plan.values
        kinds = [values[v] for v in step.inputs]
        outs = [values[v] for v in step.outputs]
        if step.op == "region":
            return self._region(i, step, operands, kinds, outs)
        call = Call(i, step, operands, kinds, outs[0])
        return [getattr(self, f"_{step.op}")(call)]

    def _constant(self, call: Call) -> Any:
        return jnp.asarray(self.plan.constants[call.step.params["index"]])

    def _public(self, call: Call) -> Any:
        return evaluate(call.step.params["op"], call.step.params["with"], call.xs)

    def _at(self, x: Any, held: Value, kind: FxpType) -> Any:
        """Integers at the frac of ``kind``: shares shift left, numbers are rounded."""
        if held.type is None:
            return jnp.rint(jnp.asarray(x, jnp.float64) * 2.0**kind.frac)
        return x * 2.0 ** (kind.frac - held.type.frac)

    def _embed(self, call: Call) -> Any:
        return self._at(call.xs[0], call.kinds[0], call.out.fxp)

    def _add(self, call: Call) -> Any:
        a, b = (
            self._at(x, k, call.out.fxp)
            for x, k in zip(call.xs, call.kinds, strict=True)
        )
        return a + b

    def _sub(self, call: Call) -> Any:
        a, b = (
            self._at(x, k, call.out.fxp)
            for x, k in zip(call.xs, call.kinds, strict=True)
        )
        return a - b

    def _neg(self, call: Call) -> Any:
        return -call.xs[0]

    def _select(self, call: Call) -> Any:
        which, *cases = call.xs
        moved = [
            jnp.broadcast_to(self._at(x, k, call.out.fxp), call.out.shape)
            for x, k in zip(cases, call.kinds[1:], strict=True)
        ]
        chosen = jnp.broadcast_to(jnp.asarray(which, jnp.int32), call.out.shape)
        return jnp.choose(chosen, moved, mode="clip")

    def _retag(self, call: Call) -> Any:
        return call.xs[0]

    def _local(self, call: Call) -> Any:
        moved = [
            x if k.type is None else self._at(x, k, call.out.fxp)
            for x, k in zip(call.xs, call.kinds, strict=True)
        ]
        op, params = call.step.params["op"], call.step.params["with"]
        if op == "within":
            ulp = call.out.fxp.ulp
            low, high = params["low"] / ulp, params["high"] / ulp
            return self._within(moved[0], Place(call.index, low, high, ulp))
        return evaluate(op, params, moved, np.float64)

    def _factor(self, step: Step, xs: Any, kinds: Any) -> Any:
        scale = FxpType(32, step.params["frac"])
        return [
            self._at(x, k, scale) if k.type is None else x
            for x, k in zip(xs, kinds, strict=True)
        ]

    def _scale(self, call: Call) -> Any:
        a, b = self._factor(call.step, call.xs, call.kinds)
        public = a if call.kinds[0].type is None else b
        return jnp.where(public == 0, 0.0, a * b)  # of whatever is shared

    def _contract(self, call: Call) -> Any:
        return jnp.einsum(
            call.step.params["subscripts"],
            *self._factor(call.step, call.xs, call.kinds),
        )

    def _combine(self, call: Call) -> Any:
        terms = zip(call.step.params["coefficients"], call.xs, strict=True)
        return sum(float(c) * x for c, x in terms) + float(call.step.params["bias"])

    def _recast(self, call: Call) -> Any:
        source, target = call.kinds[0].fxp, call.out.fxp
        if call.step.params["casts"] == "paper" and target.bits < source.bits:
            return jnp.floor(call.xs[0] * 2.0 ** (target.frac - source.frac)) - 1
        return self._convert(call.index, call.xs[0], source, target)

    def _multiply(self, call: Call) -> Any:
        return self._product(call.index, call.xs[0] * call.xs[1], call.kinds, call.out)

    def _einsum(self, call: Call) -> Any:
        z = jnp.einsum(call.step.params["subscripts"], *call.xs)
        return self._product(call.index, z, call.kinds, call.out)

    def _lookup(self, call: Call) -> Any:
        ids, table = call.xs
        return self._convert(call.index, table[ids], call.kinds[1].fxp, call.out.fxp)

    def _maximum(self, call: Call) -> Any:
        grid = grid_of(call.step, call.out.fxp)
        # a level may come out one higher: the last step of the grid is not to be used
        top = grid.low + ((grid.levels - 1) << grid.cut)
        hidden = call.step.params["hidden"]
        place = Place(call.index, grid.low, top, call.out.fxp.ulp, hidden=hidden)
        x = self._within(call.xs[0], place)
        level = jnp.floor((x - grid.low) * 2.0**-grid.cut)
        if self._key is not None:
            level = level + 1 - self._draw(call.index, level.shape).round()
        return jnp.max(level, axis=-1) * 2.0**grid.cut + grid.low

    def _curve(self, call: Call) -> Any:
        shape = curve_of(call.step, call.kinds[0].fxp, call.out.fxp)
        last = shape.scales[-1]
        top = shape.low + ((last.cells - 1) << last.cut)
        place = Place(call.index, shape.low, top, shape.source.ulp, shape.pole)
        y = curve_values(shape, self._within(call.xs[0], place))
        return jnp.rint(y * 2.0**call.out.fxp.frac)

    def _within(self, x: Any, place: Place) -> Any:
        """x, without the elements that are outside."""
        self.places.append(place)
        self.ends.append(_ends(_counted(x, place)))
        return jnp.where((x >= place.low) & (x < place.high), x, jnp.nan)

    def _watch(self, x: Any, place: Place) -> None:
        """Note that x was outside, where it cannot be followed further."""
        self._within(x, place)
        least, most = self.ends[-1]
        self.lost |= (least < place.low) | (most >= place.high) | jnp.isnan(x).any()

    def _draw(self, i: int, shape: tuple[int, ...]) -> Any:
        key = jax.random.fold_in(self._key, i)
        return jax.random.uniform(key, shape, jnp.float64)

    def _product(self, i: int, z: Any, kinds: Any, out: Value) -> Any:
        source = product_type(*(k.fxp for k in kinds))
        return self._convert(i, z, source, out.fxp)

    def _convert(self, i: int, x: Any, source: FxpType, target: FxpType) -> Any:
        if source == target:
            return x
        conversion = Conversion(source, target)
        if conversion.carry_width:
            x = self._within(x, Place.of(i, source))
        if conversion.cut:
            scaled = x * 2.0**-conversion.cut
            if self._key is None:
                x = jnp.rint(scaled)
            else:
                x = jnp.floor(scaled - self._draw(i, x.shape)) + 1
        return x * 2.0**conversion.lift

    def _region(
        self,
        index: int,
        step: Step,
        xs: list[Any],
        kinds: list[Value],
        outs: list[Value],
    ) -> list[Any]:
        region = self.plan.regions[step.params["region"]]
        for x, kind in zip(xs, kinds, strict=True):
            if kind.type is not None:
                self._watch(x, Place.of(index, kind.type))
        results, watched = run_region(region.graph, region.bits, xs, kinds)
        for x, low, high in watched:
            self._watch(x, Place(index, low, high))
        return [
            self._leave(y, node, out)
            for y, node, out in zip(
                results,
                (region.graph.nodes[i] for i in region.graph.outputs),
                outs,
                strict=True,
            )
        ]

    @staticmethod
    def _leave(y: Any, node: Node, out: Value) -> Any:
        if out.type is None:
            return y
        real = node.dtype == "float32"
        y = jnp.asarray(y, jnp.float64)
        return jnp.rint(y * 2.0**out.type.frac) if real else y


def curve_values(shape: Curve, x: Any) -> Any:
    """The function of a curve, of integers."""
    y = shape.factor * x * shape.source.ulp + shape.summand
    return 1 / (y if shape.function == "reciprocal" else jnp.sqrt(y))


SPU_RANGE = FxpType(bits=36, frac=18)
"""What SPU's functions take: beyond 2^16 they are silently wrong."""
_DELICATE = frozenset(
    [
        "acosh",
        "asinh",
        "atan2",
        "div",
        "erf",
        "erfc",
        "exp",
        "log",
        "log1p",
        "logistic",
        "pow",
        "reciprocal",
        "rsqrt",
        "sqrt",
        "tanh",
    ]
)


_PRODUCTS = frozenset(
    [
        "conv_general_dilated",
        "cumprod",
        "dot_general",
        "integer_pow",
        "mul",
        "reduce_prod",
        "square",
    ]
)
"""What SPU truncates after it has twice the fraction bits."""
_EXP_LIMIT = {"exp": 5.0, "expm1": 5.0, "exp2": 7.0, "sinh": 5.0, "cosh": 5.0}
"""Arguments from which on SPU's (1 + x / 256)^256 is off by more than a twentieth."""


def run_region(
    graph: Graph, bits: int, xs: list[Any], kinds: list[Value]
) -> tuple[list[Any], list[tuple[Any, float, float]]]:
    """A region on numbers: integers exactly, real ones rounded after each operation.

    Also what SPU computes silently wrong beyond some range, with that range: arguments
    of functions, products before they are truncated, and integers that are shifted to
    meet others in the low ring.
    """
    frac = FXP_FRAC[64 if bits == 64 else 32]
    given = []
    for x, kind, i in zip(xs, kinds, graph.inputs, strict=True):
        real = kind.type is not None and graph.nodes[i].dtype == "float32"
        given.append(x * 2.0**-frac if real else x)

    def settle(node: Node, value: Any) -> Any:
        if node.dtype != "float32":
            return value
        return jnp.rint(value * 2.0**frac) * 2.0**-frac

    values: dict[int, Any] = dict(walk(graph, given, real=np.float64, settle=settle))
    limits: dict[tuple[float, float], list[Any]] = {}

    def watch(x: Any, high: float, low: float | None = None) -> None:
        limits.setdefault((-high if low is None else low, high), []).append(x)

    function, product = SPU_RANGE.max_value, 2.0 ** (bits - 2 - 2 * frac)
    for i, node in enumerate(graph.nodes):
        operands = [values[u] for u in node.inputs]
        if node.op in _EXP_LIMIT and bits == 64:
            low = -_EXP_LIMIT[node.op] if node.op in ("sinh", "cosh") else -function
            watch(operands[0], _EXP_LIMIT[node.op], low)
        elif node.op in _DELICATE and bits == 64:
            for x in operands:
                watch(x, function)
        elif node.op in _PRODUCTS and node.dtype == "float32":
            watch(values[i], product)
        elif node.op == "mul" and bits == 32:
            watch(values[i], 2.0**30)
    watched = [
        (_stack([_ends(jnp.asarray(x, jnp.float64)) for x in found if x.size]), *ends)
        for ends, found in limits.items()
    ]
    return [values[i] for i in graph.outputs], watched
