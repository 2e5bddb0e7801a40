"""How steps that find values on a grid see those beyond it."""

from ditto.protocols import Grid
from ditto.protocols.blocks import FAR_CELLS
from ditto.steps.base import Cells


def grid_cells(grid: Grid, far_words: int = 1) -> list[Cells]:
    """Levels, and cells far beyond them."""
    base, step = float(grid.base), 2.0**grid.cut
    found = [Cells(base, step, grid.levels, grid.legal, base)]
    for cut, legal in grid.far_cells(far_words):
        found.append(Cells(base, 2.0**cut, FAR_CELLS, range(legal), base))
    return found
