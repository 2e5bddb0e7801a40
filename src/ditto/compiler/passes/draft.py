"""A plan under construction: its values, steps, constants, regions and inputs.

A recast is made where a value is wanted in another type than it has, once for each
type; an input is simply shared in every type it is wanted in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ditto.compiler.passes.rings import Placement
from ditto.compiler.passes.types import Types
from ditto.compiler.profile import Profile
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import Array, FxpType
from ditto.operations.spu import HIGH, LOW_FIXED
from ditto.plan import (
    Graph,
    Region,
    Representation,
    Step,
    StepKind,
    Value,
)
from ditto.plan.values import dense
from ditto.protocols import Rounds
from ditto.protocols.recast import Conversion
from ditto.steps import (
    Add,
    Constant,
    Downcast,
    LinearMap,
    MulPublic,
    Neg,
    Recast,
    SharePublic,
    Sub,
)

LOW_BITS, HIGH_BITS = 32, 64
REMAINDER = -1
"""Where a value has no elements of a node, but what rounding leaves of them."""
_FEW = 1 << 14
"""Results for which bits matter less than a round."""
_SMALL = 16
"""How many times smaller a tensor is that counts as few beside another."""
SUMS: Mapping[str, type[Add | Neg | Sub]] = {"add": Add, "sub": Sub, "neg": Neg}
"""Operations whose operands may be public, and their steps."""


@dataclass
class Draft:
    """What stands of a plan, and the nodes it has been written from."""

    graph: Graph
    placements: list[Placement]
    types: Types | None
    """None if SPU computes in its own fixed point in both rings."""
    profile: Profile
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    base: dict[int, int] = field(default_factory=dict)
    """The value of each node that has been written."""
    node: int = -1
    """The node that is being written."""
    origins: list[int] = field(default_factory=list)
    """Of each value, the node whose elements it has."""
    encodings: dict[int, dict[object, int]] = field(default_factory=dict)
    """By input, the values that it is shared as."""
    _numbers: dict[object, int] = field(default_factory=dict)
    _casts: dict[tuple[int, FxpType], int] = field(default_factory=dict)
    _zeros: dict[FxpType, int] = field(default_factory=dict)
    _remainders: dict[tuple[int, int, FxpType], int] = field(default_factory=dict)
    _one: int | None = None
    _sources: dict[int, int] = field(default_factory=dict)
    """Of each value that was recast, what from."""

    def value(
        self,
        shape: tuple[int, ...],
        kind: FxpType | None,
        dtype: str,
        representation: Representation = Representation.SHARED,
        node: int | None = None,
    ) -> int:
        """A new value; of the node that is being written, if no other is named."""
        self.values.append(Value(shape, representation, kind, dtype))
        self.origins.append(self.node if node is None else node)
        return len(self.values) - 1

    def step(
        self, kind: StepKind, inputs: Sequence[int], output: int, scope: str
    ) -> int:
        """A new step with one result."""
        self.steps.append(Step(kind, tuple(inputs), (output,), scope))
        return output

    def constant(self, values: npt.ArrayLike) -> int:
        """The index of a public array; equal arrays are held once."""
        array = dense(values)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._numbers:
            self._numbers[key] = len(self.constants)
            self.constants.append(array)
        return self._numbers[key]

    def region(self, region: Region) -> int:
        """The index of a region; equal regions are held once."""
        key = (region.bits, region.graph.key())
        if key not in self._numbers:
            self._numbers[key] = len(self.regions)
            self.regions.append(region)
        return self._numbers[key]

    def encoding(self, i: int, kind: FxpType | None) -> int:
        """An input in one type; None for a public one."""
        shape = self.graph.nodes[i].shape
        public = kind is None
        held = Representation.PUBLIC if public else Representation.SHARED
        return self._encoded(i, shape, kind, held)

    def indices(self, i: int, depth: int) -> int:
        """An input as what selects rows of a table."""
        shape, kind = (*self.graph.nodes[i].shape, depth), FxpType(LOW_BITS, 0)
        return self._encoded(i, shape, kind, Representation.INDICES)

    def _encoded(
        self,
        i: int,
        shape: tuple[int, ...],
        kind: FxpType | None,
        representation: Representation,
    ) -> int:
        node = self.graph.nodes[i]
        encodings = self.encodings.setdefault(int(node.params["index"]), {})
        key = (kind, shape)
        if key not in encodings:
            made = self.value(shape, kind, node.dtype, representation, i)
            encodings[key] = made
        return encodings[key]

    def plain(self, i: int) -> int:
        """A public value."""
        if self.graph.nodes[i].op == "input":
            return self.encoding(i, None)
        return self.base[i]

    def bits(self, i: int) -> int:
        """Node i as shares of bits."""
        return self.base[i]

    def shared(self, i: int, kind: FxpType) -> int:
        """Node i as shares of a type; public numbers become shares of themselves."""
        node, key = self.graph.nodes[i], (i, kind)
        if key in self._casts:
            return self._casts[key]
        if self.placements[i] == "public":
            self.check_constant(i, kind)
            made = self.value(node.shape, kind, node.dtype, node=i)
            self.step(SharePublic(), [self.plain(i)], made, node.scope)
        elif self.placements[i] == "input":
            made = self.encoding(i, kind)
        elif self.values[self.base[i]].type != kind and self._is_beside_few(i, kind):
            made = self.value(node.shape, kind, node.dtype, node=i)
            inputs = [self.shared(u, kind) for u in node.inputs]
            self.step(SUMS[node.op](), inputs, made, node.scope)
        elif self._is_spread(i) and self.placements[i] == "linear":
            made = self.value(node.shape, kind, node.dtype, node=i)
            source = self.shared(node.inputs[0], kind)
            self.step(LinearMap(node.op, dict(node.params)), [source], made, node.scope)
        else:
            made = self.recast(self.base[i], kind, node.scope)
        self._casts[key] = made
        return made

    def _is_beside_few(self, i: int, kind: FxpType) -> bool:
        """Whether node i, wanted coarser, is a tensor plus or minus few numbers, such
        as its means: the tensor need not wait for them to be recast."""
        node = self.graph.nodes[i]
        if self.placements[i] != "linear" or node.op not in ("add", "sub"):
            return False
        if self.types is None or kind.bits != LOW_BITS:
            return False
        held = ("public", "low", "high")
        hidden = [u for u in node.inputs if self.placements[u] not in held]
        few = [u for u in hidden if self._is_few(u, node.size)]
        if len(hidden) != 2 or len(few) != 1:
            return False
        return all(self.types.frac[u] >= kind.frac for u in hidden)

    def _is_few(self, i: int, beside: int) -> bool:
        """Whether a recast of node i is one of far fewer numbers than ``beside``."""
        return self._is_spread(i) or _SMALL * self.graph.nodes[i].size <= beside

    def _is_spread(self, i: int) -> bool:
        """Whether node i repeats the numbers of a tensor that is far smaller."""
        node = self.graph.nodes[i]
        if node.op != "broadcast_in_dim":
            return False
        return _SMALL * self.graph.nodes[node.inputs[0]].size <= node.size

    def recast(self, value: int, kind: FxpType, scope: str) -> int:
        """A value in another type."""
        held = self.values[value]
        if held.type == kind:
            return value
        value = self._before(value, kind)
        held = self.values[value]
        within = held.fxp.bits == kind.bits  # the paper has casts between rings only
        made = self.value(held.shape, kind, held.dtype, node=self.origins[value])
        casts = "ours" if within else self.profile.at(scope).casts
        self._sources[made] = value
        if casts == "ours" and Conversion(held.fxp, kind).is_local:
            return self.step(Downcast(), [value], made, scope)
        step = Recast(self.rounds(scope, held.size), casts)
        return self.step(step, [value], made, scope)

    def remainder(self, i: int, rounded: int, kind: FxpType) -> int:
        """What rounding leaves of node i, in a finer type."""
        key = (i, rounded, kind)
        if key not in self._remainders:
            held, scope = self.values[rounded], self.graph.nodes[i].scope
            # a recast would do, but takes a place among those that send
            shift = MulPublic(kind.frac - held.fxp.frac)
            back = self.value(held.shape, kind, held.dtype, node=REMAINDER)
            self.step(shift, [rounded, self._public_one()], back, scope)
            made = self.value(held.shape, kind, held.dtype, node=REMAINDER)
            self.step(Sub(), [self.shared(i, kind), back], made, scope)
            self._remainders[key] = made
        return self._remainders[key]

    def _public_one(self) -> int:
        if self._one is None:
            one = self.value((), None, "float32", Representation.PUBLIC, REMAINDER)
            self._one = self.step(Constant(self.constant(np.float32(1))), [], one, "")
        return self._one

    def _before(self, value: int, kind: FxpType) -> int:
        """What few numbers were recast from: one recast takes less time than two."""
        source = self._sources.get(value)
        if source is None or self.values[value].size > _FEW:
            return value
        held = self.values[value].fxp
        alike = held.bits == kind.bits == self.values[source].fxp.bits
        return source if alike and held.frac >= kind.frac else value

    def rounds(self, scope: str, size: int) -> Rounds:
        """Of a step with so many results."""
        rounds = self.profile.at(scope).rounds
        if rounds == "mixed":
            return 1 if size <= _FEW else 2
        return rounds

    def check_constant(self, i: int, kind: FxpType) -> None:
        """Refuse a constant that its type cannot hold."""
        values = self.graph.constant(i)
        if values is None or values.size == 0:
            return
        largest = float(np.max(np.abs(values.astype(np.float64))))
        if not largest < kind.max_value:
            node = self.graph.nodes[i]
            raise FixedPointRangeError(
                f"A constant of {largest:.3g} in scope {node.scope or '(top)'!r} "
                f"meets secret values of {kind}, which holds |value| < "
                f"{kind.max_value:.3g}. Bound it (a mask needs no more than -30)."
            )

    def low_type(self, i: int) -> FxpType:
        """What node i is carried at in the low ring."""
        if self.types is None:
            return LOW_FIXED
        return FxpType(self.types.bits[i], self.types.frac[i])

    def zero(self, bits: int, dtype: str) -> int:
        """Shares of nothing; what is added to them becomes shares that add up."""
        real = FxpType(bits, (HIGH if bits == HIGH_BITS else LOW_FIXED).frac)
        kind = real if dtype == "float32" else FxpType(bits, 0)
        if kind not in self._zeros:
            public = self.value((), None, "float32", Representation.PUBLIC)
            self.step(Constant(self.constant(np.float32(0))), [], public, "")
            made = self.value((), kind, dtype)
            self._zeros[kind] = self.step(SharePublic(), [public], made, "")
        return self._zeros[kind]
