"""squares: how a normalisation takes those that it sums up.

*Where they are.* The sum of the squares of a row needs few fraction bits: rounding x
to 2^-f changes the sum of squares by about 2^-f times its root. A recast to f costs
bytes and a round. But shares of x may be shifted where they are, for nothing, into a
ring that is smaller by as many bits; and if the sum fits there, the squares can be
multiplied in it. x with frac F leaves a ring of 32 - (F - f) bits, so that a sum below
2^s fits if f <= 31 - F - s: it is never negative, and only a table takes it, which
needs no bit to spare. Where F is finer than that allows, x may be carried coarser; but
not where what it is a sum of goes on into other sums, as the residual of a decoder: all
layers after it would have that rounding too.

*In the high ring.* Beside the largest of a few outliers little is left of the others.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.pinned import BITS
from ditto.compiler.passes.rings import Placement
from ditto.compiler.passes.sizes import is_small
from ditto.compiler.passes.tabulate import is_square
from ditto.operations import Trait, has
from ditto.plan import Graph
from ditto.steps.rules import LOW_RINGS

PRECISION = 13
"""Significant bits of a typical element that a public factor or a result is worth."""
_PRECISE, _ENOUGH = 11, 10
"""Bits of a row's sum that rounding leaves: those for which x is carried as fine as it
is wanted, and what is enough if it is carried coarser. The root has one more."""
_COARSER = 2
"""Bits that x may be carried coarser than is wanted."""
_ABOVE_POLE = 32.0
"""Units of the sum between its table's pole and the first cell, at least."""


@dataclass(frozen=True)
class Square:
    """A sum of squares that only a table takes."""

    node: int
    size: int
    """s: the sum lies below 2^s."""
    root: float
    """log2 of the root of a typical row's sum."""
    finest: int
    """The least frac of the sum for its table."""
    goes_on: bool
    """Whether other sums have its terms."""

    def frac(self, held: int) -> int:
        """The frac at which a tensor of frac ``held`` is squared where it is."""
        return BITS - 1 - held - self.size

    def serves(self, held: int, precise: int = _ENOUGH) -> bool:
        """Whether it is precise enough, and the ring one that there is."""
        frac = self.frac(held)
        bits = BITS - (held - frac)
        fits = frac < held and bits in LOW_RINGS and 2 * frac >= self.finest
        return fits and frac + self.root >= precise

    def held(self, wanted: int) -> int:
        """The frac at which to carry the tensor, of which another is wanted."""
        coarsest = wanted if self.goes_on else wanted - _COARSER
        finest = (f for f in range(wanted, coarsest - 1, -1))
        precise = next((f for f in finest if self.serves(f, _PRECISE)), None)
        if precise is not None:
            return precise
        return coarsest if self.serves(coarsest) else wanted


def find_squares(
    graph: Graph, placements: list[Placement], known: list[Range], finest: list[int]
) -> Mapping[int, Square]:
    """By the tensor that is squared: the sums of squares that only a table takes."""
    users = graph.users()
    found: dict[int, Square] = {}
    for i, node in enumerate(graph.nodes):
        if placements[i] != "product" or node.op != "dot_general":
            continue
        u, other = node.inputs
        if u != other or not is_square(graph, i) or node.dtype != "float32":
            continue
        table = _only_table(graph, i, placements, users)
        if table is None or placements[u] not in ("linear", "product"):
            continue
        terms = graph.nodes[u].size / node.size
        params = graph.nodes[table].params
        above = params["low"] + params["summand"] / params["factor"]
        found[u] = Square(
            i,
            BITS - 2 - finest[i],
            math.log2(terms * known[u].usual ** 2) / 2,
            math.ceil(math.log2(_ABOVE_POLE / above)),
            _goes_on(graph, u, placements, users),
        )
    return found


def _goes_on(
    graph: Graph, u: int, placements: list[Placement], users: list[list[int]]
) -> bool:
    """Whether what a tensor adds up is a term of another sum as large."""

    def is_summed(v: int, inside: set[int]) -> bool:
        return any(
            graph.nodes[w].op in ("add", "sub") and not is_small(graph, w, u)
            for w in users[v]
            if w not in inside
        )

    if is_summed(u, set()):
        return True
    inside, waiting = {u}, [u]
    while waiting:
        i = waiting.pop()
        if placements[i] not in ("linear", "scale"):
            continue
        for v in graph.nodes[i].inputs:
            if v in inside or is_small(graph, v, u):
                continue
            if is_summed(v, inside):
                return True
            inside.add(v)
            waiting.append(v)
    return False


def _only_table(
    graph: Graph, i: int, placements: list[Placement], users: list[list[int]]
) -> int | None:
    """The table that alone takes a node, in whatever shape."""
    while i not in graph.outputs and len(users[i]) == 1:
        (i,) = users[i]
        if placements[i] == "table":
            return i
        if placements[i] != "linear" or not has(graph.nodes[i].op, Trait.RESHAPES):
            return None
    return None


def wide_square(
    graph: Graph, i: int, known: list[Range], finest: list[int]
) -> int | None:
    """The frac at which the high ring takes the few outliers of a tensor whose squares
    are summed up; None of any other product. In the low ring their largest leave the
    others hardly a bit, and they are so few that nothing else of them counts."""
    u, other = graph.nodes[i].inputs
    node = graph.nodes[u]
    if u != other or node.op != "slice" or not is_small(graph, u, node.inputs[0]):
        return None
    usual = PRECISION - math.floor(math.log2(known[u].rms))
    return min(usual, finest[u], (finest[i] + BITS) // 2)
