"""exponential: e^x of values that lie on a grid, as a softmax wants it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols import Exponential as Function
from ditto.protocols import Grid, Rounds, exponential_cost
from ditto.protocols.exponential import exponential_task
from ditto.protocols.party import Task
from ditto.sharing import Shared
from ditto.steps.base import (
    Arithmetic,
    Batchable,
    Held,
    Numbers,
    Place,
    Site,
    StepCost,
    as_shared,
    demand,
)
from ditto.steps.grid import grid_cells
from ditto.steps.rules import (
    demand_operands,
    demand_rounds,
    demand_shape,
    shared_type,
)


@dataclass(frozen=True)
class Exponential(Batchable):
    """Of integers from ``low`` to ``high``, with cells 2^``cut`` wide."""

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
        grid = Grid(source, self.low, self.high, self.cut)
        return Function(grid, target, self.table_frac, self.factor_frac, self.far_words)

    def _function(self, site: Site) -> Function:
        return self.between(site.operands[0].fxp, site.result.fxp)

    def check(self, site: Site) -> None:
        """A function that the protocol has, between types of the low ring."""
        demand_operands(site, 1)
        (x,) = site.operands
        source, target = shared_type(x), shared_type(site.result)
        low = source.bits == target.bits == 32
        demand(low, "is in the low ring", f"{source} to {target}")
        demand_shape(site, x.shape)
        self.between(source, target)
        demand_rounds(self.rounds)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        cost = exponential_cost(
            site.result.size, self._function(site), self.rounds, checked=site.checked
        )
        return StepCost(cost.bits, cost.rounds)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x = as_shared(operands[0])
        return exponential_task(
            x, self._function(site), self.rounds, checked=site.checked
        )

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """e^x, rounded as the recast does; far below zero nothing.

        Whether it is nothing in the cell between depends on what is cut off, as in a
        recast; its draw is none of those of the plan's other steps.
        """
        function = self._function(site)
        grid, kind = function.grid, site.operands[0].fxp
        # a coarse maximum was taken off, so that there is no end above to come near to
        place = Place(site.index, grid.low, math.inf, kind.ulp)
        x = arithmetic.noted(operands[0], place, grid_cells(grid, self.far_words))
        own_draw = site.index + len(site.plan.steps)
        level = arithmetic.cut(x - grid.base, grid.cut, own_draw)
        y = jnp.where(level < function.live.start, 0.0, jnp.exp(x * kind.ulp))
        cut = function.product.frac - site.result.fxp.frac
        exact = y * 2.0**function.product.frac
        if cut <= 0:
            return [exact * 2.0**-cut]
        return [arithmetic.cut(exact, cut, site.index)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """What the operand's error changes; both sides may take a small value for
        nothing, and round by themselves."""
        function = self._function(site)
        (x,), (e,), ulp = operands, errors, site.operands[0].fxp.ulp
        y = jnp.exp(x * ulp)
        moved = jnp.maximum(jnp.exp((x + e) * ulp) - y, y - jnp.exp((x - e) * ulp))
        return [moved / site.result.fxp.ulp + 2 * function.error]

    def describe(self, site: Site) -> str:
        """The function."""
        return "exp"

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)
