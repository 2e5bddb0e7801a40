"""pinned: fracs that are given, because another plan has chosen them.

Where another plan has shared a weight or keeps a state already, products take it, and
what is only moved about of it, as it is.
"""

from collections.abc import Mapping

from ditto.compiler.calibrate import Range
from ditto.compiler.passes.rings import Placement
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import FxpType
from ditto.operations import Trait, has
from ditto.plan import Graph

BITS = 32
_MOVES = Trait.RESHAPES | Trait.KEEPS_NUMBERS
"""What leaves numbers as they are."""


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


def find_pinned(
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
