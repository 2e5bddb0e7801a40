"""constant: a public array of the plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp

from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    demand,
)
from ditto.steps.rules import demand_operands


@dataclass(frozen=True)
class Constant(StepDefinition):
    """The array of the plan's constants with an index."""

    name = "constant"
    index: int

    def check(self, site: Site) -> None:
        """The constant is there, and the result is it."""
        count = len(site.plan.constants)
        demand(0 <= self.index < count, f"is one of {count} constants", self.index)
        demand_operands(site, 0)
        array, result = site.plan.constants[self.index], site.result
        demand(result.is_public, "makes a public value", result)
        fits = (array.shape, array.dtype.name) == (result.shape, result.dtype)
        demand(fits, f"makes {array.dtype.name}{list(array.shape)}", result)

    def execute(
        self,
        site: Site,
        operands: Sequence[Held],
        runner: Runner,
    ) -> list[Held]:
        """The array."""
        return [site.plan.constants[self.index]]

    def simulate(
        self,
        site: Site,
        operands: Sequence[Numbers],
        arithmetic: Arithmetic,
    ) -> list[Numbers]:
        """The array."""
        return [jnp.asarray(site.plan.constants[self.index])]

    def error(
        self,
        site: Site,
        operands: Sequence[Numbers],
        errors: Sequence[Numbers],
    ) -> list[Numbers]:
        """None."""
        return [jnp.zeros(site.result.shape)]

    def renumbered(self, constants: Sequence[int], regions: Sequence[int]) -> Self:
        """See StepDefinition."""
        return replace(self, index=constants.index(self.index))

    def constant_used(self) -> int | None:
        """See StepDefinition."""
        return self.index
