"""coarse_max: the maximum over the last axis, on a grid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols import Grid, Rounds, coarse_max, coarse_max_cost
from ditto.protocols.coarse_max import check_levels
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Place,
    Runner,
    Site,
    StepCost,
    StepDefinition,
    as_shared,
    demand,
)
from ditto.steps.grid import grid_cells
from ditto.steps.rules import (
    LOW_RINGS,
    demand_operands,
    demand_rounds,
    demand_shape,
    shared_type,
)


@dataclass(frozen=True)
class CoarseMax(StepDefinition):
    """A grid from ``low`` to ``high`` with steps of 2^``cut``; integers up to
    ``hidden`` stand for what a mask hides."""

    name = "coarse_max"
    interactive = True
    low: int
    high: int
    cut: int
    hidden: int
    rounds: Rounds

    def grid(self, kind: FxpType) -> Grid:
        """On which values of a type are compared."""
        return Grid(kind, self.low, self.high, self.cut)

    def check(self, site: Site) -> None:
        """Over the last axis of values of the low ring, whose type stays."""
        demand_operands(site, 1)
        (x,) = site.operands
        kind = shared_type(x)
        demand(len(x.shape) > 0 and x.shape[-1] > 0, "takes rows of elements", x)
        demand_shape(site, x.shape[:-1])
        same = kind == shared_type(site.result) and kind.bits in LOW_RINGS
        demand(same, "keeps a type of the low ring", f"{x} to {site.result}")
        check_levels(self.grid(kind))
        limit = kind.limit + 1
        demand(abs(self.hidden) <= limit, f"hides integers to {limit}", self.hidden)
        demand_rounds(self.rounds, most=2)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        (x,) = site.operands
        grid = self.grid(x.fxp)
        cost = coarse_max_cost(
            site.result.size, x.shape[-1], grid, self.rounds, checked=site.checked
        )
        return StepCost(cost.bits, cost.rounds)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """By the protocol."""
        x = as_shared(operands[0])
        top = coarse_max(
            runner.party, x, self.grid(x.type), self.rounds, checked=site.checked
        )
        return [top.map(lambda share: share.reshape(site.result.shape))]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """Levels, rounded as the protocol does; those beyond the grid count around."""
        kind = site.result.fxp
        grid = self.grid(kind)
        ends = (grid.low, grid.high)
        place = Place(site.index, *ends, kind.ulp, hidden=self.hidden)
        cells = grid_cells(grid, grid.words_of_ring)
        x = arithmetic.noted(operands[0], place, cells)
        level = arithmetic.level((x - grid.base) * 2.0**-grid.cut, site.index)
        return [jnp.max(level, axis=-1) * 2.0**grid.cut + grid.base]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Either side is less than a step from the maximum it saw."""
        return [jnp.max(errors[0], -1) + 2.0 ** (1 + self.cut)]

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return None if rounds > 2 else replace(self, rounds=rounds)
