"""The same plan on plain integers, with the same rounding, on one machine.

Integers are held in float64, which is exact far beyond the 30 bits of a legal value, so
an overflow is seen and not wrapped: it is an error that names the tensor. A recast
rounds to nearest, or with a seed as the protocol does, up or down at random.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.compiler.graph import Graph, Node, walk
from ditto.compiler.operations import evaluate
from ditto.compiler.plan import (
    Input,
    Plan,
    Step,
    Value,
    curve_of,
    grid_of,
    is_indices,
)
from ditto.engine import FXP_FRAC
from ditto.errors import CapacityError, SetupError
from ditto.fixedpoint import FxpType
from ditto.protocols import Curve, product_type
from ditto.protocols.recast import Conversion


@dataclass(frozen=True)
class Headroom:
    """How far the largest value of a tensor stayed from the bound of its type."""

    step: int
    op: str
    scope: str
    type: FxpType
    largest: float

    @property
    def bits(self) -> float:
        """Doublings that would still fit; below 0 it has overflowed."""
        if self.largest == 0:
            return math.inf
        if not math.isfinite(self.largest):
            return -math.inf
        return math.log2(self.type.max_value / self.largest)

    @property
    def tensor(self) -> str:
        """A name for people."""
        return f"{self.op} (step {self.step})"


@dataclass(frozen=True)
class Simulated:
    """The result and how close to their bounds the values came."""

    result: Any
    headroom: tuple[Headroom, ...]

    @property
    def tightest(self) -> Headroom:
        """The tensor that came closest to its bound."""
        return min(self.headroom, key=lambda h: h.bits)


def simulate(
    plan: Plan, arguments: Sequence[Any], *, seed: int | None = None
) -> Simulated:
    """Run a plan once on plain integers; for many runs make a ``Simulator``."""
    return Simulator(plan)(arguments, seed=seed)


class Simulator:
    """A plan, jitted: call it on arguments of the plan's shapes.

    Weights are rounded once, as long as they are the very same arrays.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._peaks: list[tuple[int, FxpType]] = []
        self._run = jax.jit(self._trace, static_argnames="noisy")
        self._enter = jax.jit(self._entered)
        self._weights: tuple[list[Any], Any, Any] | None = None

    def __call__(
        self, arguments: Sequence[Any], *, seed: int | None = None
    ) -> Simulated:
        """Simulate; raises CapacityError if any value leaves its type's range."""
        leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(tuple(arguments))]
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
            outputs, largest, tops = self._run(
                weights, others, key, noisy=seed is not None
            )
        self._check_inputs({**weight_tops, **tops})
        headroom = tuple(
            self._headroom(i, kind, float(top))
            for (i, kind), top in zip(self._peaks, np.asarray(largest), strict=True)
        )
        for found in headroom:
            if found.bits <= 0:
                raise CapacityError(
                    f"{found.tensor} in scope {found.scope or '(top)'!r} reaches "
                    f"{found.largest:.6g}, but {found.type} holds |value| < "
                    f"{found.type.max_value:.6g}: on shares the result would be "
                    f"silently wrong. Calibrate with inputs like this one, or raise "
                    f"the profile's margin."
                )
        results = [
            np.asarray(x).astype(output.dtype)
            for x, output in zip(outputs, self.plan.outputs, strict=True)
        ]
        return Simulated(self.plan.arrange(results), headroom)

    def _headroom(self, i: int, kind: FxpType, largest: float) -> Headroom:
        step = self.plan.steps[i]
        real = math.ldexp(largest, -kind.frac)
        return Headroom(i, step.op, step.scope, kind, real)

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
        return held, {v: _largest(held[v]) for v in secret}

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
        outputs = [machine.real(held, output.value) for output in self.plan.outputs]
        peaks = [top for *_, top in machine.peaks]
        self._peaks = [(i, kind) for i, kind, _ in machine.peaks]
        return outputs, _stack(peaks), tops


def _stack(numbers: list[Any]) -> Any:
    return jnp.stack(numbers) if numbers else jnp.zeros(0)


def _largest(x: Any) -> Any:
    return jnp.max(jnp.abs(x), initial=0.0)


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
        self.peaks: list[tuple[int, FxpType, Any]] = []
        """The largest integer of every result, and of products before their recast."""

    def run(self, given: dict[int, Any]) -> dict[int, Any]:
        """All values of the plan, from those of its inputs (``enter``)."""
        held = dict(given)
        for i, step in enumerate(self.plan.steps):
            operands = [held[v] for v in step.inputs]
            for v, x in zip(step.outputs, self.step(i, step, operands), strict=True):
                held[v] = x
                kind = self.plan.values[v].type
                if kind is not None:
                    self.peaks.append((i, kind, _largest(x)))
        return held

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
        return evaluate(
            call.step.params["op"], call.step.params["with"], moved, np.float64
        )

    def _factor(self, step: Step, xs: Any, kinds: Any) -> Any:
        scale = FxpType(32, step.params["frac"])
        return [
            self._at(x, k, scale) if k.type is None else x
            for x, k in zip(xs, kinds, strict=True)
        ]

    def _scale(self, call: Call) -> Any:
        a, b = self._factor(call.step, call.xs, call.kinds)
        return a * b

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
        half = (grid.levels << grid.cut) / 2
        self._watch(call.index, _largest(call.xs[0] - grid.low - half) / half)
        level = jnp.floor((call.xs[0] - grid.low) * 2.0**-grid.cut)
        if self._key is not None:
            level = level + 1 - self._draw(call.index, level.shape).round()
        return jnp.max(level, axis=-1) * 2.0**grid.cut + grid.low

    def _curve(self, call: Call) -> Any:
        shape = curve_of(call.step, call.kinds[0].fxp, call.out.fxp)
        x, last = call.xs[0], shape.scales[-1]
        top = shape.low + (last.cells << last.cut)
        above = x - shape.pole
        lowest = jnp.where(above > 0, (shape.low - shape.pole) / above, jnp.inf)
        far = (jnp.max(above) / (top - shape.pole), jnp.max(lowest))
        self._watch(call.index, jnp.maximum(*far))
        y = curve_values(shape, call.xs[0])
        return jnp.rint(y * 2.0**call.out.fxp.frac)

    def _watch(self, i: int, part: Any) -> None:
        """How much of the range of a table is used; beyond all of it is overflow."""
        self.peaks.append((i, _WHOLE, part * _WHOLE.limit))

    def _draw(self, i: int, shape: tuple[int, ...]) -> Any:
        key = jax.random.fold_in(self._key, i)
        return jax.random.uniform(key, shape, jnp.float64)

    def _product(self, i: int, z: Any, kinds: Any, out: Value) -> Any:
        source = product_type(*(k.fxp for k in kinds))
        self.peaks.append((i, source, _largest(z)))
        return self._convert(i, z, source, out.fxp)

    def _convert(self, i: int, x: Any, source: FxpType, target: FxpType) -> Any:
        if source == target:
            return x
        conversion = Conversion(source, target)
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
        results, widest, lifted = run_region(region.graph, region.bits, xs, kinds)
        if widest is not None:
            self.peaks.append((index, SPU_RANGE, widest * 2.0**SPU_RANGE.frac))
        if lifted is not None:
            self.peaks.append((index, FxpType(bits=32, frac=0), lifted))
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


_WHOLE = FxpType(bits=32, frac=30)
"""What a part of a range is held in: it holds less than one."""
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


def run_region(
    graph: Graph, bits: int, xs: list[Any], kinds: list[Value]
) -> tuple[list[Any], Any, Any]:
    """A region on numbers: integers exactly, real ones rounded after each operation.

    Also the largest argument of a function that SPU computes in a limited range, and
    the largest integer that is shifted to meet another in the low ring, where it could
    wrap.
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

    watched = {
        u for n in graph.nodes if n.op in _DELICATE and bits == 64 for u in n.inputs
    }
    lifts = [n for n in graph.nodes if n.op == "mul" and n.dtype == "int32"]
    if bits == 64:
        lifts = []
    kept = [*graph.outputs, *watched, *(u for n in lifts for u in n.inputs)]
    steps = walk(graph, given, keep=kept, real=np.float64, settle=settle)
    values: dict[int, Any] = dict(steps)
    widest = None
    if watched:
        widest = jnp.max(jnp.stack([_largest(values[u]) for u in sorted(watched)]))
    products = [math.prod(_top(values[u]) for u in n.inputs) for n in lifts]
    lifted = jnp.max(jnp.stack(products)) if products else None
    return [values[i] for i in graph.outputs], widest, lifted


def _top(x: Any) -> Any:
    return _largest(jnp.asarray(x, jnp.float64))
