"""How much memory a party needs for a plan, before anything runs."""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from ditto.analysis.cost import predict
from ditto.plan import Plan, Value
from ditto.steps import Einsum

PROCESS = 290e6
"""Bytes of a party's process that holds nothing yet: Python, JAX and SPU."""
LOADING = 1.7
"""Times that a party holds its weights at its peak: while it receives them."""
MESSAGES = 2.0
"""Times that a party holds what it sends in a step: as a message, and as its mask."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one party at its peak, and what they are made of."""

    process: float
    weights: float
    """Its two shares of every weight, in the types of this plan: while they come, or
    once those that are multiplied are held as the kernels take them as well."""
    values: float
    """Shares of everything else that is needed at one time, and messages."""

    @property
    def bytes(self) -> float:
        """All of it."""
        return self.process + self.weights + self.values


def party_memory(plan: Plan) -> Memory:
    """An estimate: within a tenth of what parties take for MiniLM and SmolLM2."""
    weights = plan.weights()
    live = {e for spec in plan.inputs for e in spec.encodings} - weights
    largest = 0.0
    every = zip(plan.steps, predict(plan), plan.last_uses(), strict=True)
    for step, cost, dying in every:
        live |= set(step.outputs)
        held = sum(party_bytes(plan.values[v]) for v in live)
        largest = max(largest, held + MESSAGES * cost.bytes / 3)
        live -= set(dying)
    return Memory(PROCESS, _held_weights(plan, weights), largest)


def _held_weights(plan: Plan, weights: Set[int]) -> float:
    held = sum(party_bytes(plan.values[v]) for v in weights)
    multiplied = {
        v for step in plan.steps if isinstance(step.kind, Einsum) for v in step.inputs
    }
    packed = [party_bytes(plan.values[v]) for v in multiplied & weights]
    # one after the other: beside all that is held, one share of the largest
    return max(LOADING * held, held + sum(packed) + max(packed, default=0.0) / 2)


def party_bytes(value: Value) -> float:
    """Of one value at one party."""
    if value.is_public or value.type is None:
        return value.size * np.dtype(value.dtype).itemsize
    return 2 * value.size * value.type.ring.dtype.itemsize
