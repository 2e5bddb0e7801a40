"""piecewise_linear: a function of one variable, by straight lines from a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import FxpType
from ditto.protocols import (
    Grid,
    Lines,
    Rounds,
)
from ditto.protocols import PiecewiseLinear as Function
from ditto.steps.base import (
    Arithmetic,
    Numbers,
    Place,
    Site,
)
from ditto.steps.grid import OnGrid, converted, grid_cells, own_draw

Reals = npt.NDArray[np.float64]
_NEAR = 4
"""Lines that x may lie on if it is known to a cell."""


@dataclass(frozen=True)
class PiecewiseLinear(OnGrid[Function]):
    """Of integers from ``low`` to ``high``, with cells 2^``cut`` wide.

    The middle of the first line's cells lies at ``start``, counted in cells. What the
    lines stand for, ``function``, is only a name.
    """

    name = "piecewise_linear"
    function: str
    low: int
    high: int
    cut: int
    operand_frac: int
    start: int
    slopes: tuple[int, ...]
    intercepts: tuple[int, ...]
    slope_frac: int
    intercept_frac: int
    far_words: int
    rounds: Rounds

    def lines(self) -> Lines:
        """The protocol's lines."""
        return Lines(
            self.start,
            self.slopes,
            self.intercepts,
            self.slope_frac,
            self.intercept_frac,
        )

    def between(self, source: FxpType, target: FxpType) -> Function:
        """The protocol's function between two types."""
        grid = Grid(source, self.low, self.high, self.cut)
        lines = self.lines()
        return Function(grid, target, self.operand_frac, lines, self.far_words)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The line of the cell that x is found in, rounded as the recast does.

        Which of two lines that is depends on what is cut off, as in a recast; its
        draw is none of those of the plan's other steps. The gradient is the slope.
        """
        function = self.function_at(site)
        grid, kind = function.grid, site.operands[0].fxp
        place = Place(site.index, grid.low, grid.high, kind.ulp)
        x = arithmetic.noted(operands[0], place, grid_cells(grid, self.far_words))
        cell = arithmetic.cut(jax.lax.stop_gradient(x), grid.cut, own_draw(site))
        y = _line(function.lines, cell, x * kind.ulp)
        return [converted(y, function, site, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """What the operand's error changes; both sides may take either of two lines,
        and round by themselves."""
        function = self.function_at(site)
        lines, cell = function.lines, 2.0**function.grid.cut
        (x,), (e,), ulp = operands, errors, site.operands[0].fxp.ulp
        taken = _line(lines, jnp.rint(x / cell), x * ulp)
        first, last = jnp.floor((x - e) / cell), jnp.floor((x + e) / cell) + 1
        gap = jnp.zeros_like(taken)
        for k in range(_NEAR):
            other = jnp.minimum(first + k, last)
            gap = jnp.maximum(gap, jnp.abs(_line(lines, other, x * ulp) - taken))
        steps = e / cell
        far = (2 + steps) * _largest_jump(lines, cell * ulp)
        own = jnp.where(steps <= 1, gap, far) + lines.steepest * e * ulp
        return [own / site.result.fxp.ulp + function.error + 1]

    def describe(self, site: Site) -> str:
        """The function."""
        return self.function

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)


def _line(lines: Lines, cell: Numbers, x: Numbers) -> Numbers:
    """The line of a cell at real numbers x."""
    i = jnp.clip(cell - lines.start, 0, len(lines.slopes) - 1).astype(jnp.int32)
    slopes, intercepts = (jnp.asarray(each) for each in _real(lines))
    return slopes[i] * x + intercepts[i]


def _real(lines: Lines) -> tuple[Reals, Reals]:
    """Slopes and intercepts."""
    return (
        np.ldexp(np.array(lines.slopes, np.float64), -lines.slope_frac),
        np.ldexp(np.array(lines.intercepts, np.float64), -lines.intercept_frac),
    )


def _largest_jump(lines: Lines, width: float) -> float:
    """How far a line is from the next one, between the middles of their cells."""
    slopes, intercepts = _real(lines)
    left = (lines.start + np.arange(len(slopes) - 1)) * width
    ends = np.stack([left, left + width])
    jumps = np.abs(np.diff(slopes) * ends + np.diff(intercepts))
    return float(jumps.max(initial=0.0))
