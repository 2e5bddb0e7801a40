"""rescale: times a power of two, by reading the same integers at another frac."""

from collections.abc import Sequence
from dataclasses import dataclass

from ditto.sharing import Shared
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
from ditto.steps.rules import demand_operands, demand_shape, shared_type


@dataclass(frozen=True)
class Rescale(StepDefinition):
    """The factor is 2 to the difference of the fracs."""

    name = "rescale"

    def check(self, site: Site) -> None:
        """Ring and shape stay."""
        demand_operands(site, 1)
        (x,) = site.operands
        bits = shared_type(x).bits
        target = shared_type(site.result)
        demand(target.bits == bits, f"makes shares of {bits} bits", target)
        demand_shape(site, x.shape)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """The same shares."""
        x = as_shared(operands[0])
        return [Shared(x.first, x.second, site.result.fxp)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The same integers."""
        return [operands[0]]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """That of the operand."""
        return [errors[0]]
