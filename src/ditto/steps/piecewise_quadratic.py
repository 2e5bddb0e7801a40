"""piecewise_quadratic: a function of one variable, by parabolas from a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import FxpType
from ditto.protocols import Grid, Pieces, Rounds
from ditto.protocols import PiecewiseQuadratic as Function
from ditto.steps.base import (
    Arithmetic,
    Numbers,
    Place,
    Site,
)
from ditto.steps.grid import OnGrid, converted, grid_cells, own_draw

_NEAR = 4
"""Pieces that x may lie on if it is known to a cell."""


@dataclass(frozen=True)
class PiecewiseQuadratic(OnGrid[Function]):
    """Of integers from ``low`` to ``high``, with cells 2^``cut`` wide.

    The middle of the first piece's cells lies at ``start``, counted in cells. What the
    pieces stand for, ``function``, is only a name.
    """

    name = "piecewise_quadratic"
    function: str
    low: int
    high: int
    cut: int
    start: int
    constants: tuple[int, ...]
    slopes: tuple[int, ...]
    curvatures: tuple[int, ...]
    frac: int
    offset_frac: int
    square_frac: int
    far_words: int
    rounds: Rounds

    def pieces(self) -> Pieces:
        """The protocol's pieces."""
        return Pieces(
            self.start,
            self.constants,
            self.slopes,
            self.curvatures,
            self.frac,
            self.offset_frac,
            self.square_frac,
        )

    def between(self, source: FxpType, target: FxpType) -> Function:
        """The protocol's function between two types."""
        grid = Grid(source, self.low, self.high, self.cut)
        return Function(grid, target, self.pieces(), self.far_words)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The piece of the cell that x is found in, rounded as the recast does.

        Which of two pieces that is depends on what is cut off, as in a recast; its
        draw is none of those of the plan's other steps. The gradient is the slope.
        """
        function = self.function_at(site)
        grid, kind = function.grid, site.operands[0].fxp
        place = Place(site.index, grid.low, grid.high, kind.ulp)
        x = arithmetic.noted(operands[0], place, grid_cells(grid, self.far_words))
        cell = arithmetic.cut(jax.lax.stop_gradient(x), grid.cut, own_draw(site))
        y = _piece(function, cell, x)
        return [converted(y, function, site, arithmetic)]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """What the operand's error changes; both sides may take either of two pieces,
        and round by themselves."""
        function = self.function_at(site)
        width = 2.0**function.grid.cut
        (x,), (e,), ulp = operands, errors, site.operands[0].fxp.ulp
        taken = _piece(function, jnp.rint(x / width), x)
        first, last = jnp.floor((x - e) / width), jnp.floor((x + e) / width) + 1
        gap = jnp.zeros_like(taken)
        for k in range(_NEAR):
            other = _piece(function, jnp.minimum(first + k, last), x)
            gap = jnp.maximum(gap, jnp.abs(other - taken))
        steps = e / width
        far = (2 + steps) * _largest_jump(function)
        own = jnp.where(steps <= 1, gap, far) + function.steepest * e * ulp
        return [own / site.result.fxp.ulp + function.error + 1]

    def describe(self, site: Site) -> str:
        """The function."""
        return self.function

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """See StepDefinition."""
        return replace(self, rounds=rounds)


def _piece(function: Function, cell: Numbers, x: Numbers) -> Numbers:
    """The piece of a cell at integers x, as real numbers."""
    pieces, kind = function.pieces, function.grid.type
    i = jnp.clip(cell - pieces.start, 0, len(pieces.slopes) - 1).astype(jnp.int32)
    c0, c1, c2 = (jnp.asarray(each)[i] for each in pieces.real())
    d = (x - (i + pieces.start) * 2.0**function.grid.cut) * kind.ulp
    return c0 + (c1 + c2 * d) * d


def _largest_jump(function: Function) -> float:
    """How far a piece is from the next one, between the middles of their cells."""
    c0, c1, c2 = function.pieces.real()
    width = 2.0**-function.cell_frac
    d = np.linspace(0, width, 9)[:, None]
    here = c0 + c1 * d + c2 * d * d
    back = d - width
    there = c0 + c1 * back + c2 * back * back
    return float(np.abs(here[:, :-1] - there[:, 1:]).max(initial=0.0))
