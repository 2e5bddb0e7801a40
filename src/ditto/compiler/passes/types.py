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

A product whose result may have frac S shares S between its operands such that both have
the same relative precision, by their calibrated magnitudes.

A weight has one frac for all products that take it, the coarsest they ask for, so that
it is shared once. Where another plan has shared a weight or keeps a state already, its
frac is ``pinned``: products take it as it is.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.rings import Placement, power_of_two
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import FxpType
from ditto.operations import Trait, has
from ditto.plan import Graph

BITS = 32
_PUBLIC_PRECISION = 12
"""Significant bits that a public factor keeps at least."""
_MIN_SIGNIFICANT = 1
"""Bits of a typical element that must be left beside a large constant."""
_ENDLESS = 2.0**12
"""Such a constant is this large, and so much larger than the values."""
_PRECISION = 13
"""Significant bits of a typical element that a public factor or a result is worth."""
_PUBLIC_FRAC = 14
"""The frac at which public summands that are no integers are added at least."""
_CUT = 18
"""Bits that a recast may cut of a product: more precision would not be seen."""
_CLOSE = 2
"""Bits of precision that are not worth a recast of their own."""
_SMALL = 16
"""How many times smaller a tensor is whose recast is not worth a bit elsewhere."""
_MOVES = Trait.RESHAPES | Trait.KEEPS_NUMBERS
"""What leaves numbers as they are."""


@dataclass
class Types:
    """What the pass found, by node."""

    cap: list[int]
    wants: list[list[int]]
    """The fracs that products ask for."""
    need: list[int | None]
    frac: list[int]
    operand_fracs: dict[int, tuple[int, ...]]
    """For products: the frac each operand is taken at. For scales: the finest that
    leaves room for the public factor."""
    factor_frac: dict[int, int]
    """For scales: the frac of the public factor."""
    natural: dict[int, int]
    """For products and scales: the frac before a recast."""
    pinned: dict[int, int]
    """Nodes whose frac is given: inputs, and what is only moved about of them."""
    given: Mapping[int, int]
    """Inputs that are shared already, and their fracs."""
    weights: Set[int]
    """Inputs that are weights."""
    shown: Set[int]
    """Results that the client learns."""


def assign_types(
    graph: Graph,
    placements: list[Placement],
    known: list[Range],
    margins: list[float],
    *,
    weights: Set[int] = frozenset(),
    shown: Set[int] = frozenset(),
    given: Mapping[int, int] | None = None,
) -> Types:
    """The fracs of all secret nodes.

    ``weights`` are the nodes of inputs that are weights, ``shown`` those of results
    that the client learns; ``given`` has the fracs of inputs that are shared already.
    """
    finest = [
        _finest(graph, i, known, margins, placements) for i in range(len(graph.nodes))
    ]
    count = len(graph.nodes)
    wants: list[list[int]] = [[] for _ in range(count)]
    types = Types(
        cap=list(finest),
        wants=wants,
        need=[None] * count,
        frac=[0] * count,
        operand_fracs={},
        factor_frac={},
        natural={},
        pinned=_pinned(graph, placements, known, margins, given or {}),
        given=given or {},
        weights=weights,
        shown=shown,
    )
    for i in range(count - 1, -1, -1):
        _back(graph, i, placements, known, finest, types)
    for i in range(count):
        if placements[i] != "public":
            _forward(graph, i, placements, known, finest, types)
            _check_precision(graph, i, placements, known, types)
    return types


def check_room(seen: Range, held: FxpType, margin: float) -> None:
    """Refuse a type that another plan chose if it leaves less than half the margin."""
    due = seen.largest * (1 + (margin - 1) / 2)
    if not due < held.max_value:
        raise FixedPointRangeError(
            f"A value that another plan keeps or shares as {held} reaches "
            f"{seen.largest:.3g} on these samples, too close to its bound of "
            f"{held.max_value:.3g}. Compile the first plan with samples like these, or "
            f"raise the profile's margin."
        )


def _pinned(
    graph: Graph,
    placements: list[Placement],
    known: list[Range],
    margins: list[float],
    given: Mapping[int, int],
) -> dict[int, int]:
    """The given fracs of what products take, moved about as it may be."""
    origin: dict[int, int] = {}
    taken: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if i in given:
            origin[i] = i
        elif has(node.op, _MOVES) and placements[i] == "linear":
            found = [origin[u] for u in node.inputs if u in origin]
            if found:
                origin[i] = found[0]
        elif placements[i] in ("product", "lookup"):
            taken |= {origin[u] for u in node.inputs if u in origin}
    for i, source in origin.items():
        check_room(known[i], FxpType(BITS, given[source]), margins[i])
    return {i: given[source] for i, source in origin.items() if source in taken}


def _check_precision(
    graph: Graph, i: int, placements: list[Placement], known: list[Range], types: Types
) -> None:
    """Refuse constants beside which nothing is left of the values."""
    node = graph.nodes[i]
    if placements[i] != "linear" or node.dtype != "float32":
        return
    public = max(
        (known[u].largest for u in node.inputs if placements[u] == "public"),
        default=0.0,
    )
    for u in _secret(graph, i, placements):
        significant = types.frac[i] + math.log2(known[u].rms)
        endless = public > max(_ENDLESS, _ENDLESS * known[u].largest)
        if endless and significant < _MIN_SIGNIFICANT:
            raise FixedPointRangeError(
                f"{node.op!r} in scope {node.scope or '(top)'!r} brings values of "
                f"about {known[u].rms:.3g} together with a constant of {public:.3g}: "
                f"in 32 bits nothing would be left of them. Bound the constant (a mask "
                f"needs no more than -30)."
            )


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


def _shrinks(graph: Graph, i: int) -> bool:
    """Whether a sum is so much smaller than its operand that a recast of it is cheap.

    Then what follows the sum does not bound the frac of the operand.
    """
    node = graph.nodes[i]
    if node.op != "reduce_sum" or node.dtype != "float32":
        return False
    return _is_small(graph, i, node.inputs[0])


def _is_small(graph: Graph, i: int, beside: int) -> bool:
    """Whether a recast of node i is cheap beside one of another."""
    return _SMALL * graph.nodes[i].size <= graph.nodes[beside].size


def _finest_public(seen: Range) -> int:
    return FxpType.finest(bits=BITS, bound=seen.largest).frac


def _secret(graph: Graph, i: int, placements: list[Placement]) -> list[int]:
    """The secret operands that carry numbers."""
    nodes = graph.nodes
    return [
        u
        for u in nodes[i].inputs
        if placements[u] != "public" and nodes[u].dtype != "bool"
    ]


def _need(
    graph: Graph, i: int, known: list[Range], finest: list[int], types: Types
) -> int | None:
    """The frac at which products take a node, once all of them have asked."""
    asked = types.wants[i]
    if i in types.pinned:
        return types.pinned[i]
    if not asked:
        return None
    if i in types.shown and graph.nodes[i].dtype == "float32":
        fine = _PRECISION - math.floor(math.log2(known[i].rms))
        asked = [*asked, min(fine, finest[i])]  # worth its bits, whoever takes it too
    close = min(asked) if i in types.weights else max(asked) - _CLOSE
    return min(frac for frac in asked if frac >= close)


def _back(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    finest: list[int],
    types: Types,
) -> None:
    node, cap, need = graph.nodes[i], types.cap, types.need
    operands = _secret(graph, i, placements)
    need[i] = _need(graph, i, known, finest, types)

    def require(u: int, frac: int) -> None:
        types.wants[u].append(frac)

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
                    cap[u] = min(cap[u], finest[i] if _shrinks(graph, i) else cap[i])
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
                    coarsest = _PUBLIC_PRECISION - _magnitude(
                        graph, i, placements, known
                    )
                    exact = _exact_frac(graph, i, placements)
                    room = coarsest if exact is None else min(coarsest, exact)
                    types.operand_fracs[i] = (cap[i] - room,)
                    enough = _PRECISION - math.floor(math.log2(known[u].rms))
                    require(u, min(cap[i] - room, enough))
        case "lookup":
            table, wanted = node.inputs[0], need[i]
            if table in operands:
                cap[table] = min(cap[table], cap[i])
                require(table, cap[i] if wanted is None else wanted)
        case "lines" | "exponential":
            for u in operands:
                require(u, min(finest[u], int(node.params["most_frac"])))
        case "product":
            if node.dtype == "float32":
                wanted, total = need[i], cap[i]
                if wanted is not None and wanted < cap[i]:  # a recast comes anyway
                    total = min(finest[i], wanted + _CUT)
                fracs = _share(graph, i, known, finest, types.pinned, total)
                types.operand_fracs[i] = fracs
                for u, frac in zip(node.inputs, fracs, strict=True):
                    require(u, frac)


def _share(
    graph: Graph,
    i: int,
    known: list[Range],
    finest: list[int],
    pinned: dict[int, int],
    total: int,
) -> tuple[int, ...]:
    """Split the frac of a product between its operands."""
    a, b = graph.nodes[i].inputs
    if a == b:
        return (total // 2, total // 2)
    if a in pinned:
        return (pinned[a], min(pinned.get(b, finest[b]), total - pinned[a]))
    if b in pinned:
        return (min(finest[a], total - pinned[b]), pinned[b])
    whole = [_is_whole(graph, u) for u in (a, b)]
    if any(whole):
        first = 0 if whole[0] else min(total, finest[a])
        return (first, 0 if whole[1] else min(total - first, finest[b]))
    lean = math.log2(known[b].rms) - math.log2(known[a].rms)
    first = round((total + lean) / 2)
    first = max(min(first, finest[a]), total - finest[b])
    return (first, total - first)


def _is_whole(graph: Graph, i: int) -> bool:
    """Whether a value consists of integers: converted ones, moved about."""
    node = graph.nodes[i]
    while node.op in ("reshape", "transpose", "broadcast_in_dim", "slice", "squeeze"):
        node = graph.nodes[node.inputs[0]]
    if node.dtype != "float32":
        return True
    return (
        node.op == "convert_element_type"
        and graph.nodes[node.inputs[0]].dtype != "float32"
    )


def _factor_values(
    graph: Graph, i: int, placements: list[Placement]
) -> list[np.ndarray]:
    node = graph.nodes[i]
    if node.op == "combine":
        return [np.asarray(node.params["coefficients"], np.float64)]
    values = [graph.constant(u) for u in node.inputs if placements[u] == "public"]
    return [np.asarray(v, np.float64) for v in values if v is not None]


def _magnitude(
    graph: Graph, i: int, placements: list[Placement], known: list[Range]
) -> int:
    """log2 of the largest public factor."""
    node = graph.nodes[i]
    if node.op == "combine":
        largest = max(abs(float(c)) for c in node.params["coefficients"])
    else:
        largest = max(
            (known[u].largest for u in node.inputs if placements[u] == "public"),
            default=1.0,
        )
    return math.frexp(max(largest, 2.0**-40))[1]


def _exact_frac(graph: Graph, i: int, placements: list[Placement]) -> int | None:
    """The smallest frac at which a known public factor is exact, if it is small."""
    values = _factor_values(graph, i, placements)
    if not values:
        return None
    for frac in range(_PUBLIC_FRAC):
        if all(np.all(np.ldexp(v, frac) == np.rint(np.ldexp(v, frac))) for v in values):
            return frac
    return None


def _is_fit_square(graph: Graph, i: int) -> bool:
    """Whether a node is the square of what a fitted function is good for."""
    node = graph.nodes[i]
    sources = {graph.nodes[u].op for u in node.inputs}
    return node.op == "mul" and sources == {"within"} and len({*node.inputs}) == 1


def _ending(fracs: tuple[int, ...], total: int) -> tuple[int, ...]:
    """Fracs of a square's operands whose sum is the finest there is, if it is finer.

    A shift to the left costs nothing. The product then ends where its range does: what
    lies beyond the fit, where a polynomial is wrong without overflow, leaves the type
    and is seen by the check of the recast.
    """
    return fracs[0], max(fracs[1], total - fracs[0])


def _forward(
    graph: Graph,
    i: int,
    placements: list[Placement],
    known: list[Range],
    finest: list[int],
    types: Types,
) -> None:
    node, cap, need, frac = graph.nodes[i], types.cap, types.need, types.frac
    operands = _secret(graph, i, placements)
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
        case "lines":
            natural = sum(int(node.params[f"{n}_frac"]) for n in ("operand", "slope"))
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
        case "scale":
            power = power_of_two(graph, i)
            if power:
                frac[i] = frac[power[0]] - power[1]
                return
            (limit,) = types.operand_fracs[i]
            coarse = min(limit, max(frac[u] for u in operands))
            fine = _PUBLIC_FRAC + 1 - _magnitude(graph, i, placements, known)
            factor = min(cap[i] - coarse, fine)
            exact = _exact_frac(graph, i, placements)
            if exact is not None:
                factor = min(factor, exact)
            types.factor_frac[i] = factor
            types.natural[i] = coarse + factor
            frac[i] = (
                coarse + factor if wanted is None else min(coarse + factor, wanted)
            )
        case "product":
            pairs = zip(node.inputs, types.operand_fracs[i], strict=True)
            taken = tuple(min(frac[u], limit) for u, limit in pairs)
            if _is_fit_square(graph, i):
                taken = _ending(taken, finest[i])
            types.operand_fracs[i] = taken
            types.natural[i] = sum(taken)
            frac[i] = sum(taken) if wanted is None else min(sum(taken), wanted)


def _carried(
    graph: Graph, i: int, placements: list[Placement], known: list[Range], types: Types
) -> int:
    """The frac of what is added up, compared or moved about."""
    node, cap, frac, wanted = graph.nodes[i], types.cap, types.frac, types.need[i]
    operands = _secret(graph, i, placements)
    carried = max((frac[u] for u in operands), default=0)
    publics = [u for u in node.inputs if placements[u] == "public"]
    if not all(_whole(graph, u) for u in publics):
        fine = _PUBLIC_FRAC if wanted is None else wanted
        room = min(_finest_public(known[u]) for u in publics)
        carried = max(carried, min(cap[i], fine, room))
    if placements[i] == "linear" and node.op in ("add", "sub", "select_n"):
        large = [u for u in operands if not _is_small(graph, u, i)]
        if large and wanted is not None:
            carried = min(carried, max(wanted, *(frac[u] for u in large)))
    return min(carried, cap[i])


def _whole(graph: Graph, i: int) -> bool:
    values = graph.constant(i)
    return values is not None and bool(np.all(values == np.rint(values)))
