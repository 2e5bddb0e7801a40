"""Inputs that somebody looks for: rows of tokens that lead a model out of its ranges.

Hill climbing on token ids. Each climb begins with another row and has one place of the
plan as its aim. Of several changes that one stays which brings the values there closest
to the end of their range, or furthest beyond it. An attacker who holds the weights
could do so; nobody else sees how close a value came.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from benchmarks.range_check.inputs import Form
from ditto.client.tokens import Encoded
from ditto.fixedpoint import Array
from ditto.plan import InputRole, Plan, Tree
from ditto.simulation import Headroom, Nearest
from ditto.simulation.machine import Machine, encode_inputs
from ditto.steps import Numbers, Place
from ditto.steps.base import stacked

AIMS = 12
"""Places that climbs have as their aim, in turn: those with the least headroom."""
CHANGES = 16
"""Changes that are tried at a time."""
PATIENCE = 3
"""Times without success after which a climb ends."""


@dataclass(frozen=True)
class Climb:
    """Where a climb ended: its row, the bits left at its aim, and the rows it tried."""

    row: Encoded
    length: int
    bits: float
    tried: int


class Prober(Protocol):
    """What a search asks, of ``CHANGES`` rows of one length at a time."""

    def __call__(self, rows: Sequence[Encoded]) -> list[list[Headroom]]:
        """The headroom of every place, for each row."""


class Probe:
    """A plan on several inputs at once, rounded to nearest."""

    def __init__(
        self, plan: Plan, params: Tree, arrays: Callable[[Encoded], Sequence[Array]]
    ) -> None:
        self._plan, self._arrays = plan, arrays
        self._places: list[Place] = []
        weights = iter(jax.tree_util.tree_leaves(params))
        leaves = [
            next(weights) if spec.role is InputRole.WEIGHT else None
            for spec in plan.inputs
        ]
        with jax.enable_x64(True):
            self._weights = encode_inputs(plan, leaves, Nearest())
        self._run = jax.jit(jax.vmap(self._ends, in_axes=(None, 0)))

    def __call__(self, rows: Sequence[Encoded]) -> list[list[Headroom]]:
        """See Prober."""
        columns = zip(*(self._arrays(row) for row in rows), strict=True)
        batch = [np.stack(column) for column in columns]
        with jax.enable_x64(True):
            ends = np.asarray(self._run(self._weights, batch))
        return [
            [self._headroom(*pair) for pair in zip(self._places, row, strict=True)]
            for row in ends
        ]

    def _ends(self, weights: dict[int, Numbers], inputs: list[Numbers]) -> Numbers:
        """The least and the largest integer at every place."""
        plan, machine, given = self._plan, Machine(self._plan, Nearest()), iter(inputs)
        leaves = [
            None if spec.role is InputRole.WEIGHT else next(given)
            for spec in plan.inputs
        ]
        values = machine.run({**weights, **encode_inputs(plan, leaves, Nearest())})
        for output in plan.outputs:
            machine.opened(values, output)
        self._places = machine.places
        return stacked(machine.ends)

    def _headroom(self, place: Place, ends: Array) -> Headroom:
        step, pole = self._plan.steps[place.step], place.pole
        least, most = (float(end) * place.ulp for end in ends)
        return Headroom(
            place.step, step.kind.name, step.scope, least, most,
            place.low * place.ulp, place.high * place.ulp,
            None if pole is None else pole * place.ulp,
        )  # fmt: skip


def climbs(
    form: Form,
    probe: Prober,
    length: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Climb]:
    """Climbs with inputs of up to ``length`` tokens, until the time is over."""
    most, vocabulary = form.room(length), form.tokenizer.vocabulary

    def evaluate(rows: Sequence[Array]) -> list[list[Headroom]]:
        return probe([form.between(ids.tolist()) for ids in rows])

    if seconds <= 0:
        return
    evaluate([np.zeros(1, np.int64)] * CHANGES)  # compiles, off the clock
    deadline = clock() + seconds
    number = 0
    while clock() < deadline:
        rng = np.random.default_rng(number)
        starts = [_start(rng, vocabulary, most, number) for _ in range(CHANGES)]
        found = evaluate(starts)
        aim = _aim(found, number % AIMS)
        reached = [_bits(places[aim]) for places in found]
        bits = min(reached)
        ids = starts[reached.index(bits)]
        tried, failed = CHANGES, 0
        while failed < PATIENCE and clock() < deadline:
            changed = [_changed(rng, ids, vocabulary, most) for _ in range(CHANGES)]
            reached = [_bits(places[aim]) for places in evaluate(changed)]
            tried += CHANGES
            failed += 1
            if min(reached) < bits:
                bits, failed = min(reached), 0
                ids = changed[reached.index(bits)]
        yield Climb(form.between(ids.tolist()), length, bits, tried)
        number += 1


def _aim(found: list[list[Headroom]], turn: int) -> int:
    """The number of a place: of the tightest over all rows the one whose turn it is."""
    bits = [min(map(_bits, places)) for places in zip(*found, strict=True)]
    return int(np.argsort(bits)[min(turn, len(bits) - 1)])


def _bits(place: Headroom) -> float:
    """What is left at a place. Where all was lost before, nothing can be aimed at."""
    return math.inf if math.isnan(place.least) else place.bits


def _start(rng: np.random.Generator, vocabulary: int, most: int, number: int) -> Array:
    """In turn random tokens, one token again and again, and a few tokens."""
    size = int(rng.integers(1, most + 1))
    match number % 3:
        case 0:
            return rng.integers(0, vocabulary, size)
        case 1:
            return np.full(size, rng.integers(0, vocabulary))
        case _:
            return rng.integers(0, vocabulary, min(size, 3))


def _changed(rng: np.random.Generator, ids: Array, vocabulary: int, most: int) -> Array:
    """The row with a token replaced, several, one copied to others, or a new length."""
    changed = ids.copy()
    kind = rng.integers(5)
    if kind == 0 and len(ids) < most:
        return np.insert(changed, rng.integers(len(ids) + 1), rng.choice(ids))
    if kind == 1 and len(ids) > 1:
        return np.delete(changed, rng.integers(len(ids)))
    if kind == 2:
        changed[rng.random(len(ids)) < rng.random()] = rng.choice(ids)
        return changed
    if kind == 3:
        places = rng.random(len(ids)) < 0.3
        changed[places] = rng.integers(0, vocabulary, int(places.sum()))
        return changed
    changed[rng.integers(len(ids))] = rng.integers(0, vocabulary)
    return changed
