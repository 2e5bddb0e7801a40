"""choice: where types are chosen for what is proved instead of what samples showed.

A recast that is checked flags every value beyond its limit for certain, as long as it
is below twice the limit. So half of a proven bound is enough for a type: what leaves
its range is then caught, and what does not comes out right.

What has no proof that is worth its bits rests on the samples. If they went much further
in some of them than in most, the next text may go further still: then it gets more room
than the profile's margin, up to twice as much.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from ditto.compiler.bounds.prover import Proof
from ditto.compiler.calibrate import Range
from ditto.plan import Graph

MOST_BITS = 1
"""What a proof may cost: bits of a type beyond those of the samples' range with its
margin. With one, MiniLM's answers are as near to float as without proofs, with two the
error is a tenth larger; 94 % of its recasts are certain with one, 96 % with two."""
_USUAL_SPREAD, _MOST_ROOM = 2.0, 2.0
"""How many times further than most a sample may go before its tensor gets more room,
and how much more it gets at most."""


def take_proven(
    graph: Graph, known: Sequence[Range], margins: Sequence[float], proof: Proof
) -> list[Range]:
    """The ranges, reaching half as far as is proved where that costs few bits, and
    further than the samples where they differ and nothing is proved."""
    found = list(known)
    for i, node in enumerate(graph.nodes):
        bound, half = known[i].largest * margins[i], proof.largest(i) / 2
        if node.dtype != "float32" or bound == 0 or half == 0:
            continue
        cost = math.inf
        if math.isfinite(half):
            cost = math.frexp(half)[1] - math.frexp(bound)[1]
        if 0 < cost <= MOST_BITS:
            found[i] = replace(known[i], high=half / margins[i])
        elif cost > MOST_BITS and margins[i] > 1:  # weights do not vary
            room = min(max(known[i].spread / _USUAL_SPREAD, 1.0), _MOST_ROOM)
            found[i] = replace(known[i], high=known[i].largest * room)
    return found
