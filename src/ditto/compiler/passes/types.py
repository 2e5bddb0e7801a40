"""types: choose the frac of every value in the low ring.

The ring bounds a value of magnitude B to fracs below 30 - log2(B): ``finest``. Three
numbers follow for every node, the first two on the way back from the results:

cap    the largest frac at which the value, and all that is added up from it without a
       recast in between, still fits;
need   the frac at which products take the value, None if only comparisons, regions and
       results take it, which accept any frac: then nothing is truncated. Where products
       ask for fracs that are close, the coarser serves all; else the finer is the need
       and the others recast once more;
frac   what it is carried at. A product comes out at the sum of its operands' fracs; if
       something needs it coarser, the recast is fused into the product.

A sum is carried at the finest frac of its terms, and recast as a whole where that is
cheaper than by its parts (``sums``).

A product whose result may have frac S shares S between its operands such that both have
the same relative precision, by their calibrated magnitudes; beside a weight, by that of
what is no outlier: the first token of a text in a decoder goes so far that of all other
tokens nothing would be left.

The squares of a few outliers are taken in the high ring, where the largest leave the
others their precision (``squares``).

A weight has one frac for all products that take it, the coarsest they ask for, so that
it is shared once. Where another plan has shared a weight or keeps a state already, its
frac is ``pinned``: products take it as it is.
"""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.pinned import BITS, find_pinned
from ditto.compiler.passes.precision import check_precision
from ditto.compiler.passes.public_factors import PUBLIC_FRAC, exact_frac, magnitude
from ditto.compiler.passes.remainders import Mode, Remainders, find_fixed
from ditto.compiler.passes.rings import Placement, power_of_two, secret_numbers
from ditto.compiler.passes.sizes import SMALL, is_few, is_small, shrinks
from ditto.compiler.passes.split import split_frac
from ditto.compiler.passes.squares import (
    PRECISION,
    Square,
    find_squares,
    wide_square,
)
from ditto.compiler.passes.sums import CLOSE, Sums, find_sums
from ditto.compiler.passes.tabulate import sees_scores
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import Array, FxpType
from ditto.operations import Trait, has
from ditto.plan import Graph, Node

_PUBLIC_PRECISION = 12
"""Significant bits that a public factor keeps at least."""
_CUT = 18
"""Bits that a recast may cut of a product: more precision would not be seen."""
_MANY = 4
"""Bits of a contraction that are worth a recast of its result."""
_NEAR = 4
"""Bits that a sum may ask for beyond what a matrix takes: its term has their rounding
in all that the matrix makes of it, and a recast would stand before the matrix."""


@dataclass
class Types:
    """What the pass found, by node."""

    cap: list[int]
    wants: list[list[tuple[int, int]]]
    """The fracs that products ask for, and of how many numbers each product is."""
    need: list[int | None]
    frac: list[int]
    operand_fracs: dict[int, tuple[int, ...]]
    """For products: the frac each operand is taken at. For scales: the finest that
    leaves room for the public factor."""
    factor_frac: dict[int, int]
    """For scales: the frac of the public factor."""
    natural: dict[int, int]
    """For products, scales and sums that are recast as a whole: the frac before."""
    sums: Sums
    pinned: dict[int, int]
    """Nodes whose frac is given: inputs, and what is only moved about of them."""
    bits: list[int]
    """Of the ring it is shared in, unless it is in the high one."""
    given: Mapping[int, int]
    """Inputs that are shared already, and their fracs."""
    weights: Set[int]
    """Inputs that are weights."""
    shown: Set[int]
    """Results that the client learns."""
    squares: Mapping[int, Square] = field(default_factory=dict)
    """By the tensor that is squared: sums that only a table takes (``squares``)."""
    in_place: set[int] = field(default_factory=set)
    """Products whose operand is shifted where it is."""
    matrices: dict[int, int] = field(default_factory=dict)
    """The frac at which matrices of weights take a node, if any do."""
    finer: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """For products that take remainders: the frac each operand is wanted in."""
    wide: set[int] = field(default_factory=set)
    """Products that are taken in the high ring."""

    def sums_squares(self, graph: Graph, i: int) -> bool:
        """Whether product i is one of ``squares``."""
        square = self.squares.get(graph.nodes[i].inputs[0])
        return square is not None and square.node == i


def assign_types(
    graph: Graph,
    placements: list[Placement],
    known: list[Range],
    margins: list[float],
    *,
    weights: Set[int] = frozenset(),
    shown: Set[int] = frozenset(),
    given: Mapping[int, int] | None = None,
    remainders: Mode = "none",
    values: Mapping[int, Array] | None = None,
) -> Types:
    """The fracs of all secret nodes.

    ``weights`` are the nodes of inputs that are weights, ``shown`` those of results
    that the client learns; ``given`` has the fracs of inputs that are shared already,
    ``values`` the weights themselves. ``remainders`` says which products take them.
    """
    finest = [
        _finest(graph, i, known, margins, placements) for i in range(len(graph.nodes))
    ]
    count = len(graph.nodes)
    wants: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    types = Types(
        cap=list(finest),
        wants=wants,
        need=[None] * count,
        frac=[0] * count,
        operand_fracs={},
        factor_frac={},
        natural={},
        sums=find_sums(graph, placements),
        pinned=find_pinned(graph, placements, known, margins, given or {}),
        bits=[BITS] * count,
        given=given or {},
        weights=weights,
        shown=shown,
        squares=find_squares(graph, placements, known, finest),
    )
    retained = {*graph.outputs} - shown
    more = Remainders(
        remainders,
        graph,
        placements,
        known,
        margins,
        finest,
        find_fixed(graph, placements, retained, types.pinned.keys(), weights),
        values or {},
        graph.users(),
    )
    for i in range(count - 1, -1, -1):
        _back(graph, i, placements, known, finest, types, more)
    for i in range(count):
        if placements[i] != "public":
            _forward(graph, i, placements, known, types)
    check_precision(graph, placements, known, types.frac)
    return types


def _finest(
    graph: Graph,
    i: int,
    known: list[Range],
    margins: list[float],
    placements: list[Placement],
) -> int:
    node = graph.nodes[i]
    if placements[i] == "public" or node.dtype == "bool":
        return BITS - 2
    bound = known[i].largest * margins[i]
    finest = FxpType.finest(bits=BITS, bound=bound).frac
    if node.dtype != "float32" and finest < 0:
        raise FixedPointRangeError(
            f"The integers of {node.op!r} in scope {node.scope or '(top)'!r} reach "
            f"{bound:.3g} with their margin; 32-bit shares hold less than 2^30."
        )
    return finest


def _finest_below(node: Node) -> int:
    """The finest frac that holds the lower end of a node's range."""
    return FxpType.finest(bits=BITS, bound=abs(float(node.params["low"]))).frac


def _finest_public(seen: Range) -> int:
    return FxpType.finest(bits=BITS, bound=seen.largest).frac


def _need(
    graph: Graph, i: int, known: list[Range], finest: list[int], types: Types
) -> int | None:
    """The frac at which products take a node, once all of them have asked."""
    wants = types.wants[i]
    if i in types.pinned:
        return types.pinned[i]
    if not wants:
        return None
    most = max(count for _, count in wants)
    # what few numbers ask for beyond is not worth a recast for the many
    asked = [frac for frac, count in wants if SMALL * count > most]
    if i in types.shown and graph.nodes[i].dtype == "float32":
        fine = PRECISION - math.floor(math.log2(known[i].rms))
        asked = [*asked, min(fine, finest[i])]  # worth its bits, whoever takes it too
    if i in types.weights:
        return min(frac for frac, _ in wants)
    if i in types.matrices:
        taken = types.matrices[i]
        asked = [frac for frac in asked if not taken < frac <= taken + _NEAR]
    wanted = min(frac for frac in asked if frac >= max(asked) - CLOSE)
    return types.squares[i].held(wanted) if i in types.squares else wanted


def _back(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    finest: list[int],
    types: Types,
    remainders: Remainders,
) -> None:
    node, cap, need = graph.nodes[i], types.cap, types.need
    operands = secret_numbers(graph, i, placements)
    need[i] = _need(graph, i, known, finest, types)

    def require(u: int, frac: int) -> None:
        types.wants[u].append((frac, max(node.size, graph.nodes[u].size)))

    match placements[i]:
        case "linear" | "low" | "maximum":
            together = min(
                [finest[u] for u in operands]
                + [_finest_public(known[u]) for u in node.inputs if u not in operands]
            )
            carries = node.dtype != "bool" and node.op != "sign"
            for u in operands:
                cap[u] = min(cap[u], together)
                wanted = need[i]
                if carries:
                    cap[u] = min(cap[u], finest[i] if shrinks(graph, i) else cap[i])
                    if wanted is not None:
                        require(u, wanted)
        case "scale":
            power = power_of_two(graph, i)
            if power:
                u, exponent = power
                cap[u] = min(cap[u], cap[i] + exponent)
                wanted = need[i]
                if wanted is not None:
                    require(u, wanted + exponent)
                return
            for u in operands:
                if node.dtype == "float32":
                    require(u, _before_scale(graph, i, u, placements, known, types))
        case "lookup":
            table, wanted = node.inputs[0], need[i]
            if table in operands:
                cap[table] = min(cap[table], cap[i])
                require(table, cap[i] if wanted is None else wanted)
        case "exponential":
            for u in operands:
                cap[u] = min(cap[u], _finest_below(node))
                if not sees_scores(graph, i, cap[u]):
                    require(u, min(finest[u], int(node.params["most_frac"])))
        case "product":
            if node.dtype == "float32":
                wanted, total = need[i], cap[i]
                if _is_worth_a_recast(graph, i, finest, types):
                    wanted = cap[i] if wanted is None else min(wanted, cap[i])
                    need[i], total = wanted, min(finest[i], wanted + _CUT)
                elif wanted is not None and wanted < cap[i]:  # a recast comes anyway
                    total = min(finest[i], wanted + _CUT)
                _split(graph, i, known, finest, types, total, remainders)
                if not types.sums_squares(graph, i):
                    _require_factors(graph, i, types, require)


def _split(
    graph: Graph,
    i: int,
    known: list[Range],
    finest: list[int],
    types: Types,
    total: int,
    remainders: Remainders,
) -> None:
    """The fracs that a product takes its operands at, and those they are wanted in."""
    fracs = remainders.leaned(
        i,
        split_frac(
            graph, i, known, finest, total, pinned=types.pinned, weights=types.weights
        ),
    )
    wide = wide_square(graph, i, known, finest)
    if wide is not None and wide > fracs[0] + CLOSE:
        types.wide.add(i)
        fracs = (wide, wide)
    types.operand_fracs[i] = fracs
    finer = remainders.finer(i, fracs)
    if finer != fracs:
        types.finer[i] = finer


def _require_factors(
    graph: Graph, i: int, types: Types, require: Callable[[int, int], None]
) -> None:
    """Ask for the operands of a product as it takes them, remainders and all."""
    node = graph.nodes[i]
    beside_weight = any(u in types.weights for u in node.inputs)
    fracs = types.finer.get(i, types.operand_fracs[i])
    for u, frac in zip(node.inputs, fracs, strict=True):
        require(u, frac)
        if node.op == "dot_general" and beside_weight:
            types.matrices[u] = max(types.matrices.get(u, frac), frac)


def _before_scale(
    graph: Graph,
    i: int,
    u: int,
    placements: list[Placement],
    known: list[Range],
    types: Types,
) -> int:
    """The frac that a product with public numbers takes its operand at."""
    log_factor = magnitude(graph, i, placements, known)
    coarsest = _PUBLIC_PRECISION - log_factor
    exact, wanted = exact_frac(graph, i, placements), types.need[i]
    room = coarsest if exact is None else min(coarsest, exact)
    limit = types.cap[i] - room
    types.operand_fracs[i] = (limit,)
    enough = PRECISION - math.floor(math.log2(known[u].rms))
    if exact == 0 and wanted is not None:
        # integers leave nothing to cut: what is finer than wanted takes a recast
        enough = min(enough, wanted + max(0, log_factor - CLOSE))
    return min(limit, enough)


def _is_worth_a_recast(graph: Graph, i: int, finest: list[int], types: Types) -> bool:
    """Whether a contraction is much smaller than its operands, and what it is added
    to so large that they would lose many bits: a sum of squares beside outliers."""
    operands = graph.nodes[i].inputs
    small = all(is_small(graph, i, u) for u in operands if u not in types.weights)
    return small and finest[i] - types.cap[i] > _MANY


def _forward(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    types: Types,
) -> None:
    node, cap, need, frac = graph.nodes[i], types.cap, types.need, types.frac
    operands = secret_numbers(graph, i, placements)
    wanted = need[i]
    if node.dtype != "float32" or node.op == "sign":
        if placements[i] == "product":
            types.operand_fracs[i] = (0, 0)
            types.natural[i] = 0
        if placements[i] == "scale":
            types.operand_fracs[i] = (0,)
            types.factor_frac[i] = types.natural[i] = 0
        return
    match placements[i]:
        case "input" if i in types.pinned:
            frac[i] = types.pinned[i]
        case "input" | "high" | "table":
            frac[i] = cap[i] if wanted is None else min(cap[i], wanted)
            frac[i] = min(frac[i], types.given.get(i, frac[i]))
        case "pieces":
            natural = int(node.params["frac"])
            frac[i] = min(cap[i], natural if wanted is None else min(natural, wanted))
        case "exponential":
            natural = sum(int(node.params[f"{n}_frac"]) for n in ("table", "factor"))
            frac[i] = min(cap[i], natural if wanted is None else min(natural, wanted))
        case "lookup":
            table = node.inputs[0]
            held = frac[table] if table in operands else cap[i]
            frac[i] = min(held, cap[i], cap[i] if wanted is None else wanted)
        case "linear" | "low" | "maximum":
            frac[i] = _carried(graph, i, placements, known, types)
            if wanted is not None:
                asked = (frac for frac, _ in types.wants[i])
                most = max(wanted, _beside(graph, i, types), *asked)
                if types.sums.is_recast(i, frac[i] - most):
                    types.natural[i], frac[i] = frac[i], most
            if has(node.op, Trait.RESHAPES):
                types.bits[i] = types.bits[node.inputs[0]]
        case "scale":
            power = power_of_two(graph, i)
            if power:
                frac[i] = frac[power[0]] - power[1]
                return
            types.natural[i] = frac[i] = _scaled(graph, i, placements, known, types)
            if wanted is not None and i not in types.sums.terms:
                frac[i] = min(frac[i], wanted)
        case "product":
            _forward_product(graph, i, types)


def _forward_product(graph: Graph, i: int, types: Types) -> None:
    node, frac, wanted = graph.nodes[i], types.frac, types.need[i]
    held = frac[node.inputs[0]]
    if types.sums_squares(graph, i) and types.squares[node.inputs[0]].serves(held):
        _square_in_place(i, types.squares[node.inputs[0]], held, types)
        return
    pairs = zip(node.inputs, types.operand_fracs[i], strict=True)
    taken = tuple(min(frac[u], limit) for u, limit in pairs)
    types.operand_fracs[i] = taken
    frac[i] = min(sum(taken), types.cap[i]) if i in types.wide else sum(taken)
    types.natural[i] = frac[i]
    if wanted is not None:
        frac[i] = min(frac[i], max(wanted, _beside(graph, i, types)))


def _square_in_place(i: int, square: Square, held: int, types: Types) -> None:
    """A product whose operand is shifted where it is, and that nothing recasts."""
    taken = square.frac(held)
    types.in_place.add(i)
    types.operand_fracs[i] = (taken, taken)
    types.bits[i] = BITS - (held - taken)
    types.natural[i] = types.frac[i] = 2 * taken


def _beside(graph: Graph, i: int, types: Types) -> int:
    """The frac at which a sum holds a term, by what else it adds up: a product's finer
    result costs less, since fewer bits are cut."""
    size = graph.nodes[i].size
    held = [
        types.frac[u]
        for u in types.sums.beside(graph, i)
        if u < i and graph.nodes[u].size == size
    ]
    return min(types.cap[i], max(held, default=0))


def _scaled(
    graph: Graph, i: int, placements: list[Placement], known: list[Range], types: Types
) -> int:
    """The frac of a product with public numbers, which get theirs here."""
    (limit,) = types.operand_fracs[i]
    finest = max(types.frac[u] for u in secret_numbers(graph, i, placements))
    coarse = min(limit, finest)
    fine = PUBLIC_FRAC + 1 - magnitude(graph, i, placements, known)
    factor = min(types.cap[i] - coarse, fine)
    exact = exact_frac(graph, i, placements)
    if exact is not None:
        factor = min(factor, exact)
    types.factor_frac[i] = factor
    return coarse + factor


def _carried(
    graph: Graph, i: int, placements: list[Placement], known: list[Range], types: Types
) -> int:
    """The frac of what is added up, compared or moved about."""
    node, cap, frac, wanted = graph.nodes[i], types.cap, types.frac, types.need[i]
    operands = secret_numbers(graph, i, placements)
    carried = max((frac[u] for u in operands), default=0)
    publics = [u for u in node.inputs if placements[u] == "public"]
    if not all(_whole(graph, u) for u in publics):
        fine = PUBLIC_FRAC if wanted is None else wanted
        room = min(_finest_public(known[u]) for u in publics)
        carried = max(carried, min(cap[i], fine, room))
    if placements[i] == "linear" and node.op in ("add", "sub", "select_n"):
        large = [u for u in operands if not is_few(graph, u, i)]
        if large and wanted is not None:
            carried = min(carried, max(wanted, *(frac[u] for u in large)))
    return min(carried, cap[i])


def _whole(graph: Graph, i: int) -> bool:
    values = graph.constant(i)
    return values is not None and bool(np.all(values == np.rint(values)))
