"""add, sub, neg: sums and differences, by each party alone."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ditto.protocols import add, negate, subtract
from ditto.sharing import Shared
from ditto.steps.alignment import aligned, errors_at, integers_at
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
from ditto.steps.rules import (
    demand_broadcast,
    demand_numbers,
    demand_operands,
    demand_sum,
)


class _OfTwo(StepDefinition):
    """A sum or difference of two operands at one frac, one of which may be public."""

    @abstractmethod
    def join(self, x: Numbers, y: Numbers) -> Numbers:
        """The result on integers."""

    @abstractmethod
    def join_shares(self, x: Shared, y: Shared) -> Shared:
        """The result on shares."""

    def check(self, site: Site) -> None:
        """On numbers of the low ring."""
        demand_operands(site, 2)
        demand_numbers(site.operands)
        demand_sum(site.operands, site.result)
        demand_broadcast(site)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share."""
        x, y = aligned(runner.party, operands, site.result.fxp)
        return [self.join_shares(x, y)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """At the result's frac."""
        x, y = (
            integers_at(number, held, site.result.fxp, arithmetic)
            for number, held in zip(operands, site.operands, strict=True)
        )
        return [self.join(x, y)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Those of the operands together."""
        x, y = errors_at(errors, site.operands, site.result.fxp)
        return [x + y]


@dataclass(frozen=True)
class Add(_OfTwo):
    """A sum."""

    name = "add"

    def join(self, x: Numbers, y: Numbers) -> Numbers:
        """x + y."""
        return x + y

    def join_shares(self, x: Shared, y: Shared) -> Shared:
        """x + y."""
        return add(x, y)


@dataclass(frozen=True)
class Sub(_OfTwo):
    """A difference."""

    name = "sub"

    def join(self, x: Numbers, y: Numbers) -> Numbers:
        """x - y."""
        return x - y

    def join_shares(self, x: Shared, y: Shared) -> Shared:
        """x - y."""
        return subtract(x, y)


@dataclass(frozen=True)
class Neg(StepDefinition):
    """A change of sign."""

    name = "neg"

    def check(self, site: Site) -> None:
        """On shares of the low ring; the type stays."""
        demand_operands(site, 1)
        demand_sum(site.operands, site.result)
        demand_broadcast(site)
        (x,) = site.operands
        demand(x.type == site.result.type, f"makes {x.type}", site.result.type)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share."""
        return [negate(as_shared(operands[0]))]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """-x."""
        return [-operands[0]]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """That of the operand."""
        return [errors[0]]
