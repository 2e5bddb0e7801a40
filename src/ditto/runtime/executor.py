"""A party runs a plan: native steps and SPU regions, in order."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np

from ditto.errors import EngineError
from ditto.fixedpoint import Array, FxpType, encode
from ditto.operations import abstract, run
from ditto.operations.spu import spu_frac
from ditto.plan import Plan, Region, Representation, Value
from ditto.runtime.session import Session
from ditto.runtime.spu.region import Region as Compiled
from ditto.runtime.spu.region import compile_region
from ditto.runtime.spu.runtimes import Runtimes
from ditto.runtime.spu.values import Public
from ditto.runtime.spu.values import Value as SpuValue
from ditto.sharing import Shared, SharedBits, SharedIndices, pack_bits
from ditto.steps import Batchable, Held, Runner, Site, definition
from ditto.steps.alignment import share_0


@dataclass(frozen=True)
class Spent:
    """What one step cost one party."""

    bytes: int
    rounds: int
    seconds: float


def prepare(plan: Plan) -> list[Compiled]:
    """The plan's regions, compiled; each distinct one once in this process."""
    sites = [Site.of(plan, i) for i in reversed(range(len(plan.steps)))]
    first = {definition(site.step).region_used(): site for site in sites}
    compiled = []
    for i, region in enumerate(plan.regions):
        public = tuple(value.is_public for value in first[i].operands)
        key = _Hashed(region, public)
        compiled.append(compile_plan_region(key, first[i].step.scope))
    return compiled


class _Hashed:
    """A region as a key: equal if it computes the same."""

    def __init__(self, region: Region, public: tuple[bool, ...]) -> None:
        self.region, self.public = region, public
        self._key = (region.bits, public, region.graph.key())

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

    def region(*arguments: jax.Array) -> tuple[jax.Array, ...]:
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
    inputs: Mapping[int, Held],
    *,
    regions: Sequence[Compiled] | None = None,
    runtimes: Runtimes | None = None,
    on_step: Callable[[int], None] | None = None,
) -> tuple[list[Held], list[Spent]]:
    """Run the plan on what this party holds of its inputs, by value.

    Returns what it then holds of the outputs, and what every step cost. ``on_step`` is
    called with the number of each step before it is taken.
    """
    compiled = prepare(plan) if regions is None else regions
    executor = _Executor(plan, session, compiled, runtimes)
    return executor.run(dict(inputs), on_step or (lambda _: None))


def keep_weights(
    plan: Plan,
    regions: Sequence[Compiled],
    runtimes: Runtimes,
    inputs: Mapping[int, Held],
) -> None:
    """Bring the weights into SPU, to stay there, if the plan is one region."""
    if len(plan.regions) != 1:
        return
    weights = plan.weights()
    runtimes.keep(
        [
            (regions[0], k, _for_spu(inputs[v], regions[0].bits))
            for step in plan.steps
            if definition(step).region_used() is not None
            for k, v in enumerate(step.inputs)
            if v in weights
        ]
    )


class _Executor(Runner):
    def __init__(
        self,
        plan: Plan,
        session: Session,
        regions: Sequence[Compiled],
        runtimes: Runtimes | None,
    ) -> None:
        self.plan, self.session, self.regions = plan, session, regions
        self.party = session.party
        self._runtimes = runtimes

    def run(
        self, held: dict[int, Held], on_step: Callable[[int], None]
    ) -> tuple[list[Held], list[Spent]]:
        spent, dying = [], self.plan.last_uses()
        self.party.range_word = 0  # of a run that failed
        if self.plan.regions and self._runtimes is None:
            self._runtimes = self.session.runtimes  # opening them is no step's cost
        for group in self.plan.round_groups():
            on_step(group[0])
            kind = self.plan.steps[group[0]].kind
            if kind.batchable:
                self._restart_clocks()
                spent += self._together(group, held)
            elif kind.interactive:
                self._restart_clocks()
                spent.append(self._alone(group[0], held))
            else:
                spent.append(Spent(0, 0, self._execute(group[0], held)))
            for i in group:
                for v in dying[i]:
                    held.pop(v, None)
        return [held[output.value] for output in self.plan.outputs], spent

    def _alone(self, i: int, held: dict[int, Held]) -> Spent:
        before = self._sent()
        seconds = self._execute(i, held)
        return Spent(self._sent() - before, self._rounds(), seconds)

    def _execute(self, i: int, held: dict[int, Held]) -> float:
        """One step by itself; the seconds that it took."""
        started = time.perf_counter()
        site = Site.of(self.plan, i)
        operands = [held[v] for v in site.step.inputs]
        results = definition(site.step).execute(site, operands, self)
        held.update(zip(site.step.outputs, results, strict=True))
        return time.perf_counter() - started

    def _together(self, group: list[int], held: dict[int, Held]) -> list[Spent]:
        """Steps in the rounds of the longest; the first is said to have taken them."""
        started = time.perf_counter()
        tasks, prepared = [], []
        for i in group:
            site = Site.of(self.plan, i)
            kind = site.step.kind
            if not isinstance(kind, Batchable):
                raise TypeError("Only batchable steps share their rounds.")
            tasks.append(kind.task(site, [held[v] for v in site.step.inputs]))
            prepared.append(time.perf_counter() - started)
            started = time.perf_counter()
        for i, result in zip(group, self.party.run_tasks(tasks), strict=True):
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

    def _sent(self) -> int:
        native = self.party.channel.traffic().bytes
        return int(native + self.session.spu_link.traffic().bytes)

    def _restart_clocks(self) -> None:
        self.party.channel.restart_clock()
        self.session.spu_link.restart_clock()

    def _rounds(self) -> int:
        native = self.party.channel.traffic().rounds
        return int(native + self.session.spu_link.traffic().rounds)

    def run_region(self, site: Site, operands: Sequence[Held]) -> list[Held]:
        """See Runner."""
        index = definition(site.step).region_used()
        if index is None or self._runtimes is None:
            raise TypeError("The runtimes are opened before the first region is run.")
        region = self.regions[index]
        results = self._runtimes.run(
            region, [_for_spu(x, region.bits) for x in operands]
        )
        return [
            self._settle(r, out, site.step.scope)
            for r, out in zip(results, site.results, strict=True)
        ]

    def _settle(self, result: SpuValue, out: Value, scope: str) -> Held:
        """What left SPU, in the type the plan gave it."""
        if out.representation is Representation.BITS:
            if isinstance(result, SharedBits):
                return result
            if isinstance(result, Public):
                bits = pack_bits(result.integers.astype(np.bool_))
                return SharedBits(*share_0(self.party, bits), out.shape)
        elif isinstance(result, Shared):
            return Shared(result.first, result.second, out.fxp)
        elif isinstance(result, Public):
            return Shared(*share_0(self.party, result.integers), out.fxp)
        raise EngineError(
            f"SPU left {type(result).__name__} in scope {scope!r} where the plan "
            f"has {out}.",
            operation="region",
            scope=scope,
        )


def _for_spu(held: Held, bits: int) -> SpuValue:
    """What SPU takes of a value."""
    if isinstance(held, np.ndarray):
        return _public_for(held, bits)
    if isinstance(held, SharedIndices):
        raise TypeError("SPU takes no indices.")
    return held


def _public_for(values: Array, bits: int) -> Public:
    if values.dtype == np.bool_:
        integers = values.astype(f"uint{bits}")
        return Public(integers, FxpType(bits, 0))
    real = values.dtype.kind == "f"
    kind = FxpType(bits, spu_frac(bits) if real else 0)
    return Public(encode(values, kind, name="public value"), kind)
