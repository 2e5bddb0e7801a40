"""sums: which of them are recast as a whole, rather than by their terms or their users.

Where all terms come from public factors, as those of a rotation do, one recast of the
sum serves for all of them. Where a sum is a term of another, as in a residual stream,
it is carried on at the finest frac of its terms; if all that follows asks for less, one
recast saves those of every layer after it.
"""

from collections.abc import Set
from dataclasses import dataclass

from ditto.compiler.passes.rings import Placement, power_of_two
from ditto.plan import Graph

CLOSE = 2
"""Bits of precision that are not worth a recast of their own."""


@dataclass(frozen=True)
class Sums:
    """What a graph has of them."""

    of_scales: Set[int]
    """All of whose terms are products with public factors, for this sum alone."""
    terms: Set[int]
    """Those terms."""
    of_others: Set[int]
    """Which are terms of other sums."""

    def is_recast(self, i: int, finer: int) -> bool:
        """Whether node i, so many bits finer than is asked for, is recast at once."""
        if i in self.of_scales:
            return finer > 0
        return i in self.of_others and finer > CLOSE


def find_sums(graph: Graph, placements: list[Placement]) -> Sums:
    """The sums of numbers that are secret."""
    users = graph.users()
    adding = {
        i
        for i, node in enumerate(graph.nodes)
        if node.op in ("add", "sub")
        and node.dtype == "float32"
        and placements[i] == "linear"
    }

    def is_scale_of(u: int, i: int) -> bool:
        scales = placements[u] == "scale" and power_of_two(graph, u) is None
        return scales and users[u] == [i] and u not in graph.outputs

    of_scales = {
        i for i in adding if all(is_scale_of(u, i) for u in graph.nodes[i].inputs)
    }
    terms = {u for i in of_scales for u in graph.nodes[i].inputs}
    return Sums(of_scales, terms, {i for i in adding if adding.intersection(users[i])})
