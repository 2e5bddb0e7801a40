"""lookup: the rows of a shared table that secret indices select."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ditto.plan import Representation
from ditto.protocols import Rounds, lookup, product_cost
from ditto.protocols.recast import Conversion
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepCost,
    StepDefinition,
    as_indices,
    as_shared,
    demand,
)
from ditto.steps.conversion import convert, converted_error, target_of
from ditto.steps.rules import (
    demand_operands,
    demand_rounds,
    demand_shape,
    listed,
    shared_type,
)


@dataclass(frozen=True)
class Lookup(StepDefinition):
    """Takes indices and a table; a recast of the rows is in the same rounds."""

    name = "lookup"
    interactive = True
    rounds: Rounds

    def check(self, site: Site) -> None:
        """Indices of the table's length, in the low ring."""
        demand_operands(site, 2)
        indices, table = site.operands
        fits = (
            indices.representation is Representation.INDICES
            and table.is_shared
            and site.result.is_shared
        )
        demand(fits, "takes indices and a shared table", listed(site.operands))
        source, held = shared_type(table), shared_type(indices)
        low = source.bits == held.bits == 32 and held.frac == 0
        demand(low, "is in the low ring", listed(site.operands))
        rows = table.shape[0]
        demand(indices.shape[-1] == rows, f"selects one of {rows} rows", indices)
        demand_shape(site, (*indices.shape[:-1], *table.shape[1:]))
        if source != shared_type(site.result):
            Conversion(source, shared_type(site.result))
        demand_rounds(self.rounds)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As a product of as many results."""
        source, target = site.operands[1].fxp, site.result.fxp
        to = target_of(source, target)
        cost = product_cost(
            site.result.size, source, to, self.rounds, checked=site.checked
        )
        return StepCost(cost.bits, cost.rounds)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """By the protocol."""
        indices, table = as_indices(operands[0]), as_shared(operands[1])
        to = target_of(table.type, site.result.fxp)
        rows = lookup(
            runner.party, indices, table, to, self.rounds, checked=site.checked
        )
        return [rows]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The rows, rounded as the recast does."""
        indices, table = operands
        kinds = site.operands[1].fxp, site.result.fxp
        return [convert(table[indices], *kinds, site.index, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """That of the rows, then of the recast."""
        rows = errors[1][operands[0]]
        kinds = site.operands[1].fxp, site.result.fxp
        return [converted_error(rows, *kinds, fused=True)]

    def describe(self, site: Site) -> str:
        """Tells whether a recast is in it."""
        fused = site.operands[1].type != site.result.type
        return f"{self.name} + recast" if fused else self.name

    def multiplications(self, site: Site) -> float:
        """Every key meets every row."""
        indices, table = site.operands
        return 2.0 * indices.size * table.size / table.shape[0]

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)
