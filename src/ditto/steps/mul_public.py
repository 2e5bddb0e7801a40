"""mul_public, einsum_public: shares times a public factor, by each party alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import FxpType, Words, encode
from ditto.protocols.kernels import ring_einsum_public
from ditto.sharing import Shared
from ditto.steps.alignment import integers_at
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    as_shared,
)
from ditto.steps.rules import (
    axis_sizes,
    demand_broadcast,
    demand_contraction,
    demand_scaled,
)


def _encoded(operands: Sequence[Held], frac: int) -> tuple[Shared, Words, bool]:
    """The shares, the factor's integers, and whether the shares come first."""
    x, y = operands
    shared_first = isinstance(x, Shared)
    shared, factor = (x, y) if shared_first else (y, x)
    kind = FxpType(32, frac)
    integers = encode(np.asarray(factor), kind, name="public factor")
    return as_shared(shared), integers, shared_first


def _with_factor(
    site: Site, operands: Sequence[Numbers], frac: int, arithmetic: Arithmetic
) -> list[Numbers]:
    """The operands with the public one as integers."""
    kind = FxpType(32, frac)
    return [
        integers_at(x, held, kind, arithmetic) if held.type is None else x
        for x, held in zip(operands, site.operands, strict=True)
    ]


def _error_and_factor(
    site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers], frac: int
) -> list[Numbers]:
    """In the operands' order, the error of the shares and the factor's size."""
    return [
        jnp.rint(jnp.abs(x) * 2.0**frac) if held.type is None else e
        for x, held, e in zip(operands, site.operands, errors, strict=True)
    ]


@dataclass(frozen=True)
class MulPublic(StepDefinition):
    """Element by element; the factor is encoded with ``frac``."""

    name = "mul_public"
    frac: int

    def check(self, site: Site) -> None:
        """Shares and a public factor; fracs add up."""
        demand_scaled(site, self.frac)
        demand_broadcast(site)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share."""
        x, factor, _ = _encoded(operands, self.frac)
        scaled = x.map(lambda share: np.asarray(np.multiply(share, factor)))
        return [Shared(scaled.first, scaled.second, site.result.fxp)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """Zero times whatever is shared is zero, also if that has left its range."""
        a, b = _with_factor(site, operands, self.frac, arithmetic)
        public = a if site.operands[0].type is None else b
        return [jnp.where(public == 0, 0.0, a * b)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Times the factor's size."""
        a, b = _error_and_factor(site, operands, errors, self.frac)
        return [a * b]


@dataclass(frozen=True)
class EinsumPublic(StepDefinition):
    """A contraction, as einsum writes it; the factor is encoded with ``frac``."""

    name = "einsum_public"
    frac: int
    subscripts: str

    def check(self, site: Site) -> None:
        """Shares and a public factor; fracs add up."""
        demand_scaled(site, self.frac)
        demand_contraction(site, self.subscripts)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share by share."""
        kind = site.result.fxp
        x, factor, shared_first = _encoded(operands, self.frac)

        def times(share: Words) -> Words:
            pair = (share, factor) if shared_first else (factor, share)
            return ring_einsum_public(self.subscripts, *pair, kind.ring)

        return [Shared(times(x.first), times(x.second), kind)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """On integers."""
        pair = _with_factor(site, operands, self.frac, arithmetic)
        return [jnp.einsum(self.subscripts, *pair)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Contracted with the factor's size."""
        pair = _error_and_factor(site, operands, errors, self.frac)
        return [jnp.einsum(self.subscripts, *pair)]

    def multiplications(self, site: Site) -> float:
        """Of two shares."""
        return 2.0 * prod(axis_sizes(self.subscripts, site.operands).values())
