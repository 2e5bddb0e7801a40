"""affine: a sum of shares times public integers, plus a public integer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ditto.fixedpoint import Words
from ditto.sharing import Rank, Shared
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
from ditto.steps.rules import demand_shape, listed, shared_type

_LARGEST = 1 << 48
"""Sums may wrap around and come back, so a bias may be larger than the ring."""


@dataclass(frozen=True)
class Affine(StepDefinition):
    """By each party alone; coefficients and bias are integers at the result's frac."""

    name = "affine"
    coefficients: tuple[int, ...]
    bias: int

    def check(self, site: Site) -> None:
        """A coefficient for each operand, all in the low ring and of one shape."""
        count, operands = len(self.coefficients), site.operands
        fits = count == len(operands) > 0
        demand(fits, f"takes {count} operands, one or more", listed(operands))
        largest = max(abs(n) for n in (*self.coefficients, self.bias))
        demand(largest < _LARGEST, f"has integers below {_LARGEST}", largest)
        for value in (*operands, site.result):
            demand(shared_type(value).bits == 32, "is in the low ring", value)
            demand_shape(site, value.shape)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share; the bias is in share 0."""
        kind, rank = site.result.fxp, runner.party.rank
        weights = [kind.ring.scalar(c) for c in self.coefficients]
        held = [as_shared(x) for x in operands]

        def total(parts: Sequence[Words], has_bias: bool) -> Words:
            bias = kind.ring.scalar(self.bias if has_bias else 0)
            result: Words = np.full(site.result.shape, bias)
            for weight, part in zip(weights, parts, strict=True):
                result = np.add(result, np.multiply(part, weight))
            return result

        first = total([x.first for x in held], rank == Rank.P0)
        second = total([x.second for x in held], rank == Rank.P2)
        return [Shared(first, second, kind)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """On integers."""
        terms = zip(self.coefficients, operands, strict=True)
        return [cast(Numbers, sum(float(c) * x for c, x in terms)) + float(self.bias)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Times the coefficients' sizes."""
        terms = zip(self.coefficients, errors, strict=True)
        return [cast(Numbers, sum(abs(c) * e for c, e in terms))]
