"""The same plan on plain integers, with the same rounding, on one machine."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import CapacityError, SetupError
from ditto.fixedpoint import Array
from ditto.operations.arguments import check_arguments, computed_dtype
from ditto.plan import InputRole, Plan, Tree, arrange
from ditto.simulation.headroom import Headroom, Simulated
from ditto.simulation.machine import Machine, encode_inputs
from ditto.simulation.rounding import AsProtocol, Nearest
from ditto.steps import Numbers, Place
from ditto.steps.base import stacked

_Encoded = dict[int, Numbers]
"""Values of the plan, or the largest of each, by number."""
_Outcome = tuple[list[Numbers], Numbers, Numbers, Numbers, _Encoded]
"""Results, extremes at every place, whether something was lost or noted, and how large
the inputs are."""


def simulate(
    plan: Plan, arguments: Sequence[Tree], *, seed: int | None = None
) -> Simulated:
    """Run a plan once on plain integers; for many runs make a ``Simulator``.

    Raises CapacityError if a value that leaves its range reaches the result.
    """
    return Simulator(plan, jit=False)(arguments, seed=seed).check()


class Simulator:
    """A plan that is called on arguments of the plan's shapes.

    It is compiled at the first call, unless ``jit`` is false. Weights are rounded once,
    as long as they are the very same arrays. A recast rounds to nearest, or with a seed
    as the protocol does, up or down at random.
    """

    def __init__(self, plan: Plan, *, jit: bool = True) -> None:
        self.plan = plan
        self._places: list[Place] = []
        self._run, self._encode = self._trace, self._encoded
        self._run_many = self._trace_many
        if jit:
            self._run = jax.jit(self._trace, static_argnames="noisy")
            self._run_many = jax.jit(self._trace_many, static_argnames="noisy")
            self._encode = jax.jit(self._encoded)
        self._weights: tuple[list[Array | None], _Encoded, _Encoded] | None = None

    def __call__(
        self, arguments: Sequence[Tree], *, seed: int | None = None
    ) -> Simulated:
        """Simulate. Refuses inputs that could not be shared; look at ``broken``."""
        leaves = self._checked(arguments)
        with jax.enable_x64(True):
            weights, weight_tops = self._encoded_weights(leaves)
            outcome = self._run(
                weights, self._unweighted(leaves), _key(seed), noisy=seed is not None
            )
        return self._simulated(weight_tops, *outcome)

    def many(
        self, arguments: Sequence[Sequence[Tree]], *, seed: int | None = None
    ) -> list[Simulated]:
        """What calls with each of several arguments give, computed at once.

        Weights are the same in all of them. It is compiled once for each number of
        arguments.
        """
        every = [self._checked(each) for each in arguments]
        if not every:
            return []
        given = [jax.tree_util.tree_leaves(tuple(each)) for each in arguments]
        for spec, *leaves in zip(self.plan.inputs, *given, strict=True):
            same = all(leaf is leaves[0] for leaf in leaves)
            if spec.role is InputRole.WEIGHT and not same:
                raise SetupError(
                    f"Weight {spec.name} is not the same array in all arguments; call "
                    "the simulator with each of them alone."
                )
        with jax.enable_x64(True):
            weights, weight_tops = self._encoded_weights(every[0])
            others = [self._unweighted(leaves) for leaves in every]
            stacked_others = [
                None if leaves[0] is None else np.stack(leaves)
                for leaves in zip(*others, strict=True)
            ]
            outcome = self._run_many(
                weights, stacked_others, _key(seed), noisy=seed is not None
            )
        rows = jax.tree.map(np.asarray, outcome)
        return [
            self._simulated(weight_tops, *jax.tree.map(lambda x, k=k: x[k], rows))
            for k in range(len(every))
        ]

    def _checked(self, arguments: Sequence[Tree]) -> list[Array]:
        """The arrays of arguments, which are those that the plan takes."""
        check_arguments(arguments)
        leaves = [np.asarray(x) for x in jax.tree_util.tree_leaves(tuple(arguments))]
        for leaf in leaves:
            computed_dtype(leaf, "An argument")
        shapes = [spec.shape for spec in self.plan.inputs]
        if [leaf.shape for leaf in leaves] != shapes:
            raise SetupError(
                f"The plan takes arrays of shapes {shapes}, got "
                f"{[leaf.shape for leaf in leaves]}."
            )
        return leaves

    def _unweighted(self, leaves: list[Array]) -> list[Array | None]:
        return [
            None if spec.role is InputRole.WEIGHT else leaf
            for spec, leaf in zip(self.plan.inputs, leaves, strict=True)
        ]

    def _simulated(
        self,
        weight_tops: _Encoded,
        outputs: list[Numbers],
        ends: Numbers,
        lost: Numbers,
        noted: Numbers,
        tops: _Encoded,
    ) -> Simulated:
        """What came of one run."""
        self._check_inputs({**weight_tops, **tops})
        headroom = tuple(
            self._headroom(place, float(least), float(most))
            for place, (least, most) in zip(self._places, np.asarray(ends), strict=True)
        )
        shown = [
            x
            for x, output in zip(outputs, self.plan.outputs, strict=True)
            if not output.retained
        ]
        broken = bool(lost) or any(bool(np.isnan(x).any()) for x in shown)
        results = [
            _typed(x, output.dtype)
            for x, output in zip(outputs, self.plan.outputs, strict=True)
        ]
        result = arrange(self.plan.result, results)
        return Simulated(result, headroom, broken, not bool(noted))

    def _trace_many(
        self,
        weights: _Encoded,
        leaves: Sequence[Array | None],
        seed: Array | np.uint32,
        *,
        noisy: bool,
    ) -> _Outcome:
        def one(each: Sequence[Array | None]) -> _Outcome:
            return self._trace(weights, each, seed, noisy=noisy)

        return jax.vmap(one)(leaves)

    def _headroom(self, place: Place, least: float, most: float) -> Headroom:
        step = self.plan.steps[place.step]
        pole = None if place.pole is None else place.pole * place.ulp
        numbers = (least, most, place.low, place.high)
        least, most, low, high = (x * place.ulp for x in numbers)
        name = step.kind.name
        return Headroom(place.step, name, step.scope, least, most, low, high, pole)

    def _encoded_weights(self, leaves: list[Array]) -> tuple[_Encoded, _Encoded]:
        """The weights as integers, and the largest of each."""
        weights = [
            leaf if spec.role is InputRole.WEIGHT else None
            for spec, leaf in zip(self.plan.inputs, leaves, strict=True)
        ]
        known = self._weights
        if known is None or any(
            a is not b for a, b in zip(known[0], weights, strict=True)
        ):
            known = (weights, *self._encode(weights))
            self._weights = known
        return known[1:]

    def _encoded(self, leaves: Sequence[Array | None]) -> tuple[_Encoded, _Encoded]:
        values = encode_inputs(self.plan, leaves, Nearest())
        secret = [v for v in values if self.plan.values[v].is_shared]
        return values, {v: _largest(values[v]) for v in secret}

    def _check_inputs(self, largest: _Encoded) -> None:
        names = {v: spec.name for spec in self.plan.inputs for v in spec.encodings}
        for v, top in largest.items():
            kind = self.plan.values[v].fxp
            if not float(top) < kind.limit:
                reached = math.ldexp(float(top), -kind.frac)
                raise CapacityError(
                    f"Input {names[v]} reaches {reached:.6g}, but {kind} holds "
                    f"|value| < {kind.max_value:.6g}. Calibrate with inputs like this "
                    f"one."
                )

    def _trace(
        self,
        weights: _Encoded,
        leaves: Sequence[Array | None],
        seed: Array | np.uint32,
        *,
        noisy: bool,
    ) -> _Outcome:
        machine = Machine(
            self.plan, AsProtocol(jnp.asarray(seed)) if noisy else Nearest()
        )
        others, tops = self._encoded(leaves)
        values = machine.run({**weights, **others})
        outputs = [machine.opened(values, output) for output in self.plan.outputs]
        self._places = machine.places
        left = (machine.lost, machine.out_of_range)
        return outputs, stacked(machine.ends), *left, tops


def _typed(x: Numbers, dtype: str) -> Array:
    """A result as the function gives it; what was lost is 0 among integers."""
    array = np.asarray(x)
    if np.dtype(dtype).kind != "f":
        array = np.nan_to_num(array)
    return array.astype(dtype)


def _key(seed: int | None) -> np.uint32:
    return np.uint32((seed or 0) % (1 << 32))


def _largest(x: Numbers) -> Numbers:
    return jnp.max(jnp.abs(jnp.where(jnp.isnan(x), jnp.inf, x)), initial=0.0)
