"""table_function: the reciprocal or inverse root of few values, by a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols import TableFunction as Table
from ditto.protocols import table_function_cost
from ditto.protocols.party import Task
from ditto.protocols.table_function import table_function_task
from ditto.sharing import Shared
from ditto.steps.base import (
    Arithmetic,
    Batchable,
    Cells,
    Held,
    Numbers,
    Place,
    Site,
    StepCost,
    as_shared,
)
from ditto.steps.rules import (
    demand_operands,
    demand_shape,
    shared_type,
)


@dataclass(frozen=True)
class TableFunction(Batchable):
    """Of factor * x + summand, for integers from ``low`` to ``high``."""

    name = "table_function"
    function: Literal["reciprocal", "rsqrt"]
    factor: float
    summand: float
    widths: Literal[1, 2]
    low: int
    high: int

    def table(self, source: FxpType, target: FxpType) -> Table:
        """The protocol's table between two types."""
        ends = (self.low, self.high, self.factor, self.summand)
        return Table(self.function, source, target, *ends, self.widths)

    def _table(self, site: Site) -> Table:
        return self.table(site.operands[0].fxp, site.result.fxp)

    def check(self, site: Site) -> None:
        """A table that the protocol has, between the types; the shape stays."""
        demand_operands(site, 1)
        (x,) = site.operands
        demand_shape(site, x.shape)
        self.table(shared_type(x), shared_type(site.result))

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        cost = table_function_cost(site.result.size, self._table(site))
        return StepCost(cost.bits, cost.rounds)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x = as_shared(operands[0])
        return table_function_task(x, self._table(site), checked=site.checked)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The function itself; the table's error is in the bound."""
        table = self._table(site)
        place = Place(site.index, table.low, table.high, table.source.ulp, table.pole)
        x = arithmetic.noted(operands[0], place, [_cells(table)])
        y = _values(table, x)
        return [arithmetic.nearest(y * 2.0**site.result.fxp.frac)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """What the operand's error changes, and the table's own."""
        table = self._table(site)
        x, e = operands[0], errors[0]
        lowest = jnp.maximum(x - e, table.low)
        y, near = (_values(table, v) for v in (x, lowest))
        return [jnp.abs(near - y) * 2.0**site.result.fxp.frac + table.error + 1]

    def describe(self, site: Site) -> str:
        """The function."""
        return self.function


def _values(table: Table, x: Numbers) -> Numbers:
    """The function of a table, of integers."""
    y = table.factor * x * table.source.ulp + table.summand
    return 1 / (y if table.function == "reciprocal" else jnp.sqrt(y))


def _cells(table: Table) -> Cells:
    """Those of the wider cells: they see what is beyond the table, and little below."""
    low, last = float(table.low), table.scales[-1]
    width = 2.0**last.cut
    return Cells(low, width, last.cells, range(last.needed), low - width)
