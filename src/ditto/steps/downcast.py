"""downcast: shares without last bits, in a ring that is as much smaller, or more."""

from collections.abc import Sequence
from dataclasses import dataclass

from ditto.protocols.recast import Conversion, recast_for_free
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    as_shared,
    demand,
)
from ditto.steps.conversion import convert, converted_error
from ditto.steps.rules import demand_operands, demand_shape, shared_type


@dataclass(frozen=True)
class Downcast(StepDefinition):
    """The recast that sends nothing: each share is shifted where it is."""

    name = "downcast"

    def check(self, site: Site) -> None:
        """Types between which nothing carries; the shape stays."""
        demand_operands(site, 1)
        (x,) = site.operands
        source, target = shared_type(x), shared_type(site.result)
        local = Conversion(source, target).is_local
        demand(local, "cuts no more bits than the ring loses", f"{source} to {target}")
        demand_shape(site, x.shape)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """The shifted shares."""
        return [recast_for_free(as_shared(operands[0]), site.result.fxp)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """As a recast rounds."""
        kinds = site.operands[0].fxp, site.result.fxp
        return [convert(operands[0], *kinds, site.index, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Both sides round by themselves."""
        kinds = site.operands[0].fxp, site.result.fxp
        return [converted_error(errors[0], *kinds, fused=False)]
