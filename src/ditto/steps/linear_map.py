"""linear_map: elements of shares moved or added up, by each party alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ditto.fixedpoint import Array, Words
from ditto.operations import TRAITS, Trait, evaluate, evaluate_plain, has
from ditto.operations.interpreter import broadcast_in_dim, strided_slice
from ditto.plan import Params
from ditto.protocols import lift
from ditto.sharing import Shared
from ditto.steps.alignment import errors_at, integers_at
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Place,
    Runner,
    Site,
    StepDefinition,
    as_shared,
    demand,
    real_dtype,
)
from ditto.steps.rules import (
    demand_numbers,
    demand_shape,
    demand_sum,
    listed,
    publics,
    result_signature,
)


@dataclass(frozen=True)
class LinearMap(StepDefinition):
    """An operation of the table that is linear in its shares."""

    name = "linear_map"
    operation: str
    params: Params

    def check(self, site: Site) -> None:
        """On shares of the low ring; only indices may be public."""
        linear = has(self.operation, Trait.LINEAR)
        demand(linear, "is a linear operation of the table", self.operation)
        demand_numbers(site.operands)
        shared_first = bool(site.operands) and site.operands[0].is_shared
        demand(shared_first, "takes shares first", listed(site.operands))
        if TRAITS[self.operation].first_index is None:
            demand(not publics(site), "takes shares only", listed(site.operands))
        demand_sum(site.operands, site.result)
        taken = [(x.shape, "int32" if x.is_shared else x.dtype) for x in site.operands]
        demand_shape(site, result_signature(self.operation, self.params, taken)[0])

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """On each of the two shares."""
        kind = site.result.fxp
        moved = [
            x if isinstance(x, np.ndarray) else lift(as_shared(x), frac=kind.frac)
            for x in operands
        ]

        def side(name: str) -> Words:
            words = [getattr(x, name) if isinstance(x, Shared) else x for x in moved]
            mapped = on_words(self.operation, self.params, words, site.result.shape)
            return kind.ring.reduce(mapped)

        return [Shared(side("first"), side("second"), kind)]

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """In JAX; ``within`` is where ranges are looked at."""
        kind = site.result.fxp
        moved = [
            x if held.type is None else integers_at(x, held, kind, arithmetic)
            for x, held in zip(operands, site.operands, strict=True)
        ]
        if self.operation == "within":
            low, high = (self.params[end] / kind.ulp for end in ("low", "high"))
            place = Place(site.index, low, high, kind.ulp)
            return [arithmetic.fitted(moved[0], place)]
        return [evaluate(self.operation, self.params, moved, real_dtype())]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Moved and added up like the numbers."""
        moved = errors_at(errors, site.operands, site.result.fxp)
        mixed = [
            x if held.type is None else e
            for x, held, e in zip(operands, site.operands, moved, strict=True)
        ]
        return [evaluate(self.operation, self.params, mixed, real_dtype())]

    def describe(self, site: Site) -> str:
        """The operation."""
        return self.operation


def on_words(
    operation: str, params: Params, words: Sequence[Array], shape: tuple[int, ...]
) -> Array:
    """A linear operation on the integers of one share."""
    x = words[0]
    match operation:
        case "within":
            return x
        case "reshape" | "squeeze":
            return x.reshape(shape)
        case "transpose":
            return x.transpose(params["permutation"])
        case "broadcast_in_dim":
            return broadcast_in_dim(x, shape, params["broadcast_dimensions"])
        case "concatenate":
            return np.concatenate(words, params["dimension"])
        case "reduce_sum":
            total = x.sum(axis=tuple(params["axes"]), dtype=x.dtype)
            return np.asarray(total).reshape(shape)
        case "slice":
            ends = params["start_indices"], params["limit_indices"]
            return strided_slice(x, *ends, params["strides"])
    signed = [
        a.view(np.int32) if a.dtype == np.uint32 else a
        for a in (np.ascontiguousarray(a).reshape(np.shape(a)) for a in words)
    ]
    return evaluate_plain(operation, params, signed).view(np.uint32)
