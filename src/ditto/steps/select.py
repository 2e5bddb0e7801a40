"""select: one of several operands for each element, by a public choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import Words
from ditto.sharing import Shared
from ditto.steps.alignment import aligned, errors_at, integers_at
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    demand,
)
from ditto.steps.rules import (
    demand_broadcast,
    demand_numbers,
    demand_sum,
    listed,
)


@dataclass(frozen=True)
class Select(StepDefinition):
    """The operand whose number the first operand tells, from 0."""

    name = "select"

    def check(self, site: Site) -> None:
        """A public choice between two or more operands of the low ring."""
        demand(len(site.operands) >= 3, "takes a choice and two cases or more")
        which, *cases = site.operands
        whole = which.dtype == "bool" or which.dtype.startswith(("int", "uint"))
        demand(which.is_public and whole, "chooses by public integers", which)
        demand_numbers(cases)
        two = which.dtype != "bool" or len(cases) == 2
        demand(two, "chooses between two cases by bits", listed(cases))
        demand_sum(cases, site.result)
        demand_broadcast(site)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share."""
        which, *cases = operands
        shape, kind = site.result.shape, site.result.fxp
        shares = aligned(runner.party, cases, kind)
        public = np.asarray(which)

        def choose(side: str) -> Words:
            parts = [getattr(s, side) for s in shares]
            if len(parts) == 2:
                chosen = np.where(public.astype(np.bool_), parts[1], parts[0])
                return np.broadcast_to(chosen, shape)
            wide = [np.broadcast_to(part, shape) for part in parts]
            choices = np.broadcast_to(public.astype(np.int64), shape)
            return np.choose(choices, wide)

        return [Shared(choose("first"), choose("second"), kind)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """At the result's frac."""
        which, *cases = operands
        pairs = zip(cases, site.operands[1:], strict=True)
        kind = site.result.fxp
        moved = [integers_at(x, held, kind, arithmetic) for x, held in pairs]
        return [_chosen(which, moved, site.result.shape)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """That of the chosen operand."""
        moved = errors_at(errors[1:], site.operands[1:], site.result.fxp)
        return [_chosen(operands[0], moved, site.result.shape)]


def _chosen(
    which: Numbers, cases: Sequence[Numbers], shape: tuple[int, ...]
) -> Numbers:
    """Case by case: gradients of a gather would be scattered, which takes long."""
    choices = jnp.asarray(which, jnp.int32)
    chosen = cases[0]
    for k, case in enumerate(cases[1:], 1):
        chosen = jnp.where(choices >= k, case, chosen)
    return jnp.broadcast_to(chosen, shape)
