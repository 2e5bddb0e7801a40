"""emit: from a graph with placements and types to the steps of a plan.

Steps come in the order in which results demand them, so values live as short as they
can.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ditto.compiler.passes.draft import (
    HIGH_BITS,
    LOW_BITS,
    REMAINDER,
    SUMS,
    Draft,
)
from ditto.compiler.passes.order import without_waste
from ditto.compiler.passes.region import TABLE, RegionWriter
from ditto.compiler.passes.rings import Placement, power_of_two, regions
from ditto.compiler.passes.subscripts import subscripts
from ditto.compiler.passes.tabulate import sees_scores
from ditto.compiler.passes.types import Types
from ditto.compiler.profile import Profile
from ditto.fixedpoint import FxpType
from ditto.operations import TRAITS
from ditto.operations.spu import HIGH
from ditto.plan import (
    Graph,
    InputRole,
    InputSpec,
    Node,
    OutputSpec,
    Plan,
    Region,
    Representation,
    Step,
)
from ditto.protocols.blocks import FAR_REACH
from ditto.steps import (
    CoarseMax,
    Constant,
    Einsum,
    EinsumPublic,
    Exponential,
    LinearMap,
    Lookup,
    MulPublic,
    Multiply,
    PiecewiseQuadratic,
    PublicOperation,
    Rescale,
    RunRegion,
    Select,
    TableFunction,
)


@dataclass
class Emitter:
    """Builds one plan."""

    graph: Graph
    placements: list[Placement]
    types: Types | None
    """None if SPU computes in its own fixed point in both rings."""
    profile: Profile
    roles: Sequence[InputRole]
    names: Sequence[str]
    retained: Mapping[int, FxpType | None] = field(default_factory=dict)
    """The results that the parties retain, and the types they must have, if any."""

    def __post_init__(self) -> None:
        graph, placements = self.graph, self.placements
        self._draft = Draft(graph, placements, self.types, self.profile)
        self._leaders = regions(graph, placements)
        self._members: dict[int, list[int]] = {}
        for i, leader in self._leaders.items():
            self._members.setdefault(leader, []).append(i)
        self._users = graph.users()

    def plan(self, result: object) -> tuple[Plan, list[int]]:
        """Emit all that the outputs need; tells the node of each value."""
        draft = self._draft
        for i in self.graph.outputs:
            self._demand(i)
        outputs = [
            OutputSpec(
                self._result(i, k), self.graph.nodes[i].dtype, k in self.retained
            )
            for k, i in enumerate(self.graph.outputs)
        ]
        nodes = [self.graph.nodes[i] for i in self.graph.inputs]
        inputs = tuple(
            InputSpec(name, role, node.shape, node.dtype, tuple(encodings.values()))
            for name, role, node, encodings in zip(
                self.names,
                self.roles,
                nodes,
                [draft.encodings.get(k, {}) for k in range(len(nodes))],
                strict=True,
            )
        )
        plan = Plan(
            self.profile.name,
            inputs,
            tuple(draft.values),
            tuple(draft.constants),
            tuple(draft.regions),
            tuple(draft.steps),
            tuple(outputs),
            result,
            self.profile.range_check,
            self.profile.provable,
        )
        shorter, kept = without_waste(plan)
        return shorter, [draft.origins[v] for v in kept]

    # Order

    def _demand(self, target: int) -> None:
        stack = [target]
        while stack:
            i = stack[-1]
            if self._done(i):
                stack.pop()
                continue
            waiting = [u for u in self._dependencies(i) if not self._done(u)]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                self._emit(i)

    def _done(self, i: int) -> bool:
        return i in self._draft.base or self.graph.nodes[i].op == "input"

    def _dependencies(self, i: int) -> list[int]:
        if i not in self._leaders:
            return list(self.graph.nodes[i].inputs)
        members = self._members[self._leaders[i]]
        inside = set(members)
        return [
            u for m in members for u in self.graph.nodes[m].inputs if u not in inside
        ]

    def _emit(self, i: int) -> None:
        if i in self._leaders:
            self._region(self._leaders[i])
            return
        writers = {
            "public": self._public,
            "linear": self._linear,
            "scale": self._scale,
            "product": self._product,
            "lookup": self._lookup,
            "maximum": self._maximum,
            "pieces": self._piecewise_quadratic,
            "exponential": self._exponential,
            "table": self._table_function,
        }
        self._draft.node = i
        self._draft.base[i] = writers[self.placements[i]](i, self.graph.nodes[i])

    def _low(self, i: int) -> int:
        return self._draft.shared(i, self._draft.low_type(i))

    def _result(self, i: int, k: int) -> int:
        kind = self.retained.get(k)
        if kind is not None:
            return self._draft.shared(i, kind)
        if self.placements[i] == "public":
            return self._draft.plain(i)
        if self.placements[i] == "input":
            return self._draft.encoding(i, self._draft.low_type(i))
        return self._draft.base[i]

    # Native steps

    def _public(self, i: int, node: Node) -> int:
        draft = self._draft
        made = draft.value(node.shape, None, node.dtype, Representation.PUBLIC)
        values = self.graph.constant(i)
        if values is not None:
            index = draft.constant(values)
            return draft.step(Constant(index), [], made, node.scope)
        inputs = [draft.plain(u) for u in node.inputs]
        kind = PublicOperation(node.op, dict(node.params))
        return draft.step(kind, inputs, made, node.scope)

    def _linear(self, i: int, node: Node) -> int:
        draft, kind = self._draft, self._draft.low_type(i)
        if node.op == "convert_element_type":
            return self._low(node.inputs[0])
        if node.op == "reduce_sum" and node.dtype == "float32":
            return self._sum_over(node, kind)
        if node.op in SUMS:
            natural = None if self.types is None else self.types.natural.get(i)
            held = kind if natural is None else FxpType(LOW_BITS, natural)
            made = draft.value(node.shape, held, node.dtype)
            inputs = [self._mixed(u, held) for u in node.inputs]
            draft.step(SUMS[node.op](), inputs, made, node.scope)
            return draft.recast(made, kind, node.scope)
        made = draft.value(node.shape, kind, node.dtype)
        if node.op == "select_n":
            which, *cases = node.inputs
            inputs = [draft.plain(which), *(self._mixed(u, kind) for u in cases)]
            return draft.step(Select(), inputs, made, node.scope)
        first_index = TRAITS[node.op].first_index
        inputs = [
            draft.shared(u, kind)
            if first_index is None or k < first_index
            else draft.plain(u)
            for k, u in enumerate(node.inputs)
        ]
        step = LinearMap(node.op, dict(node.params))
        return draft.step(step, inputs, made, node.scope)

    def _sum_over(self, node: Node, kind: FxpType) -> int:
        """A sum at its operand's frac: what is recast is the smaller of the two."""
        draft, (u,) = self._draft, node.inputs
        held = draft.low_type(u)
        made = draft.value(node.shape, held, node.dtype)
        step = LinearMap(node.op, dict(node.params))
        draft.step(step, [draft.shared(u, held)], made, node.scope)
        return draft.recast(made, kind, node.scope)

    def _mixed(self, u: int, kind: FxpType) -> int:
        draft = self._draft
        if self.placements[u] != "public":
            held = draft.low_type(u)
            return draft.shared(u, kind if held.frac > kind.frac else held)
        draft.check_constant(u, kind)
        return draft.plain(u)

    def _scale(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        draft, kind = self._draft, self._draft.low_type(i)
        power = power_of_two(self.graph, i)
        if power:
            return self._rescale(node, kind, *power)
        natural = FxpType(LOW_BITS, self.types.natural[i])
        frac = self.types.factor_frac[i]
        made = draft.value(node.shape, natural, node.dtype)
        inputs = [
            draft.plain(u) if self.placements[u] == "public" else self._limited(u, i)
            for u in node.inputs
        ]
        contracts = node.op == "dot_general"
        step = (
            EinsumPublic(frac, subscripts(self.graph, i))
            if contracts
            else MulPublic(frac)
        )
        draft.step(step, inputs, made, node.scope)
        return draft.recast(made, kind, node.scope)

    def _rescale(self, node: Node, kind: FxpType, operand: int, exponent: int) -> int:
        draft = self._draft
        base = draft.base.get(operand)
        held = None if base is None else draft.values[base].type
        if base is not None and held not in (None, HIGH) and held.bits == HIGH_BITS:
            source, kind = base, held.rescaled(exponent)
        else:
            source = self._low(operand)
        made = draft.value(node.shape, kind, node.dtype)
        return draft.step(Rescale(), [source], made, node.scope)

    def _limited(self, u: int, i: int) -> int:
        """Operand u of scale i, coarse enough to leave room for the factor."""
        assert self.types is not None  # noqa: S101
        (limit,) = self.types.operand_fracs[i]
        kind = FxpType(LOW_BITS, min(limit, self.types.frac[u]))
        return self._draft.shared(u, kind)

    def _product(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        draft, fracs = self._draft, self.types.operand_fracs[i]
        bits = HIGH_BITS if i in self.types.wide else LOW_BITS
        if i in self.types.in_place:
            bits = self.types.bits[i]
        inputs = [
            draft.shared(u, FxpType(bits, f))
            for u, f in zip(node.inputs, fracs, strict=True)
        ]
        kind = draft.low_type(i)
        risen = self._rises(i)
        if risen is not None and node.dtype == "float32":
            kind = risen  # no truncation before an upcast: one recast does both
        made = self._multiplied(i, node, inputs, kind)
        if kind.bits == HIGH_BITS:
            return made
        for pair in self._with_remainders(i, node, inputs):
            small = self._multiplied(i, node, pair, kind, remainder=True)
            total = draft.value(node.shape, kind, node.dtype)
            made = draft.step(SUMS["add"](), [made, small], total, node.scope)
        return made

    def _multiplied(
        self,
        i: int,
        node: Node,
        inputs: list[int],
        kind: FxpType,
        *,
        remainder: bool = False,
    ) -> int:
        draft = self._draft
        origin = REMAINDER if remainder else i
        made = draft.value(node.shape, kind, node.dtype, node=origin)
        rounds = draft.rounds(node.scope, node.size)
        if node.op == "mul":
            return draft.step(Multiply(rounds), inputs, made, node.scope)
        step = Einsum(rounds, subscripts(self.graph, i))
        return draft.step(step, inputs, made, node.scope)

    def _with_remainders(
        self, i: int, node: Node, inputs: list[int]
    ) -> list[list[int]]:
        """The operands of a product, with each remainder in place of what it is of."""
        assert self.types is not None  # noqa: S101
        pairs: list[list[int]] = []
        fracs = self.types.operand_fracs[i]
        for k, (u, most) in enumerate(
            zip(node.inputs, self.types.finer.get(i, fracs), strict=True)
        ):
            frac = min(self.types.frac[u], most)
            if most > fracs[k] and frac > fracs[k]:
                taken = [*inputs]
                kind = FxpType(LOW_BITS, frac)
                taken[k] = self._draft.remainder(u, inputs[k], kind)
                pairs.append(taken)
        return pairs

    def _lookup(self, i: int, node: Node) -> int:
        draft, (table, ids) = self._draft, node.inputs
        if self.types is None:
            held = made_as = TABLE
        else:
            made_as = FxpType(LOW_BITS, self.types.frac[i])
            public = self.placements[table] == "public"
            held = made_as if public else FxpType(LOW_BITS, self.types.frac[table])
        rows = draft.shared(table, held)
        indices = draft.indices(ids, self.graph.nodes[table].shape[0])
        made = draft.value(node.shape, made_as, node.dtype)
        step = Lookup(draft.rounds(node.scope, node.size))
        return draft.step(step, [indices, rows], made, node.scope)

    def _maximum(self, i: int, node: Node) -> int:
        draft, kind = self._draft, self._draft.low_type(i)
        low, high, step = (float(node.params[n]) for n in ("low", "high", "step"))
        levels = math.ceil((high - low) / step)
        coarse = CoarseMax(
            low=max(math.floor(math.ldexp(low, kind.frac)), -kind.limit),
            high=min(math.ceil(math.ldexp(high, kind.frac)), kind.limit),
            cut=max(0, kind.frac + round(math.log2(step))),
            hidden=self._hidden(node, kind),
            rounds=draft.rounds(node.scope, node.size * levels),
        )
        made = draft.value(node.shape, kind, node.dtype)
        inputs = [draft.shared(node.inputs[0], kind)]
        return draft.step(coarse, inputs, made, node.scope)

    @staticmethod
    def _hidden(node: Node, kind: FxpType) -> int:
        """Up to where integers stand for hidden positions; else below all of them."""
        fill = node.params.get("hidden")
        if fill is None:
            return -kind.limit - 1
        return math.ceil(math.ldexp(fill, kind.frac))

    def _table_function(self, i: int, node: Node) -> int:
        draft, (u,) = self._draft, node.inputs
        held = draft.low_type(u)
        low, high = (float(node.params[n]) for n in ("low", "high"))
        # a sum of squares in a ring made for it needs no bit to spare
        room = held.limit if held.bits == LOW_BITS else 2 * held.limit
        step = TableFunction(
            function=node.params["function"],
            factor=float(node.params["factor"]),
            summand=float(node.params["summand"]),
            widths=node.params["widths"],
            low=math.ceil(math.ldexp(low, held.frac)),
            high=min(math.ceil(math.ldexp(high, held.frac)), room),
        )
        made = draft.value(node.shape, draft.low_type(i), node.dtype)
        return draft.step(step, [draft.shared(u, held)], made, node.scope)

    def _piecewise_quadratic(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        draft, (u,), params = self._draft, node.inputs, node.params
        cell = -round(math.log2(params["width"]))
        finest = self.types.cap[u]
        room = LOW_BITS - 2 - math.ceil(math.log2(max(params["high"], -params["low"])))
        held = FxpType(LOW_BITS, max(min(self.types.frac[u], room), cell))
        low, high = (round(math.ldexp(params[n], held.frac)) for n in ("low", "high"))
        step = PiecewiseQuadratic(
            function=params["function"],
            low=low,
            high=high,
            cut=held.frac - cell,
            start=int(params["start"]),
            constants=tuple(params["constants"]),
            slopes=tuple(params["slopes"]),
            curvatures=tuple(params["curvatures"]),
            frac=int(params["frac"]),
            offset_frac=int(params["offset_frac"]),
            square_frac=int(params["square_frac"]),
            far_words=_far_words(low, high, held.frac + LOW_BITS - 1 - finest),
            rounds=draft.rounds(node.scope, node.size),
        )
        made = draft.value(node.shape, draft.low_type(i), node.dtype)
        return draft.step(step, [draft.shared(u, held)], made, node.scope)

    def _exponential(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        draft, (u,), params = self._draft, node.inputs, node.params
        width = round(math.log2(params["width"]))
        frac, bits = self.types.frac[u], self.types.bits[u]
        if not sees_scores(self.graph, i, frac + LOW_BITS - bits):
            frac = min(frac, int(params["most_frac"]))
        held = FxpType(bits, max(frac, -width))
        low, high = (round(math.ldexp(params[n], held.frac)) for n in ("low", "high"))
        step = Exponential(
            low=low,
            high=high,
            cut=held.frac + width,
            table_frac=int(params["table_frac"]),
            factor_frac=int(params["factor_frac"]),
            far_words=int(params["far_words"]),
            rounds=draft.rounds(node.scope, node.size),
        )
        made = draft.value(node.shape, draft.low_type(i), node.dtype)
        return draft.step(step, [draft.shared(u, held)], made, node.scope)

    def _rises(self, i: int) -> FxpType | None:
        """The type in the high ring that all users of a product want, if they do."""
        users, raised = self._users[i], 0
        power = power_of_two(self.graph, users[0]) if len(users) == 1 else None
        if power and self.placements[users[0]] == "scale":
            if users[0] in self.graph.outputs:
                return None
            raised = power[1]
            users = self._users[users[0]]
        high = users and all(self.placements[u] == "high" for u in users)
        if not high or i in self.graph.outputs:
            return None
        return FxpType(HIGH_BITS, HIGH.frac + raised)

    # Regions

    def _region(self, leader: int) -> None:
        draft, members = self._draft, sorted(self._members[leader])
        low = self.placements[leader] == "low"
        writer = RegionWriter(draft, low, low and self.types is not None)
        for m in members:
            writer.add(m)
        inside = set(members)
        leaving = [
            m
            for m in members
            if m in self.graph.outputs or any(u not in inside for u in self._users[m])
        ]
        results = [writer.leave(m) for m in leaving]
        bits = LOW_BITS if low else HIGH_BITS
        index = draft.region(Region(bits, writer.builder.finish(results)))
        outputs = []
        for m in leaving:
            node, draft.node = self.graph.nodes[m], m
            if node.dtype == "bool":
                made = draft.value(node.shape, None, "bool", Representation.BITS)
            else:
                made = draft.value(node.shape, self._region_type(m, low), node.dtype)
            draft.base[m] = made
            outputs.append(made)
        for m in members:
            draft.base.setdefault(m, -1)
        scope = self.graph.nodes[leader].scope
        inputs = tuple(writer.inputs)
        draft.steps.append(Step(RunRegion(index), inputs, tuple(outputs), scope))

    def _region_type(self, i: int, low: bool) -> FxpType:
        if self.graph.nodes[i].dtype != "float32":
            return FxpType(LOW_BITS if low else HIGH_BITS, 0)
        return self._draft.low_type(i) if low else HIGH


def _far_words(low: int, high: int, exponent: int) -> int:
    """Words that see what x may come to, between -2^exponent and 2^exponent: twice as
    far as its type goes at its finest. If it has that type, that is its ring; else what
    is beyond is for the check of the recast before.
    """
    beyond = (2.0**exponent - min(high, -low)) / (high - low)
    enough = (k for k, reach in enumerate(FAR_REACH) if k and beyond <= reach)
    return next(enough, len(FAR_REACH) - 1)
