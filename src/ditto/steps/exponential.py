"""exponential: e^x of values that lie on a grid, as a softmax wants it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols import Exponential as Function
from ditto.protocols import Grid, Rounds
from ditto.steps.base import (
    Arithmetic,
    Numbers,
    Place,
    Site,
)
from ditto.steps.conversion import convert, converted_error
from ditto.steps.grid import OnGrid, converted, grid_cells, own_draw

CELL_BITS = 14
"""log2 of the values that a cell has in the tables: more would not be seen."""


@dataclass(frozen=True)
class Exponential(OnGrid[Function]):
    """Of integers from ``low`` to ``high``, with cells 2^``cut`` wide.

    Cells of more values than tables have are taken without their last bits.
    """

    name = "exponential"
    low: int
    high: int
    cut: int
    table_frac: int
    factor_frac: int
    far_words: int
    rounds: Rounds

    def between(self, source: FxpType, target: FxpType) -> Function:
        """The protocol's function between two types."""
        drop = max(0, self.cut - CELL_BITS)
        kind = FxpType(source.bits - drop, source.frac - drop)
        low, high = self.low >> drop, -(-self.high >> drop)
        grid = Grid(kind, low, high, self.cut - drop)
        return Function(grid, target, self.table_frac, self.factor_frac, self.far_words)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """e^x, rounded as the recast does; far below zero nothing.

        Whether it is nothing in the cell between depends on what is cut off, as in a
        recast; its draw is none of those of the plan's other steps.
        """
        function = self.function_at(site)
        grid, kind = function.grid, function.grid.type
        # a coarse maximum was taken off, so that there is no end above to come near to
        place = Place(site.index, grid.low, math.inf, kind.ulp)
        source, third = site.operands[0].fxp, own_draw(site) + len(site.plan.steps)
        x = convert(operands[0], source, kind, third, arithmetic)
        x = arithmetic.noted(x, place, grid_cells(grid, self.far_words))
        level = arithmetic.cut(x - grid.base, grid.cut, own_draw(site))
        y = jnp.where(level < function.live.start, 0.0, jnp.exp(x * kind.ulp))
        return [converted(y, function, site, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """What the operand's error changes; both sides may take a small value for
        nothing, and round by themselves."""
        function = self.function_at(site)
        source, kind = site.operands[0].fxp, function.grid.type
        (x,), (e,) = operands, errors
        x, ulp = x * (source.ulp / kind.ulp), kind.ulp
        e = converted_error(e, source, kind, fused=False)
        y = jnp.exp(x * ulp)
        moved = jnp.maximum(jnp.exp((x + e) * ulp) - y, y - jnp.exp((x - e) * ulp))
        return [moved / site.result.fxp.ulp + 2 * function.error]

    def describe(self, site: Site) -> str:
        """The function."""
        return "exp"

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)
