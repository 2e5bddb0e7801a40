"""remainders: products that take what rounding leaves of their operands, too.

A product in the low ring leaves its operands some 25 bits together. Where that is not
enough, an operand is carried finer than the product takes it, and what rounding leaves
of it, its remainder, goes through a second product:

    a b = round(a) b + (a - round(a)) b

A remainder is less than two units of the coarser type, so its product is small, and its
type may be that much finer: it fits whatever the values are. The shares of b serve both
products, so a weight keeps its one type. It costs a recast of the operand and one more
product.

Where a product has few results beside what it sums up, as the last map of a
feed-forward, the second product costs little: there the weight is taken finer too, and
the other operand as much coarser.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.rings import Placement, power_of_two
from ditto.fixedpoint import Array
from ditto.operations import Trait, has
from ditto.plan import Graph

Mode = Literal["none", "few", "all"]
"""Which products take them. ``few``: those of few results, and the weights of a
softmax: beside a token that most of the attention goes to, all others' are small."""

_BITS = 4
"""How much finer an operand is taken: by then others round more."""
_LEAN = 3
"""How much finer a weight is taken where the second product costs little."""
_OFF = 1
"""A recast is off by less than so many doublings of its unit."""
_LOW_BITS = 30
"""Of a legal value in the low ring."""
_LEAST = 2.0**-30
"""Of what a remainder is multiplied by, at least."""
_SMALL = 16
"""How many times smaller an operand is than a result that it multiplies a row of."""
_MOVES = Trait.RESHAPES | Trait.KEEPS_NUMBERS | Trait.KEEPS_RANGE


@dataclass(frozen=True)
class Remainders:
    """Which products of a graph take remainders, and how fine these are."""

    mode: Mode
    graph: Graph
    placements: list[Placement]
    known: list[Range]
    margins: list[float]
    finest: list[int]
    """The finest frac of each node."""
    fixed: Set[int]
    """See ``find_fixed``."""
    weights: Mapping[int, Array]
    """Weights themselves."""
    users: list[list[int]]

    def leaned(self, i: int, fracs: tuple[int, ...]) -> tuple[int, ...]:
        """The fracs of a product's operands, of which a weight takes more, if the other
        operand's remainder makes up for it."""
        if not self._is_narrow(i):
            return fracs
        first, second = self.graph.nodes[i].inputs
        weight, other = (first, second) if first in self.weights else (second, first)
        if weight in self.fixed or not self._takes(i, other):
            return fracs
        k = int(weight == second)
        more = max(0, min(_LEAN, self.finest[weight] - fracs[k]))
        signed = -more if k else more
        return fracs[0] + signed, fracs[1] - signed

    def finer(self, i: int, fracs: tuple[int, ...]) -> tuple[int, ...]:
        """The fracs that the operands of a product are wanted in, remainders and all,
        where the product itself takes these."""
        a, b = self.graph.nodes[i].inputs
        bits = _BITS + (_LEAN if self._is_narrow(i) else 0)

        def finest(k: int, u: int, other: int) -> int:
            if not self._takes(i, u):
                return fracs[k]
            doublings = math.ceil(math.log2(self._gain(i, other))) + _OFF - fracs[k]
            room = _LOW_BITS - doublings - fracs[1 - k]
            return max(fracs[k], min(fracs[k] + bits, room))

        return finest(0, a, b), finest(1, b, a)

    def _takes(self, i: int, u: int) -> bool:
        """Whether product i takes the remainder of operand u."""
        node, operand = self.graph.nodes[i], self.graph.nodes[u]
        if self.mode == "none" or u in self.fixed or u in self.weights:
            return False
        if len({*node.inputs}) < 2:  # a square
            return False
        if node.op != "dot_general":
            return self.mode == "all" and _SMALL * operand.size <= node.size
        return self.mode == "all" or self._is_narrow(i) or self._is_share(u)

    def _is_narrow(self, i: int) -> bool:
        """Whether a product beside a weight has few results of an operand that nothing
        else takes."""
        node = self.graph.nodes[i]
        others = [u for u in node.inputs if u not in self.weights]
        if node.op != "dot_general" or len(others) != 1:
            return False
        taken = self.graph.nodes[others[0]]
        return self.users[others[0]] == [i] and 2 * node.size <= taken.size

    def _is_share(self, u: int) -> bool:
        """Whether an operand is what exp makes of scores."""
        while self.graph.nodes[u].op == "select_n":
            u = self.graph.nodes[u].inputs[-1]
        return self.placements[u] == "exponential"

    def _gain(self, i: int, other: int) -> float:
        """How many times as far as an operand a product may go, at most."""
        node, operand = self.graph.nodes[i], self.graph.nodes[other]
        times = self.known[other].largest * self.margins[other]
        if node.op == "dot_general":
            summed = node.params["dimension_numbers"][0][node.inputs.index(other)]
            if other in self.weights:
                times = float(np.abs(self.weights[other]).sum(tuple(summed)).max())
            else:
                times *= math.prod(operand.shape[x] for x in summed)
        return max(times, _LEAST)


def find_fixed(
    graph: Graph,
    placements: list[Placement],
    retained: Set[int],
    pinned: Set[int],
    weights: Set[int],
) -> set[int]:
    """What keeps its type whatever products ask for: what is pinned; what is retained,
    with all that is moved about of the same node, as queries are of a matrix that makes
    keys too; and what is moved about of weights."""
    kept = set(retained)
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i in kept and _moves(graph, placements, i):
            kept.update(u for u in graph.nodes[i].inputs if placements[u] != "public")
    moved = set(weights)
    for i, node in enumerate(graph.nodes):
        if _moves(graph, placements, i):
            for found in (kept, moved):
                if not found.isdisjoint(node.inputs):
                    found.add(i)
    return kept | pinned | (moved - weights)


def _moves(graph: Graph, placements: list[Placement], i: int) -> bool:
    """Whether a node has the integers of its operands, perhaps at another frac."""
    if placements[i] == "scale":
        return power_of_two(graph, i) is not None
    return placements[i] == "linear" and has(graph.nodes[i].op, _MOVES)
