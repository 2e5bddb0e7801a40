"""Runs the steps of a plan on plain integers, held in real numbers.

In float64 that is exact far beyond the 30 bits of a legal value, so an overflow is
seen and not wrapped. It is looked for where it does harm: where a recast needs the
carry, in the range of a grid, a table or a fitted function, in what SPU takes and in
what the client opens. Between those places numbers may wrap around and come back. An
element that leaves such a range turns into NaN and takes with it all that depends on
it; only if that reaches an answer is the answer wrong.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jax.typing import ArrayLike

from ditto.plan import InputSpec, OutputSpec, Plan, Value
from ditto.simulation.rounding import Nearest, Rounding
from ditto.steps import Arithmetic, Cells, Numbers, Place, Site, definition
from ditto.steps.base import extremes, real_dtype


def encode_inputs(
    plan: Plan, leaves: Sequence[ArrayLike | None], rounding: Rounding
) -> dict[int, Numbers]:
    """The integers of all inputs but those that are None, in all their encodings."""
    return {
        v: _encoded(leaf, plan.values[v], spec, rounding)
        for spec, leaf in zip(plan.inputs, leaves, strict=True)
        if leaf is not None
        for v in spec.encodings
    }


def _encoded(
    leaf: ArrayLike, value: Value, spec: InputSpec, rounding: Rounding
) -> Numbers:
    if value.type is None:
        return jnp.asarray(leaf, spec.dtype)
    if spec.is_indices(value):
        return jnp.asarray(leaf, jnp.int32)
    return rounding.nearest(jnp.asarray(leaf, real_dtype()) * 2.0**value.type.frac)


class Machine(Arithmetic):
    """Runs steps. Values are JAX arrays by their number in the plan."""

    def __init__(self, plan: Plan, rounding: Rounding | None = None) -> None:
        self.plan = plan
        self._rounding = rounding or Nearest()
        self.differentiable = self._rounding.differentiable
        self.places: list[Place] = []
        """Where values have to stay in a range, in order."""
        self.ends: list[Numbers] = []
        """The least and the largest integer at each place."""
        self.lost: Numbers = jnp.asarray(False)
        """Whether a value left its range where what depends on it is not followed."""
        self.out_of_range: Numbers = jnp.asarray(False)
        """Whether the parties have noted a value that left its range."""

    def run(self, inputs: dict[int, Numbers]) -> dict[int, Numbers]:
        """All values of the plan, from those of its inputs (``encode_inputs``)."""
        values = dict(inputs)
        for i, step in enumerate(self.plan.steps):
            operands = [values[v] for v in step.inputs]
            results = definition(step).simulate(Site.of(self.plan, i), operands, self)
            values |= zip(step.outputs, results, strict=True)
        return values

    def opened(self, values: dict[int, Numbers], output: OutputSpec) -> Numbers:
        """A result as the client sees it, or as the parties retain it."""
        kind = self.plan.values[output.value].type
        if kind is None:
            return values[output.value]
        makers = (i for i, s in enumerate(self.plan.steps) if output.value in s.outputs)
        maker = next(makers, None)
        if maker is None or output.retained:
            return values[output.value] * kind.ulp
        whole = float(2 * kind.limit)
        place = Place(maker, -whole, whole, kind.ulp)
        return self.within(values[output.value], place) * kind.ulp

    def nearest(self, x: Numbers) -> Numbers:
        """See Arithmetic."""
        return self._rounding.nearest(x)

    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:
        """See Arithmetic."""
        return self._rounding.cut(x, bits, index)

    def down(self, x: Numbers) -> Numbers:
        """See Arithmetic."""
        return self._rounding.down(x)

    def level(self, x: Numbers, index: int) -> Numbers:
        """See Arithmetic."""
        return self._rounding.level(x, index)

    def within(self, x: Numbers, place: Place) -> Numbers:
        """See Arithmetic."""
        if not self._rounding.loses:
            return x
        self.places.append(place)
        self.ends.append(extremes(_counted(x, place)))
        return jnp.where((x >= place.low) & (x < place.high), x, jnp.nan)

    def fitted(self, x: Numbers, place: Place) -> Numbers:
        """See Arithmetic."""
        inside = self.within(x, place)
        return inside if self._rounding.doubts else x

    def noted(self, x: Numbers, place: Place, cells: Sequence[Cells]) -> Numbers:
        """See Arithmetic."""
        if not self._rounding.loses:
            return x
        self.places.append(place)
        self.ends.append(extremes(_counted(x, place)))
        seen = (x < place.low) | (x >= place.high)
        wrapped = x
        for k, each in enumerate(cells):
            scaled = (x - each.origin) / each.width
            cell = self._rounding.found(scaled, place.step, k)
            if cell is None:
                break
            legal, place_of = each.legal, jnp.mod(cell + 1, each.count)
            out = (place_of < legal.start) | (place_of >= legal.stop)
            seen = out if k == 0 else seen | out
            if k == 0:
                around = each.width * each.count
                wrapped = jnp.mod(x - each.start, around) + each.start
        seen &= ~jnp.isnan(x)
        self.out_of_range |= seen.any()
        return jnp.where(seen, jnp.nan, wrapped)

    def watch(self, x: Numbers, place: Place) -> None:
        """See Arithmetic."""
        if not self._rounding.loses:
            return
        self.within(x, place)
        least, most = self.ends[-1]
        self.lost |= (least < place.low) | (most >= place.high) | jnp.isnan(x).any()


def _counted(x: Numbers, place: Place) -> Numbers:
    """The elements that say how far values go: not those that stand for hidden ones."""
    if place.hidden is None:
        return x
    return jnp.where((x >= place.low) & (x <= place.hidden), jnp.nan, x)
