"""public: an operation on public values, as every party computes it alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ditto.operations import evaluate, evaluate_plain
from ditto.plan import Params
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    demand,
)
from ditto.steps.rules import listed, publics, result_signature


@dataclass(frozen=True)
class PublicOperation(StepDefinition):
    """An operation of the table with its parameters."""

    name = "public"
    operation: str
    params: Params

    def check(self, site: Site) -> None:
        """On public values, with the result that the operation gives."""
        fits = len(publics(site)) == len(site.operands) and site.result.is_public
        demand(fits, "takes and makes public values", listed(site.operands))
        taken = [(x.shape, x.dtype) for x in site.operands]
        expected = result_signature(self.operation, self.params, taken)
        got = (site.result.shape, site.result.dtype)
        demand(got == expected, f"gives {expected}", got)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Every party for itself."""
        values = [np.asarray(x) for x in operands]
        return [evaluate_plain(self.operation, self.params, values)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """In JAX."""
        return [evaluate(self.operation, self.params, operands)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """None: everybody computes the same."""
        return [jnp.zeros(site.result.shape)]

    def describe(self, site: Site) -> str:
        """The operation."""
        return self.operation
