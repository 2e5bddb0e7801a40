"""emit: from a graph with rings and types to the steps of a plan.

Steps come in the order in which results demand them, so values live as short as they
can. A recast is made where a value is wanted in another type than it has, once for each
type; an input is simply shared in every type it is wanted in.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ditto.compiler.graph import Graph, Node
from ditto.compiler.passes.region import (
    HIGH,
    HIGH_BITS,
    LOW_BITS,
    LOW_FIXED,
    TABLE,
    RegionWriter,
)
from ditto.compiler.passes.rings import Kind, power_of_two, regions
from ditto.compiler.passes.types import Types
from ditto.compiler.plan import (
    TALKING,
    TASKS,
    Input,
    Output,
    Plan,
    Region,
    Role,
    Step,
    Value,
)
from ditto.compiler.profile import Profile
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import FxpType

_FEW = 1 << 14
"""Results for which bits matter less than a round."""
_INDICES = {"gather": 1, "dynamic_slice": 1, "dynamic_update_slice": 2}
"""The operand from which on operands say where, not what."""


@dataclass
class Emitter:
    """Builds one plan."""

    graph: Graph
    kinds: list[Kind]
    types: Types | None
    """None if SPU computes in its own fixed point in both rings."""
    profile: Profile
    roles: Sequence[Role]
    names: Sequence[str]
    kept: Mapping[int, FxpType | None] = field(default_factory=dict)
    """The results that the parties keep, and the types they must have, if any."""
    _values: list[Value] = field(default_factory=list)
    _steps: list[Step] = field(default_factory=list)
    _constants: dict[tuple[str, tuple[int, ...], bytes], int] = field(
        default_factory=dict
    )
    _arrays: list[Any] = field(default_factory=list)
    _regions: dict[Any, int] = field(default_factory=dict)
    _region_list: list[Region] = field(default_factory=list)
    _base: dict[int, int] = field(default_factory=dict)
    _cast: dict[tuple[int, FxpType], int] = field(default_factory=dict)
    _forms: dict[int, dict[Any, int]] = field(default_factory=dict)
    _zeros: dict[FxpType, int] = field(default_factory=dict)

    def plan(self, result: Any) -> Plan:
        """Emit all that the outputs need."""
        self._leaders = regions(self.graph, self.kinds)
        self._members: dict[int, list[int]] = {}
        for i, leader in self._leaders.items():
            self._members.setdefault(leader, []).append(i)
        self._users = self.graph.users()
        for i in self.graph.outputs:
            self._demand(i)
        outputs = [
            Output(self._result(i, k), self.graph.nodes[i].dtype, k in self.kept)
            for k, i in enumerate(self.graph.outputs)
        ]
        nodes = [self.graph.nodes[i] for i in self.graph.inputs]
        inputs = tuple(
            Input(name, role, node.shape, node.dtype, tuple(forms.values()))
            for name, role, node, forms in zip(
                self.names,
                self.roles,
                nodes,
                [self._forms.get(k, {}) for k in range(len(nodes))],
                strict=True,
            )
        )
        plan = Plan(
            self.profile,
            inputs,
            tuple(self._values),
            tuple(self._arrays),
            tuple(self._region_list),
            tuple(self._steps),
            tuple(outputs),
            result,
        )
        return _without_waste(plan)

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
        return i in self._base or self.kinds[i] == "input" or self._is_input(i)

    def _is_input(self, i: int) -> bool:
        return self.graph.nodes[i].op == "input"

    def _dependencies(self, i: int) -> list[int]:
        if i not in self._leaders:
            return list(self.graph.nodes[i].inputs)
        members = self._members[self._leaders[i]]
        inside = set(members)
        return [
            u for m in members for u in self.graph.nodes[m].inputs if u not in inside
        ]

    def _emit(self, i: int) -> None:
        node = self.graph.nodes[i]
        match self.kinds[i]:
            case "public":
                self._base[i] = self._public(i, node)
            case "linear":
                self._base[i] = self._linear(i, node)
            case "scale":
                self._base[i] = self._scale(i, node)
            case "product":
                self._base[i] = self._product(i, node)
            case "lookup":
                self._base[i] = self._lookup(i, node)
            case "maximum":
                self._base[i] = self._maximum(i, node)
            case "curve":
                self._base[i] = self._curve(i, node)
            case _:
                self._region(self._leaders[i])

    # Values

    def _new(
        self,
        shape: tuple[int, ...],
        type: FxpType | None,  # noqa: A002
        dtype: str,
        kind: str = "shared",
    ) -> int:
        self._values.append(Value(shape, kind, type, dtype))  # type: ignore[arg-type]
        return len(self._values) - 1

    def _step(
        self, op: str, inputs: Sequence[int], output: int, scope: str, /, **params: Any
    ) -> int:
        self._steps.append(Step(op, tuple(inputs), (output,), params, scope))
        return output

    def _array(self, values: Any) -> int:
        array = np.ascontiguousarray(values).reshape(np.shape(values))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = len(self._arrays)
            self._arrays.append(array)
        return self._constants[key]

    def _form(self, i: int, type: FxpType | None) -> int:  # noqa: A002
        """An input in one type; None for a public one."""
        node = self.graph.nodes[i]
        kind = "public" if type is None else "shared"
        return self._formed(i, node.shape, type, kind)

    def _indices(self, i: int, depth: int) -> int:
        """An input as what selects rows of a table."""
        shape = (*self.graph.nodes[i].shape, depth)
        return self._formed(i, shape, FxpType(LOW_BITS, 0), "indices")

    def _formed(
        self,
        i: int,
        shape: tuple[int, ...],
        type: FxpType | None,  # noqa: A002
        kind: str,
    ) -> int:
        node = self.graph.nodes[i]
        forms = self._forms.setdefault(int(node.params["index"]), {})
        key = (type, shape)
        if key not in forms:
            forms[key] = self._new(shape, type, node.dtype, kind)
        return forms[key]

    def plain(self, i: int) -> int:
        """A public value."""
        if self.graph.nodes[i].op == "input":
            return self._form(i, None)
        return self._base[i]

    def shared(self, i: int, type: FxpType) -> int:  # noqa: A002
        """Node i as shares of a type; public numbers become shares of themselves."""
        node = self.graph.nodes[i]
        key = (i, type)
        if key in self._cast:
            return self._cast[key]
        if self.kinds[i] == "public":
            self.check_constant(i, type)
            made = self._new(node.shape, type, node.dtype)
            self._step("embed", [self.plain(i)], made, node.scope)
        elif self.kinds[i] == "input":
            made = self._form(i, type)
        else:
            made = self._recast(self._base[i], type, node.scope)
        self._cast[key] = made
        return made

    def bits(self, i: int) -> int:
        """Node i as shares of bits."""
        return self._base[i]

    def _recast(self, value: int, type: FxpType, scope: str) -> int:  # noqa: A002
        held = self._values[value]
        if held.type == type:
            return value
        within = held.fxp.bits == type.bits  # the paper has casts between rings only
        made = self._new(held.shape, type, held.dtype)
        return self._step(
            "recast",
            [value],
            made,
            scope,
            rounds=self._rounds(scope, held.size),
            casts="ours" if within else self.profile.at(scope).casts,
        )

    def _rounds(self, scope: str, size: int) -> int:
        """Of a step with so many results."""
        due = self.profile.at(scope).rounds
        if due == "mixed":
            return 1 if size <= _FEW else 2
        return due

    def check_constant(self, i: int, type: FxpType) -> None:  # noqa: A002
        """Refuse a constant that its type cannot hold."""
        values = self.graph.constant(i)
        if values is None or values.size == 0:
            return
        largest = float(np.max(np.abs(values.astype(np.float64))))
        if not largest < type.max_value:
            node = self.graph.nodes[i]
            raise FixedPointRangeError(
                f"A constant of {largest:.3g} in scope {node.scope or '(top)'!r} "
                f"meets secret values of {type}, which holds |value| < "
                f"{type.max_value:.3g}. Bound it (a mask needs no more than -30)."
            )

    def _type(self, i: int) -> FxpType:
        """What node i is carried at in the low ring."""
        if self.types is None:
            return LOW_FIXED
        return FxpType(LOW_BITS, self.types.frac[i])

    def _low(self, i: int) -> int:
        return self.shared(i, self._type(i))

    def _result(self, i: int, k: int) -> int:
        due = self.kept.get(k)
        if due is not None:
            return self.shared(i, due)
        if self.kinds[i] == "public":
            return self.plain(i)
        if self.kinds[i] == "input":
            return self._form(i, self._type(i))
        return self._base[i]

    # Native steps

    def _public(self, i: int, node: Node) -> int:
        made = self._new(node.shape, None, node.dtype, "public")
        if node.op == "constant":
            index = self._array(self.graph.constant(i))
            return self._step("constant", [], made, node.scope, index=index)
        inputs = [self.plain(u) for u in node.inputs]
        call = {"op": node.op, "with": dict(node.params)}
        return self._step("public", inputs, made, node.scope, **call)

    def _linear(self, i: int, node: Node) -> int:
        kind = self._type(i)
        if node.op == "convert_element_type":
            return self._low(node.inputs[0])
        if node.op == "reduce_sum" and node.dtype == "float32":
            return self._sum_over(node, kind)
        made = self._new(node.shape, kind, node.dtype)
        if node.op in ("add", "sub", "neg"):
            inputs = [self._mixed(u, kind) for u in node.inputs]
            return self._step(node.op, inputs, made, node.scope)
        if node.op == "select_n":
            which, *cases = node.inputs
            inputs = [self.plain(which), *(self._mixed(u, kind) for u in cases)]
            return self._step("select", inputs, made, node.scope)
        first_index = _INDICES.get(node.op, len(node.inputs))
        inputs = [
            self.shared(u, kind) if k < first_index else self.plain(u)
            for k, u in enumerate(node.inputs)
        ]
        call = {"op": node.op, "with": dict(node.params)}
        return self._step("local", inputs, made, node.scope, **call)

    def _sum_over(self, node: Node, kind: FxpType) -> int:
        """A sum at its operand's frac: what is recast is the smaller of the two."""
        (u,) = node.inputs
        held = self._type(u)
        made = self._new(node.shape, held, node.dtype)
        call = {"op": node.op, "with": dict(node.params)}
        self._step("local", [self.shared(u, held)], made, node.scope, **call)
        return self._recast(made, kind, node.scope)

    def _mixed(self, u: int, type: FxpType) -> int:  # noqa: A002
        if self.kinds[u] != "public":
            held = self._type(u)
            return self.shared(u, type if held.frac > type.frac else held)
        self.check_constant(u, type)
        return self.plain(u)

    def _scale(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        kind = self._type(i)
        retag = power_of_two(self.graph, i)
        if retag:
            operand, exponent = retag
            base = self._base.get(operand)
            held = None if base is None else self._values[base].type
            if held is not None and held.bits == HIGH_BITS and held != HIGH:
                source, kind = self._base[operand], held.retag(exponent)
            else:
                source = self._low(operand)
            made = self._new(node.shape, kind, node.dtype)
            return self._step("retag", [source], made, node.scope)
        natural = FxpType(LOW_BITS, self.types.natural[i])
        frac = self.types.factor_frac[i]
        made = self._new(node.shape, natural, node.dtype)
        if node.op == "combine":
            self._combine(i, node, made, natural)
        else:
            inputs = [
                self.plain(u) if self.kinds[u] == "public" else self._limited(u, i)
                for u in node.inputs
            ]
            params: dict[str, Any] = {"frac": frac}
            op = "scale"
            if node.op == "dot_general":
                op = "contract"
                params["subscripts"] = subscripts(self.graph, i)
            self._step(op, inputs, made, node.scope, **params)
        return self._recast(made, kind, node.scope)

    def _limited(self, u: int, i: int) -> int:
        """Operand u of scale i, coarse enough to leave room for the factor."""
        assert self.types is not None  # noqa: S101
        (limit,) = self.types.operand_fracs[i]
        return self.shared(u, FxpType(LOW_BITS, min(limit, self.types.frac[u])))

    def _combine(self, i: int, node: Node, made: int, natural: FxpType) -> None:
        inputs = [self._limited(u, i) for u in node.inputs]
        held = [self._values[v].type for v in inputs]
        fracs = [kind.frac for kind in held if kind is not None]
        weights = [
            round(float(np.ldexp(float(c), natural.frac - f)))
            for c, f in zip(node.params["coefficients"], fracs, strict=True)
        ]
        bias = round(float(np.ldexp(float(node.params["bias"]), natural.frac)))
        self._step("combine", inputs, made, node.scope, coefficients=weights, bias=bias)

    def _product(self, i: int, node: Node) -> int:
        assert self.types is not None  # noqa: S101
        fracs = self.types.operand_fracs[i]
        inputs = [
            self.shared(u, FxpType(LOW_BITS, f))
            for u, f in zip(node.inputs, fracs, strict=True)
        ]
        kind = self._type(i)
        risen = self._rises(i)
        if risen is not None and node.dtype == "float32":
            kind = risen  # no truncation before an upcast: one recast does both
        made = self._new(node.shape, kind, node.dtype)
        rounds = self._rounds(node.scope, node.size)
        if node.op == "mul":
            return self._step("multiply", inputs, made, node.scope, rounds=rounds)
        text = subscripts(self.graph, i)
        return self._step(
            "einsum", inputs, made, node.scope, rounds=rounds, subscripts=text
        )

    def _lookup(self, i: int, node: Node) -> int:
        table, ids = node.inputs
        if self.types is None:
            held = made_as = TABLE
        else:
            made_as = FxpType(LOW_BITS, self.types.frac[i])
            public = self.kinds[table] == "public"
            held = made_as if public else FxpType(LOW_BITS, self.types.frac[table])
        rows = self.shared(table, held)
        indices = self._indices(ids, self.graph.nodes[table].shape[0])
        made = self._new(node.shape, made_as, node.dtype)
        rounds = self._rounds(node.scope, node.size)
        return self._step("lookup", [indices, rows], made, node.scope, rounds=rounds)

    def _maximum(self, i: int, node: Node) -> int:
        kind = self._type(i)
        low, high, step = (float(node.params[n]) for n in ("low", "high", "step"))
        params = {
            "low": max(math.floor(math.ldexp(low, kind.frac)), -kind.limit),
            "high": min(math.ceil(math.ldexp(high, kind.frac)), kind.limit),
            "cut": max(0, kind.frac + round(math.log2(step))),
            "hidden": self._hidden(node, kind),
            "rounds": self._rounds(
                node.scope, node.size * math.ceil((high - low) / step)
            ),
        }
        made = self._new(node.shape, kind, node.dtype)
        inputs = [self.shared(node.inputs[0], kind)]
        return self._step("maximum", inputs, made, node.scope, **params)

    @staticmethod
    def _hidden(node: Node, kind: FxpType) -> int:
        """Up to where integers stand for hidden positions; else below all of them."""
        fill = node.params.get("hidden")
        return (
            -kind.limit - 1 if fill is None else math.ceil(math.ldexp(fill, kind.frac))
        )

    def _curve(self, i: int, node: Node) -> int:
        (u,) = node.inputs
        held = self._type(u)
        low, high = (float(node.params[n]) for n in ("low", "high"))
        params = {
            "function": node.params["function"],
            "factor": float(node.params["factor"]),
            "summand": float(node.params["summand"]),
            "widths": node.params["widths"],
            "low": math.ceil(math.ldexp(low, held.frac)),
            "high": min(math.ceil(math.ldexp(high, held.frac)), held.limit),
            "rounds": self._rounds(node.scope, node.size),
        }
        made = self._new(node.shape, self._type(i), node.dtype)
        return self._step("curve", [self.shared(u, held)], made, node.scope, **params)

    def _rises(self, i: int) -> FxpType | None:
        """The type in the high ring that all users of a product want, if they do."""
        users, raised = self._users[i], 0
        retag = power_of_two(self.graph, users[0]) if len(users) == 1 else None
        if retag and self.kinds[users[0]] == "scale":
            if users[0] in self.graph.outputs:
                return None
            raised = retag[1]
            users = self._users[users[0]]
        high = users and all(self.kinds[u] == "high" for u in users)
        if not high or i in self.graph.outputs:
            return None
        return FxpType(HIGH_BITS, HIGH.frac + raised)

    # Regions

    def _region(self, leader: int) -> None:
        members = sorted(self._members[leader])
        low = self.kinds[leader] == "low"
        bits = LOW_BITS if low else HIGH_BITS
        writer = RegionWriter(self, low, low and self.types is not None)
        for m in members:
            writer.add(m)
        inside = set(members)
        leaving = [
            m
            for m in members
            if m in self.graph.outputs or any(u not in inside for u in self._users[m])
        ]
        results = [writer.leave(m) for m in leaving]
        graph = writer.builder.finish(results)
        key = (bits, graph.nodes_key())
        if key not in self._regions:
            self._regions[key] = len(self._region_list)
            self._region_list.append(Region(bits, graph))
        outputs = []
        for m in leaving:
            node = self.graph.nodes[m]
            if node.dtype == "bool":
                made = self._new(node.shape, None, "bool", "bits")
            else:
                made = self._new(node.shape, self._region_type(m, low), node.dtype)
            self._base[m] = made
            outputs.append(made)
        for m in members:
            self._base.setdefault(m, -1)
        scope = self.graph.nodes[leader].scope
        params = {"region": self._regions[key]}
        step = Step("region", tuple(writer.inputs), tuple(outputs), params, scope)
        self._steps.append(step)

    def zero(self, bits: int, dtype: str) -> int:
        """Shares of nothing; what is added to them becomes shares that add up."""
        real = FxpType(bits, (HIGH if bits == HIGH_BITS else LOW_FIXED).frac)
        kind = real if dtype == "float32" else FxpType(bits, 0)
        if kind not in self._zeros:
            public = self._new((), None, "float32", "public")
            index = self._array(np.float32(0))
            self._step("constant", [], public, "", index=index)
            made = self._new((), kind, dtype)
            self._zeros[kind] = self._step("embed", [public], made, "")
        return self._zeros[kind]

    def _region_type(self, i: int, low: bool) -> FxpType:
        if low:
            whole = self.graph.nodes[i].dtype != "float32"
            return FxpType(LOW_BITS, 0) if whole else self._type(i)
        whole = self.graph.nodes[i].dtype != "float32"
        return FxpType(HIGH_BITS, 0) if whole else HIGH


def _without_waste(plan: Plan) -> Plan:
    """Steps that lead to a result, and what they use, numbered anew."""
    alive = {output.value for output in plan.outputs}
    steps: list[Step] = []
    for step in reversed(plan.steps):
        if alive & set(step.outputs):
            steps.append(step)
            alive |= {*step.inputs, *step.outputs}
    steps.reverse()
    steps = _scheduled(steps)
    alive |= {v for given in plan.inputs for v in given.forms}
    place = {v: k for k, v in enumerate(sorted(alive))}
    used = sorted({s.params["index"] for s in steps if s.op == "constant"})
    run = sorted({s.params["region"] for s in steps if s.op == "region"})

    def moved(step: Step) -> Step:
        params = step.params
        if step.op == "constant":
            params = {"index": used.index(params["index"])}
        if step.op == "region":
            params = {"region": run.index(params["region"])}
        inputs, outputs = (
            tuple(place[v] for v in side) for side in (step.inputs, step.outputs)
        )
        return replace(step, inputs=inputs, outputs=outputs, params=params)

    return replace(
        plan,
        inputs=tuple(
            replace(given, forms=tuple(place[v] for v in given.forms))
            for given in plan.inputs
        ),
        values=tuple(plan.values[v] for v in sorted(alive)),
        constants=tuple(plan.constants[k] for k in used),
        regions=tuple(plan.regions[k] for k in run),
        steps=tuple(moved(step) for step in steps),
        outputs=tuple(replace(o, value=place[o.value]) for o in plan.outputs),
    )


def _scheduled(steps: list[Step]) -> list[Step]:
    """The steps by the number of talking ones before them, so that those which do not
    wait for each other stand side by side."""
    depth: dict[int, int] = {}
    keys: list[tuple[int, bool, bool]] = []
    for step in steps:
        talks = step.op in TALKING
        level = max((depth.get(v, 0) for v in step.inputs), default=0) + talks
        depth |= dict.fromkeys(step.outputs, level)
        keys.append((level, not talks, talks and step.op in TASKS))
    order = sorted(range(len(steps)), key=lambda i: keys[i])
    return [steps[i] for i in order]


def subscripts(graph: Graph, i: int) -> str:
    """A dot_general as einsum writes it."""
    node = graph.nodes[i]
    (left_sum, right_sum), (left_batch, right_batch) = node.params["dimension_numbers"]
    a, b = (graph.nodes[u] for u in node.inputs)
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    left = [next(letters) for _ in a.shape]
    right: list[str | None] = [None] * len(b.shape)
    for x, y in zip([*left_sum, *left_batch], [*right_sum, *right_batch], strict=True):
        right[y] = left[x]
    right_text = [letter or next(letters) for letter in right]
    batch = [left[x] for x in left_batch]
    taken = {*left_batch, *left_sum}
    free_left = [left[x] for x in range(len(left)) if x not in taken]
    taken = {*right_batch, *right_sum}
    free_right = [right_text[y] for y in range(len(right)) if y not in taken]
    result = "".join([*batch, *free_left, *free_right])
    return f"{''.join(left)},{''.join(right_text)}->{result}"
