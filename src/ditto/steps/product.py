"""multiply, einsum: products of shares, with a recast in the same rounds."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols import Rounds, product_cost, product_type
from ditto.protocols.multiply import einsum_task, multiply_task
from ditto.protocols.party import Task
from ditto.protocols.recast import Conversion
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
from ditto.steps.conversion import convert, converted_error, target_of
from ditto.steps.rules import (
    LOW_RINGS,
    axis_sizes,
    demand_broadcast,
    demand_contraction,
    demand_operands,
    demand_rounds,
    shared_type,
)


def _source(site: Site) -> FxpType:
    """The type of the product before its recast."""
    a, b = (shared_type(x) for x in site.operands)
    return product_type(a, b)


def _target(site: Site) -> FxpType | None:
    return target_of(_source(site), site.result.fxp)


@dataclass(frozen=True)
class _Product(Batchable):
    rounds: Rounds

    @abstractmethod
    def on_integers(self, x: Numbers, y: Numbers) -> Numbers:
        """The product of plain numbers."""

    def check(self, site: Site) -> None:
        """Types that the protocol multiplies and converts between."""
        demand_operands(site, 2)
        source = _source(site)
        plain = source.bits in LOW_RINGS and _target(site) is None
        demand(
            source.bits in (32, 64) or plain, "is in a ring of 32 or 64 bits", source
        )
        Conversion(source, shared_type(site.result))
        demand_rounds(self.rounds)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As the protocol declares."""
        size, source, target = site.result.size, _source(site), _target(site)
        cost = product_cost(
            size,
            source,
            target,
            self.rounds,
            checked=site.checked,
            provable=site.provable,
            audited=site.audited,
        )
        return StepCost(cost.bits, cost.rounds)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """Exact, then rounded as the recast does."""
        exact = self.on_integers(*operands)
        kinds = _source(site), site.result.fxp
        return [convert(exact, *kinds, site.index, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Of both factors, then of the recast."""
        (a, b), (ea, eb) = [jnp.abs(x) for x in operands], errors
        before = self.on_integers(a + ea, eb) + self.on_integers(ea, b)
        kinds = _source(site), site.result.fxp
        return [converted_error(before, *kinds, fused=True, provable=site.provable)]

    def is_proved(self, site: Site) -> bool:
        """With a recast, if that is provable."""
        return site.provable or _target(site) is None

    def describe(self, site: Site) -> str:
        """Tells whether a recast is in it."""
        return f"{self.name} + recast" if _target(site) else self.name

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)


@dataclass(frozen=True)
class Multiply(_Product):
    """Element by element."""

    name = "multiply"

    def on_integers(self, x: Numbers, y: Numbers) -> Numbers:
        """x * y."""
        return x * y

    def check(self, site: Site) -> None:
        """Operands of a common shape, in a ring whose claims are proved as they are."""
        super().check(site)
        source = _source(site)
        demand(source.bits in (32, 64), "is in a ring of 32 or 64 bits", source)
        demand_broadcast(site)

    def proof_terms(self, site: Site) -> float:
        """Besides, a factor for whole rows is a product of matrices: two terms for each
        row, in each of three parts at most."""
        smaller = min(operand.size for operand in site.operands)
        broadcast = smaller < site.result.size
        return super().proof_terms(site) + (2 * 3 * smaller if broadcast else 0)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x, y = (as_shared(operand) for operand in operands)
        return multiply_task(
            x,
            y,
            _target(site),
            self.rounds,
            checked=site.checked,
            provable=site.provable,
        )


@dataclass(frozen=True)
class Einsum(_Product):
    """A contraction, as einsum writes it."""

    name = "einsum"
    subscripts: str

    def on_integers(self, x: Numbers, y: Numbers) -> Numbers:
        """The contraction of x and y."""
        return jnp.einsum(self.subscripts, x, y)

    def check(self, site: Site) -> None:
        """Subscripts that fit the shapes."""
        super().check(site)
        demand_contraction(site, self.subscripts)

    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """See Batchable."""
        x, y = (as_shared(operand) for operand in operands)
        return einsum_task(
            self.subscripts,
            x,
            y,
            _target(site),
            self.rounds,
            checked=site.checked,
            provable=site.provable,
        )

    def proof_terms(self, site: Site) -> float:
        """Besides, rows and columns are added up: of what is left there are two for
        each number that both operands have, in each of three parts at most."""
        sizes = axis_sizes(self.subscripts, site.operands)
        x, y = self.subscripts.partition("->")[0].split(",")
        common = prod(sizes[label] for label in {*x} & {*y})
        return super().proof_terms(site) + 2 * 3 * common

    def multiplications(self, site: Site) -> float:
        """Of the shares of both operands."""
        return 2.0 * prod(axis_sizes(self.subscripts, site.operands).values())
