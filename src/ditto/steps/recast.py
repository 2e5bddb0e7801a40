"""recast: shares in another ring, or with fewer or more fraction bits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from ditto.protocols import Rounds, recast_cost
from ditto.protocols.paper import (
    downcast_paper_cost,
    downcast_paper_task,
    upcast_paper_cost,
    upcast_paper_task,
)
from ditto.protocols.party import Task
from ditto.protocols.recast import Conversion, recast_task
from ditto.protocols.recast_in_place import recast_in_place_cost, recast_in_place_task
from ditto.sharing import Shared
from ditto.steps.base import (
    Arithmetic,
    Batchable,
    Held,
    Numbers,
    Site,
    StepCost,
    as_shared,
    demand,
)
from ditto.steps.conversion import convert, converted_error
from ditto.steps.rules import (
    demand_operands,
    demand_rounds,
    demand_shape,
    shared_type,
)


@dataclass(frozen=True)
class Recast(Batchable):
    """By our protocol, in one round to three, or provable; or by the paper's casts."""

    name = "recast"
    rounds: Rounds
    casts: Literal["ours", "paper"]

    def check(self, site: Site) -> None:
        """Types that the protocol converts between; the shape stays."""
        demand_operands(site, 1)
        (x,) = site.operands
        source, target = shared_type(x), shared_type(site.result)
        conversion = Conversion(source, target)
        demand_shape(site, x.shape)
        demand_rounds(self.rounds)
        if self.casts == "paper":
            upward = target.bits > source.bits
            possible = not conversion.cut if upward else conversion.is_local
            fits = possible and not (conversion.lift and not upward)
            demand(fits, "is a cast of the paper", f"{source} to {target}")

    def _upward(self, site: Site) -> bool:
        return site.result.fxp.bits > site.operands[0].fxp.bits

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        source, target, size = site.operands[0].fxp, site.result.fxp, site.result.size
        if self.casts == "paper":
            declared = upcast_paper_cost if self._upward(site) else downcast_paper_cost
            cost = declared(size, source, target)
        elif site.provable:
            cost = recast_in_place_cost(size, source, target, checked=site.checked)
        else:
            cost = recast_cost(size, source, target, self.rounds, checked=site.checked)
        return StepCost(cost.bits, cost.rounds)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x, target = as_shared(operands[0]), site.result.fxp
        if self.casts == "paper":
            upward = self._upward(site)
            paper_task = upcast_paper_task if upward else downcast_paper_task
            return paper_task(x, target)
        if site.provable:
            return recast_in_place_task(x, target, checked=site.checked)
        return recast_task(x, target, self.rounds, checked=site.checked)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """As the protocol rounds; the paper's local shift rounds down, and more."""
        (x,), source, target = operands, site.operands[0].fxp, site.result.fxp
        if self.casts == "paper" and not self._upward(site):
            return [arithmetic.down(x * 2.0 ** (target.frac - source.frac)) - 1]
        return [convert(x, source, target, site.index, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Both sides round by themselves."""
        source, target = site.operands[0].fxp, site.result.fxp
        provable = site.provable and self.casts == "ours"
        return [
            converted_error(errors[0], source, target, fused=False, provable=provable)
        ]

    def is_proved(self, site: Site) -> bool:
        """If it is provable, or there is nothing to prove."""
        free = Conversion(site.operands[0].fxp, site.result.fxp).is_free
        return free or (site.provable and self.casts == "ours")

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return None if self.casts == "paper" else replace(self, rounds=rounds)
