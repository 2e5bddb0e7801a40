"""A party runs a plan: native steps and SPU regions, in order."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from ditto.compiler.graph import abstract, run
from ditto.compiler.operations import evaluate
from ditto.compiler.plan import (
    TASKS,
    Plan,
    Region,
    Step,
    Value,
    curve_of,
    grid_of,
)
from ditto.engine import FXP_FRAC, Public, Runtimes, Session, compile_region
from ditto.engine import Region as Compiled
from ditto.errors import EngineError
from ditto.fixedpoint import FxpType, Words, encode
from ditto.protocols import (
    add,
    coarse_max,
    curve,
    lift,
    lookup,
    negate,
    product_type,
    subtract,
)
from ditto.protocols.kernels import ring_einsum_public
from ditto.protocols.multiply import contracting, multiplying
from ditto.protocols.paper import downcasting, upcasting
from ditto.protocols.party import Task
from ditto.protocols.recast import recasting
from ditto.sharing import Rank, Shared, SharedBits, pack_bits

Held = Any
"""What a party holds of a value: Shared, SharedBits, SharedIndices or public."""


@dataclass(frozen=True)
class Spent:
    """What one step cost one party."""

    bytes: int
    rounds: int
    seconds: float


def prepare(plan: Plan) -> list[Compiled]:
    """The plan's regions, compiled; each distinct one once in this process."""
    first = {s.params["region"]: s for s in reversed(plan.steps) if s.op == "region"}
    compiled = []
    for i, region in enumerate(plan.regions):
        public = tuple(plan.values[v].kind == "public" for v in first[i].inputs)
        compiled.append(compile_plan_region(_Hashed(region, public), first[i].scope))
    return compiled


class _Hashed:
    """A region as a key: equal if it computes the same."""

    def __init__(self, region: Region, public: tuple[bool, ...]) -> None:
        self.region, self.public = region, public
        self._key = (region.bits, public, region.graph.nodes_key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4096)
def compile_plan_region(key: _Hashed, scope: str) -> Compiled:
    """One region, for SPU."""
    graph, bits = key.region.graph, key.region.bits
    nodes = [graph.nodes[i] for i in graph.inputs]
    shapes = [abstract(n.shape, n.dtype) for n in nodes]

    def region(*arguments: Any) -> tuple[Any, ...]:
        return tuple(run(graph, arguments))

    return compile_region(
        region,
        shapes,
        bits=64 if bits == 64 else 32,
        name=scope or "plan",
        public=key.public,
    )


def execute(
    plan: Plan,
    session: Session,
    given: Mapping[int, Held],
    *,
    regions: Sequence[Compiled] | None = None,
    runtimes: Runtimes | None = None,
    on_step: Callable[[int], None] | None = None,
) -> tuple[list[Held], list[Spent]]:
    """Run the plan on what this party holds of its inputs, by value.

    Returns what it then holds of the outputs, and what every step cost. ``on_step`` is
    told the number of each step before it is taken.
    """
    machine = _Machine(plan, session, regions or prepare(plan), runtimes)
    return machine.run(dict(given), on_step or (lambda _: None))


def keep_weights(
    plan: Plan,
    regions: Sequence[Compiled],
    runtimes: Runtimes,
    given: Mapping[int, Held],
) -> None:
    """Bring the weights into SPU, to stay there, if the plan is one region."""
    if len(plan.regions) != 1:
        return
    weights = {v for x in plan.inputs if x.role == "weight" for v in x.forms}
    runtimes.keep(
        [
            (regions[step.params["region"]], k, given[v])
            for step in plan.steps
            if step.op == "region"
            for k, v in enumerate(step.inputs)
            if v in weights
        ]
    )


@dataclass(frozen=True)
class Call:
    """A step with what the party holds of its operands, and what it is to make."""

    step: Step
    operands: list[Held]
    outs: list[Value]


class _Machine:
    def __init__(
        self,
        plan: Plan,
        session: Session,
        regions: Sequence[Compiled],
        runtimes: Runtimes | None,
    ) -> None:
        self.plan, self.session, self.regions = plan, session, regions
        self.party, self.rank = session.party, session.party.rank
        self._runtimes = runtimes

    def run(
        self, held: dict[int, Held], on_step: Callable[[int], None]
    ) -> tuple[list[Held], list[Spent]]:
        spent, dying = [], self.plan.last_uses()
        if self.plan.regions and self._runtimes is None:
            self._runtimes = self.session.runtimes  # opening them is no step's cost
        for group in self.plan.groups():
            on_step(group[0])
            self._restart_clocks()
            if self.plan.steps[group[0]].op in TASKS:
                spent += self._together(group, held)
            else:
                spent.append(self._alone(group[0], held))
            for i in group:
                for v in dying[i]:
                    held.pop(v, None)
        return [held[output.value] for output in self.plan.outputs], spent

    def _call(self, i: int, held: dict[int, Held]) -> Call:
        step = self.plan.steps[i]
        outputs = [self.plan.values[v] for v in step.outputs]
        return Call(step, [held[v] for v in step.inputs], outputs)

    def _alone(self, i: int, held: dict[int, Held]) -> Spent:
        started, before = time.perf_counter(), self._sent()
        step = self.plan.steps[i]
        results = getattr(self, f"_{step.op}")(self._call(i, held))
        held.update(zip(step.outputs, results, strict=True))
        seconds = time.perf_counter() - started
        return Spent(self._sent() - before, self._rounds(), seconds)

    def _together(self, group: list[int], held: dict[int, Held]) -> list[Spent]:
        """Steps in the rounds of the longest; the first is said to have taken them."""
        started = time.perf_counter()
        tasks, prepared = [], []
        for i in group:
            tasks.append(self._task(self._call(i, held)))
            prepared.append(time.perf_counter() - started)
            started = time.perf_counter()
        for i, result in zip(group, self.party.take_together(tasks), strict=True):
            (v,) = self.plan.steps[i].outputs
            held[v] = result
        common, sent = time.perf_counter() - started, self.party.sent
        weights = sent if any(sent) else [1] * len(sent)
        return [
            Spent(n, 0 if k else self._rounds(), own + common * part / sum(weights))
            for k, (n, own, part) in enumerate(
                zip(sent, prepared, weights, strict=True)
            )
        ]

    def _task(self, call: Call) -> Task[Shared]:
        (out,), params = call.outs, call.step.params
        if call.step.op == "recast":
            (x,) = call.operands
            if params["casts"] == "paper":
                upward = out.fxp.bits > x.type.bits
                return (upcasting if upward else downcasting)(x, out.fxp)
            return recasting(x, out.fxp, params["rounds"])
        x, y = call.operands
        to = _target(x, y, out)
        if call.step.op == "multiply":
            return multiplying(x, y, to, params["rounds"])
        return contracting(params["subscripts"], x, y, to, params["rounds"])

    def _sent(self) -> int:
        sent = (
            self.party.channel.traffic().bytes + self.session.spu_link.traffic().bytes
        )
        return int(sent)

    def _restart_clocks(self) -> None:
        self.party.channel.restart_clock()
        self.session.spu_link.restart_clock()

    def _rounds(self) -> int:
        native = self.party.channel.traffic().rounds
        return int(native + self.session.spu_link.traffic().rounds)

    # Public values

    def _constant(self, call: Call) -> list[Held]:
        return [self.plan.constants[call.step.params["index"]]]

    def _public(self, call: Call) -> list[Held]:
        values = [jnp.asarray(x) for x in call.operands]
        result = evaluate(call.step.params["op"], call.step.params["with"], values)
        return [np.asarray(result)]

    def _embed(self, call: Call) -> list[Held]:
        out = call.outs[0]
        values = np.asarray(call.operands[0]).reshape(out.shape)
        return [self._trivial(values, out.fxp)]

    # Linear steps: no message

    def _add(self, call: Call) -> list[Held]:
        x, y = self._aligned(call.operands, call.outs[0].fxp)
        return [add(x, y)]

    def _sub(self, call: Call) -> list[Held]:
        x, y = self._aligned(call.operands, call.outs[0].fxp)
        return [subtract(x, y)]

    def _aligned(self, operands: list[Held], kind: FxpType) -> list[Shared]:
        """Shares at one frac; public summands as shares of themselves."""
        return [
            lift(x, frac=kind.frac) if isinstance(x, Shared) else self._trivial(x, kind)
            for x in operands
        ]

    def _trivial(self, values: Any, kind: FxpType) -> Shared:
        """Shares of public numbers: share 0 is the number, the others are nothing."""
        integers = encode(values, kind, name="public value")
        return Shared(*self._as_share_0(integers), kind)

    def _as_share_0(self, words: Words) -> tuple[Words, Words]:
        nothing = np.zeros_like(words)
        first = words if self.rank == Rank.P0 else nothing
        return first, words if self.rank == Rank.P2 else nothing

    def _neg(self, call: Call) -> list[Held]:
        return [negate(call.operands[0])]

    def _select(self, call: Call) -> list[Held]:
        which, *cases = call.operands
        out = call.outs[0]
        shares = self._aligned(cases, out.fxp)
        public = np.asarray(which)

        def choose(side: str) -> Words:
            parts = [getattr(s, side) for s in shares]
            if len(parts) == 2:
                chosen = np.where(public.astype(np.bool_), parts[1], parts[0])
                return np.broadcast_to(chosen, out.shape)
            wide = [np.broadcast_to(part, out.shape) for part in parts]
            choices = np.broadcast_to(public.astype(np.int64), out.shape)
            return np.choose(choices, wide)

        return [Shared(choose("first"), choose("second"), out.fxp)]

    def _retag(self, call: Call) -> list[Held]:
        x = call.operands[0]
        return [Shared(x.first, x.second, call.outs[0].fxp)]

    def _local(self, call: Call) -> list[Held]:
        kind = call.outs[0].fxp
        given = [
            lift(x, frac=kind.frac) if isinstance(x, Shared) else x
            for x in call.operands
        ]
        op, params = call.step.params["op"], call.step.params["with"]

        def side(name: str) -> Words:
            arrays = [getattr(x, name) if isinstance(x, Shared) else x for x in given]
            return kind.ring.reduce(local(op, params, arrays, call.outs[0].shape))

        return [Shared(side("first"), side("second"), kind)]

    def _scale(self, call: Call) -> list[Held]:
        x, factor = _secret_first(call.operands)
        integers = self._factor(factor, call.step.params["frac"])

        def times(share: Words) -> Words:
            return np.asarray(np.multiply(share, integers))

        scaled = x.map(times)
        return [Shared(scaled.first, scaled.second, call.outs[0].fxp)]

    def _contract(self, call: Call) -> list[Held]:
        kind, text = call.outs[0].fxp, call.step.params["subscripts"]
        secret_first = isinstance(call.operands[0], Shared)
        x, factor = _secret_first(call.operands)
        integers = self._factor(factor, call.step.params["frac"])

        def times(share: Words) -> Words:
            pair = (share, integers) if secret_first else (integers, share)
            return ring_einsum_public(text, *pair, kind.ring)

        return [Shared(times(x.first), times(x.second), kind)]

    def _factor(self, values: Any, frac: int) -> Words:
        return encode(values, FxpType(32, frac), name="public factor")

    def _combine(self, call: Call) -> list[Held]:
        kind = call.outs[0].fxp
        weights = [kind.ring.scalar(c) for c in call.step.params["coefficients"]]

        def total(side: str, holds_bias: bool) -> Words:
            bias = call.step.params["bias"] if holds_bias else 0
            result: Any = np.full(call.outs[0].shape, kind.ring.scalar(bias))
            for weight, x in zip(weights, call.operands, strict=True):
                result = np.add(result, np.multiply(getattr(x, side), weight))
            return cast(Words, result)

        first = total("first", self.rank == Rank.P0)
        return [Shared(first, total("second", self.rank == Rank.P2), kind)]

    # Steps that talk

    def _lookup(self, call: Call) -> list[Held]:
        indices, table = call.operands
        kind = call.outs[0].fxp
        to = None if table.type == kind else kind
        return [lookup(self.party, indices, table, to, call.step.params["rounds"])]

    def _maximum(self, call: Call) -> list[Held]:
        (x,) = call.operands
        grid = grid_of(call.step, x.type)
        found = coarse_max(self.party, x, grid, call.step.params["rounds"])
        return [found.map(lambda share: share.reshape(call.outs[0].shape))]

    def _curve(self, call: Call) -> list[Held]:
        (x,) = call.operands
        shape = curve_of(call.step, x.type, call.outs[0].fxp)
        return [curve(self.party, x, shape, call.step.params["rounds"])]

    # SPU

    def _region(self, call: Call) -> list[Held]:
        region = self.regions[call.step.params["region"]]
        given = [
            _public_for(x, region.bits) if isinstance(x, np.ndarray) else x
            for x in call.operands
        ]
        if self._runtimes is None:
            raise TypeError("The runtimes are opened before the first call.step.")
        results = self._runtimes.run(region, given)
        return [
            self._settle(r, out, call.step)
            for r, out in zip(results, call.outs, strict=True)
        ]

    def _settle(self, result: Any, out: Value, step: Step) -> Held:
        """What left SPU, in the type the plan gave it."""
        if out.kind == "bits":
            if isinstance(result, SharedBits):
                return result
            if isinstance(result, Public):
                bits = pack_bits(result.integers.astype(np.bool_))
                return SharedBits(*self._as_share_0(bits), out.shape)
        elif isinstance(result, Shared):
            return Shared(result.first, result.second, out.fxp)
        elif isinstance(result, Public):
            return Shared(*self._as_share_0(result.integers), out.fxp)
        raise EngineError(
            f"SPU left {type(result).__name__} in scope {step.scope!r} where the plan "
            f"has {out}.",
            operation="region",
            scope=step.scope,
        )


def local(
    op: str, params: Mapping[str, Any], arrays: Sequence[Any], shape: tuple[int, ...]
) -> Words:
    """A linear operation on the integers of one share."""
    x = arrays[0]
    match op:
        case "within":
            return cast(Words, x)
        case "reshape" | "squeeze" | "expand_dims":
            return cast(Words, x.reshape(shape))
        case "transpose":
            return cast(Words, x.transpose(params["permutation"]))
        case "broadcast_in_dim":
            inner = [1] * len(shape)
            for size, axis in zip(x.shape, params["broadcast_dimensions"], strict=True):
                inner[axis] = size
            return np.broadcast_to(x.reshape(inner), shape)
        case "concatenate":
            return np.concatenate(arrays, params["dimension"])
        case "reduce_sum":
            axes = tuple(params["axes"])
            return cast(Words, x.sum(axis=axes, dtype=x.dtype).reshape(shape))
        case "slice":
            steps = params["strides"] or [1] * len(shape)
            index = tuple(
                slice(a, b, c)
                for a, b, c in zip(
                    params["start_indices"], params["limit_indices"], steps, strict=True
                )
            )
            return cast(Words, x[index])
    signed = [
        jnp.asarray(a.view(np.int32) if a.dtype == np.uint32 else a)
        for a in (np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays)
    ]
    return np.asarray(evaluate(op, params, signed)).view(np.uint32)


def _public_for(values: Any, bits: int) -> Any:
    if values.dtype == np.bool_:
        integers = values.astype(f"uint{bits}")
        return Public(integers, FxpType(bits, 0))
    real = values.dtype.kind == "f"
    kind = FxpType(bits, FXP_FRAC[64 if bits == 64 else 32] if real else 0)
    return Public(encode(values, kind, name="public value"), kind)


def _secret_first(operands: list[Held]) -> tuple[Shared, Any]:
    x, y = operands
    return (x, y) if isinstance(x, Shared) else (y, x)


def _target(x: Shared, y: Shared, out: Value) -> FxpType | None:
    return None if product_type(x.type, y.type) == out.type else out.type
