"""Rows of the functions: the coarse maximum, exponentials, parabolas, tables."""

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any, Literal

import numpy as np

from ditto.fixedpoint import FxpType
from ditto.protocols.blocks import Grid, Rounds
from ditto.protocols.coarse_max import coarse_max, coarse_max_cost
from ditto.protocols.exponential import Exponential
from ditto.protocols.grid_function import GridFunction, compute_on_grid
from ditto.protocols.parabolas import Function, TableFunction
from ditto.protocols.piecewise_quadratic import Pieces, PiecewiseQuadratic
from ditto.protocols.registry.row import (
    BOTH,
    Error,
    Protocol,
    Reals,
    carry_formula,
    check_of,
    fxp,
    one_matrix,
    variant,
)
from ditto.protocols.table_function import table_function, table_function_cost

Ends = tuple[float, float]


def coarse_max_rows() -> list[Protocol]:
    """Of few and of many levels."""
    return [
        *(_coarse_max_row(-5.0, 9.0, 11, rounds) for rounds in BOTH),
        *(_coarse_max_row(-5.0, 9.0, 11, rounds, checked=True) for rounds in BOTH),
        *(_coarse_max_row(*row, 2) for row in ((-0.25, 0.5, 9), (-90.0, 40.0, 12))),
    ]


def exponential_rows() -> list[Protocol]:
    """On few cells and on many."""
    return [
        _exponential_row(fxp(32, 8), -20, 1),
        _exponential_row(fxp(32, 8), -20, 2, checked=True),
        _exponential_row(fxp(32, 8), -20, 3),
        _exponential_row(fxp(32, 10), -440, 2, checked=True),
    ]


def piecewise_quadratic_rows() -> list[Protocol]:
    """On few cells and on many, from a fine operand and from a coarse one."""
    return [
        _piecewise_quadratic_row(fxp(32, 16), 3, 1),
        _piecewise_quadratic_row(fxp(32, 16), 3, 2, checked=True),
        _piecewise_quadratic_row(fxp(32, 7), 14, 2, checked=True),
    ]


def table_function_rows() -> list[Protocol]:
    """Reciprocals, with cells of one width and of two, and inverse roots."""
    return [
        _table_function_row("reciprocal", fxp(32, 16), fxp(32, 20), (0.5, 60.0)),
        _table_function_row(
            "reciprocal", fxp(32, 14), fxp(32, 20), (0.3, 900.0), widths=2
        ),
        _table_function_row(
            "reciprocal", fxp(32, 14), fxp(32, 20), (0.3, 900.0), 2, checked=True
        ),
        _table_function_row(
            "reciprocal", fxp(32, 16), fxp(32, 20), (0.5, 60.0), checked=True
        ),
        _table_function_row("rsqrt", fxp(32, 18), fxp(32, 24), (50.0, 900.0)),
        _table_function_row("rsqrt", fxp(25, 14), fxp(32, 24), (50.0, 1000.0)),
    ]


def _coarse_max_row(
    low: float, high: float, cut: int, rounds: Rounds, *, checked: bool = False
) -> Protocol:
    kind, length = fxp(32, 12), 5
    ends = int(low * 2**kind.frac), int(high * 2**kind.frac)
    grid = Grid(kind, *ends, cut)
    return Protocol(
        name="coarse max",
        variant=variant(rounds),
        parameters={"of": str(kind), "levels": str(grid.levels), **check_of(checked)},
        formula=("n(V + 16)" if checked else "nV")
        + (" + (5k - 6)V + w(3V - 1)" if rounds == 2 else " + 12kV + w(6V - 4)"),
        operands=(kind,),
        result=kind,
        holds=kind,
        shapes=lambda rows: ((rows, length),),
        run=lambda party, x: coarse_max(party, x, grid, rounds, checked=checked),
        plain=lambda x: x.max(-1, keepdims=True),
        cost=lambda shape: coarse_max_cost(
            shape[0], length, grid, rounds, checked=checked
        ),
        error=Error(-(2**cut), 2**cut, 0),
        between=(ends[0], ends[1] - 1),
        work=16,
    )


def _exponential_row(
    source: FxpType, low: int, rounds: Rounds, *, checked: bool = False
) -> Protocol:
    """Up to 1, with cells of 4."""
    ends, to = (low << source.frac, 1 << source.frac), fxp(32, 15)
    grid = Grid(source, *ends, source.frac + 2)
    function = Exponential(grid, to, 16, 10)

    def plain(x: Reals) -> Reals:
        if x.dtype != object:
            return np.exp(x)
        power = np.vectorize(lambda v: Fraction(float(np.exp(float(v)))), otypes="O")
        exact: Reals = power(x)
        return exact

    return _grid_row(
        "exponential",
        "5w - 2d",
        function,
        rounds,
        plain=plain,
        error=function.error,
        checked=checked,
    )


def _piecewise_quadratic_row(
    source: FxpType, reach: int, rounds: Rounds, *, checked: bool = False
) -> Protocol:
    """x^2 / 2, of cells of 1/4."""
    ends, to = (-reach << source.frac, reach << source.frac), fxp(32, 12)
    last = 4 * reach + 1
    middles = range(-last, last + 1)
    pieces = Pieces(
        start=-last,
        constants=tuple(m * m << 9 for m in middles),
        slopes=tuple(m << 4 for m in middles),
        curvatures=tuple(8 if abs(m) < last else 0 for m in middles),
        frac=14,
        offset_frac=8,
        square_frac=10,
    )
    grid = Grid(source, *ends, source.frac - 2)
    function = PiecewiseQuadratic(grid, to, pieces)

    def plain(x: Reals) -> Reals:
        half: Any = Fraction(1, 2) if x.dtype == object else 0.5
        exact: Reals = x * x * half
        return exact

    return _grid_row(
        "piecewise quadratic",
        "8w - 2d",
        function,
        rounds,
        plain=plain,
        error=function.error,
        checked=checked,
    )


def _grid_row(
    name: str,
    formula: str,
    function: GridFunction,
    rounds: Rounds,
    *,
    plain: Callable[[Reals], Reals],
    error: float,
    checked: bool,
) -> Protocol:
    """A function of values on a grid; ``formula`` is what lies between the words that
    say where x is and the recast."""
    grid, to = function.grid, function.target
    return Protocol(
        name=name,
        variant=variant(rounds),
        parameters={
            "of": str(grid.type),
            "to": str(to),
            "cells": str(grid.levels),
            **check_of(checked),
        },
        formula=("V + 16 + " if checked else "V + ")
        + formula
        + f" + l' + {carry_formula(rounds)}",
        operands=(grid.type,),
        result=to,
        holds=to,
        shapes=one_matrix,
        run=lambda p, x: compute_on_grid(p, x, function, rounds, checked=checked),
        plain=plain,
        cost=lambda size: function.cost(prod(size), rounds, checked=checked),
        error=Error(-error, error, 0),
        between=(grid.low, grid.high - 1),
        work=16,
    )


def _table_function_row(
    function: Function,
    source: FxpType,
    to: FxpType,
    ends: Ends,
    widths: Literal[1, 2] = 1,
    *,
    checked: bool = False,
) -> Protocol:
    low, high = (int(x * 2**source.frac) for x in ends)
    table = TableFunction(function, source, to, low, high, widths=widths)
    cells = sum(scale.cells for scale in table.scales)

    def plain(x: Reals) -> Reals:
        if function == "reciprocal":
            return 1 / x
        if x.dtype != object:
            return x**-0.5
        root = np.vectorize(lambda v: Fraction(float(v) ** -0.5), otypes="O")
        exact: Reals = root(x)
        return exact

    return Protocol(
        name=function,
        variant="ours",
        parameters={
            "of": str(source),
            "to": str(to),
            "cells": str(cells),
            **check_of(checked),
        },
        formula="4(129h + 255) + 12l'" if widths == 2 else "2(129h + 255) + 3l'",
        operands=(source,),
        result=to,
        holds=to,
        shapes=one_matrix,
        run=lambda party, x: table_function(party, x, table, checked=checked),
        plain=plain,
        cost=lambda size: table_function_cost(prod(size), table),
        error=Error(-table.error, table.error, 0),
        between=(table.low, table.high - 1),
        work=cells,
    )
