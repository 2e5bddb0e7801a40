"""share_public: public numbers as shares of themselves, without a message."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ditto.steps.alignment import integers_at, trivial_shares
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Runner,
    Site,
    StepDefinition,
    demand,
)
from ditto.steps.rules import demand_operands, demand_shape, shared_type


@dataclass(frozen=True)
class SharePublic(StepDefinition):
    """Rounds public numbers to the result's type."""

    name = "share_public"

    def check(self, site: Site) -> None:
        """On public numbers; the shape stays."""
        demand_operands(site, 1)
        (x,) = site.operands
        demand(x.is_public and x.dtype != "bool", "takes public numbers", x)
        bits = shared_type(site.result).bits
        demand(bits in (32, 64), "makes shares of 32 or 64 bits", bits)
        demand_shape(site, x.shape)

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """Share 0 is the number."""
        values = np.asarray(operands[0]).reshape(site.result.shape)
        return [trivial_shares(runner.party, values, site.result.fxp)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """Rounds to nearest."""
        kind = site.result.fxp
        return [integers_at(operands[0], site.operands[0], kind, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """None: both sides round alike."""
        return [jnp.zeros(site.result.shape)]
