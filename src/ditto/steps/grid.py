"""What steps that compute a function of values on a grid have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from ditto.fixedpoint import FxpType
from ditto.protocols import Grid, GridFunction, Rounds
from ditto.protocols.blocks import FAR_CELLS
from ditto.protocols.party import Task
from ditto.sharing import Shared
from ditto.steps.base import (
    Arithmetic,
    Batchable,
    Cells,
    Held,
    Numbers,
    Site,
    StepCost,
    as_shared,
    demand,
)
from ditto.steps.rules import (
    LOW_RINGS,
    demand_operands,
    demand_rounds,
    demand_shape,
    shared_type,
)

F = TypeVar("F", bound=GridFunction)


class OnGrid(Batchable, Generic[F]):
    """A step whose protocol is a function of one operand on a grid."""

    rounds: Rounds

    @abstractmethod
    def between(self, source: FxpType, target: FxpType) -> F:
        """The protocol's function between two types."""

    def function_at(self, site: Site) -> F:
        """The protocol's function between the types of a step."""
        function: F = _made(self, site.operands[0].fxp, site.result.fxp)
        return function

    def check(self, site: Site) -> None:
        """A function that the protocol has, between types of the low ring."""
        demand_operands(site, 1)
        (x,) = site.operands
        source, target = shared_type(x), shared_type(site.result)
        low = source.bits in LOW_RINGS and target.bits == 32
        demand(low, "is in the low ring", f"{source} to {target}")
        demand_shape(site, x.shape)
        self.between(source, target)
        demand_rounds(self.rounds)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        function, count = self.function_at(site), site.result.size
        cost = function.cost(count, self.rounds, checked=site.checked)
        return StepCost(cost.bits, cost.rounds)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x = as_shared(operands[0])
        return self.function_at(site).task(x, self.rounds, checked=site.checked)


@lru_cache(maxsize=1024)
def _made(step: OnGrid[F], source: FxpType, target: FxpType) -> F:
    """Made once for all runs of a plan: a step of a few values takes less time."""
    return step.between(source, target)


def converted(
    y: Numbers, function: GridFunction, site: Site, arithmetic: Arithmetic
) -> Numbers:
    """Real numbers as integers of the result, rounded as the recast at the end does."""
    cut = function.product.frac - function.target.frac
    exact = y * 2.0**function.product.frac
    if cut <= 0:
        return exact * 2.0**-cut
    return arithmetic.cut(exact, cut, site.index)


def own_draw(site: Site) -> int:
    """The index of a draw that is none of those of the plan's other steps."""
    return site.index + len(site.plan.steps)


def grid_cells(grid: Grid, far_words: int = 1) -> list[Cells]:
    """Levels, and cells far beyond them."""
    base, step = float(grid.base), 2.0**grid.cut
    found = [Cells(base, step, grid.levels, grid.legal, base)]
    for cut, legal in grid.far_cells(far_words):
        found.append(Cells(base, 2.0**cut, FAR_CELLS, range(legal), base))
    return found
