"""sums: which of them are recast as a whole, rather than by their terms or their users.

Where all terms come from public factors, as those of a rotation do, one recast of the
sum serves for all of them. Where a sum is a term of another, as in a residual stream,
it is carried on at the finest frac of its terms; if all that follows asks for less, one
recast saves those of every layer after it.

A term that nothing else takes is made as fine as those that it is added to are: the
sum is that fine anyway, and the fewer bits a recast cuts, the less it costs.
"""

from collections.abc import Iterator, Mapping, Set
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
    joined: Mapping[int, int]
    """The sum of every term that nothing else takes."""

    def is_recast(self, i: int, finer: int) -> bool:
        """Whether node i, so many bits finer than is asked for, is recast at once."""
        if i in self.of_scales:
            return finer > 0
        return i in self.of_others and finer > CLOSE

    def beside(self, graph: Graph, i: int) -> Iterator[int]:
        """The other terms that are added up with a term, also in sums of its sum."""
        while i in self.joined:
            total = self.joined[i]
            yield from (u for u in graph.nodes[total].inputs if u != i)
            i = total


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
    of_others = {i for i in adding if adding.intersection(users[i])}
    alone = {u for u in range(len(users)) if len(users[u]) == 1} - set(graph.outputs)
    joined = {u: i for i in adding for u in graph.nodes[i].inputs if u in alone}
    return Sums(of_scales, terms, of_others, joined)
