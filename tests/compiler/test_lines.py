"""Straight lines: what they promise of their error, where the protocol uses them."""

import numpy as np
import pytest

from ditto.compiler.passes import lines
from ditto.compiler.passes.fit import SHAPES, Reals
from ditto.compiler.passes.lines import FittedLines, fit_lines

from .cases import LINES

ERROR = 0.007


def found(name: str, reach: float) -> FittedLines:
    fitted = fit_lines(name, reach, ERROR)
    assert fitted is not None
    assert fitted.error <= ERROR
    return fitted


def off_by(fitted: FittedLines, name: str, x: Reals) -> tuple[Reals, Reals]:
    """Which line each x is found on, as shares fall, and by how much it is off."""
    rng = np.random.default_rng(3)
    cell = np.floor(x / fitted.width - rng.random(x.size)) + 1
    table = fitted.lines
    place = np.clip(cell - table.start, 0, len(table.slopes) - 1).astype(int)
    slopes = np.ldexp(np.array(table.slopes)[place], -table.slope_frac)
    intercepts = np.ldexp(np.array(table.intercepts)[place], -table.intercept_frac)
    return cell, slopes * x + intercepts - SHAPES[name].function(x)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("reach", [2.5, 8.0])
def test_every_line_keeps_its_error_where_it_is_used(name: str, reach: float) -> None:
    fitted = found(name, reach)
    x = np.random.default_rng(1).uniform(fitted.low, fitted.high, 400_000)
    cell, gaps = off_by(fitted, name, x)
    squares = [np.mean(gaps[cell == c] ** 2) for c in np.unique(cell)[1:-1]]
    assert np.sqrt(2 * np.max(squares)) <= 1.05 * fitted.error
    assert np.abs(gaps).max() <= LINES


@pytest.mark.parametrize("name", SHAPES)
def test_lines_are_off_to_both_sides_alike(name: str) -> None:
    """What is off to one side adds up over a row of a matrix; noise does not."""
    fitted = found(name, 4.0)
    x = np.random.default_rng(2).normal(0, 1, 400_000)
    x = x[np.abs(x) < fitted.high]
    _, gaps = off_by(fitted, name, x)
    assert abs(gaps.mean()) < ERROR / 10


@pytest.mark.parametrize("name", ["gelu", "silu", "tanh"])
@pytest.mark.parametrize("reach", [3.0, 30.0])
def test_no_width_is_passed_over_that_has_cheaper_lines(
    name: str, reach: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = (ERROR, ERROR / 2)
    chosen = [fit_lines(name, reach, error) for error in errors]
    monkeypatch.setattr(lines, "_least_bits", lambda *_: 0.0)
    assert [fit_lines.__wrapped__(name, reach, error) for error in errors] == chosen
