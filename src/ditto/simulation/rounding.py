"""How a simulated run rounds: to nearest, as the protocols do, or so that gradients
pass."""

from abc import ABC, abstractmethod

import jax
import jax.numpy as jnp

from ditto.steps import Numbers
from ditto.steps.base import real_dtype


class Rounding(ABC):
    """Rounds numbers to whole ones."""

    loses = True
    """Whether what leaves its range is lost: it turns into NaN."""
    doubts = True
    """Whether a function is not to be trusted outside of the range it was made for;
    else it is computed there as the parties do."""
    differentiable = False
    """Whether gradients pass."""

    @abstractmethod
    def nearest(self, x: Numbers) -> Numbers:
        """Where both a party and the simulator round to nearest."""

    @abstractmethod
    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:
        """x / 2^bits, where a recast in step ``index`` rounds."""

    @abstractmethod
    def down(self, x: Numbers) -> Numbers:
        """Where shares are shifted, and both sides round down."""

    @abstractmethod
    def found(self, x: Numbers, index: int, which: int) -> Numbers | None:
        """The cell that x, in cells, is found in: its own or the one before, by what is
        cut off. None if nothing is left to chance."""

    @abstractmethod
    def level(self, x: Numbers, index: int) -> Numbers:
        """Down, or where levels of a coarse maximum come out one higher, up."""


class Nearest(Rounding):
    """To nearest, and levels down: the same in every run."""

    def nearest(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return jnp.rint(x)

    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:  # noqa: ARG002
        """See Rounding."""
        return self.nearest(x * 2.0**-bits)

    def down(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return jnp.floor(x)

    def found(self, x: Numbers, index: int, which: int) -> Numbers | None:  # noqa: ARG002
        """See Rounding."""
        return None

    def level(self, x: Numbers, index: int) -> Numbers:  # noqa: ARG002
        """See Rounding."""
        return jnp.floor(x)


class AsProtocol(Nearest):
    """As the protocols do: up or down at random, by what is cut off."""

    doubts = False

    def __init__(self, seed: Numbers) -> None:
        self._seed = seed

    def _draw(self, index: int, shape: tuple[int, ...], purpose: int = 0) -> Numbers:
        """Uniform from 0 to 1, by a generator that compiles to one operation.

        Apart from what uses it: a plan then takes a fifth less time to compile.
        """
        words = [self._seed, *(jnp.uint32(n) for n in (index, purpose, 1))]
        key = jax.random.wrap_key_data(jnp.stack(words), impl="unsafe_rbg")
        bits = jax.random.bits(key, shape, jnp.uint32)
        apart: Numbers = jax.lax.optimization_barrier(bits)  # type: ignore[no-untyped-call]
        return apart.astype(real_dtype()) * 2.0**-32

    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:
        """See Rounding."""
        return jnp.floor(x * 2.0**-bits - self._draw(index, x.shape)) + 1

    def found(self, x: Numbers, index: int, which: int) -> Numbers:
        """See Rounding."""
        return jnp.floor(x - self._draw(index, x.shape, 1 + which))

    def level(self, x: Numbers, index: int) -> Numbers:
        """See Rounding."""
        lower = jnp.floor(x)
        return lower + 1 - self._draw(index, lower.shape).round()


class StraightThrough(Nearest):
    """As ``Nearest``; gradients pass as if nothing had been rounded.

    What leaves its range goes on: training has to see where it went.
    """

    loses = False
    differentiable = True

    def nearest(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return _nearest(x)

    def down(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return _down(x)

    def level(self, x: Numbers, index: int) -> Numbers:  # noqa: ARG002
        """See Rounding."""
        return _down(x)


@jax.custom_jvp
def _nearest(x: Numbers) -> Numbers:
    return jnp.rint(x)


@jax.custom_jvp
def _down(x: Numbers) -> Numbers:
    return jnp.floor(x)


@_nearest.defjvp
def _nearest_jvp(
    primals: tuple[Numbers], tangents: tuple[Numbers]
) -> tuple[Numbers, Numbers]:
    return _nearest(*primals), tangents[0]


@_down.defjvp
def _down_jvp(
    primals: tuple[Numbers], tangents: tuple[Numbers]
) -> tuple[Numbers, Numbers]:
    return _down(*primals), tangents[0]
