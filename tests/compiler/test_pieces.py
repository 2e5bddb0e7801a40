"""Pieces: what they promise of their error, where the protocol uses them."""

import numpy as np
import pytest

from ditto.compiler.passes.pieces import FittedPieces, fit_pieces, nearest_pieces
from ditto.compiler.passes.shapes import SHAPES, Reals

from .cases import PIECES

ERROR = 0.002


def found(name: str, reach: float, error: float = ERROR) -> FittedPieces:
    fitted = fit_pieces(name, reach, error)
    assert fitted is not None
    assert fitted.error <= error
    return fitted


def off_by(fitted: FittedPieces, name: str, x: Reals) -> tuple[Reals, Reals]:
    """Which piece each x is found on, as shares fall, and by how much it is off."""
    rng = np.random.default_rng(3)
    cell = np.floor(x / fitted.width - rng.random(x.size)) + 1
    pieces = fitted.pieces
    place = np.clip(cell - pieces.start, 0, len(pieces.slopes) - 1).astype(int)
    c0, c1, c2 = (each[place] for each in pieces.real())
    d = x - (place + pieces.start) * fitted.width
    return cell, c0 + c1 * d + c2 * d * d - SHAPES[name].function(x)


def test_what_a_gelu_costs() -> None:
    assert found("gelu", 15.0).bits == 350


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("reach", [2.5, 8.0])
@pytest.mark.parametrize("error", [ERROR, ERROR / 8])
def test_every_piece_keeps_its_error_where_it_is_used(
    name: str, reach: float, error: float
) -> None:
    fitted = found(name, reach, error)
    x = np.random.default_rng(1).uniform(fitted.low, fitted.high, 400_000)
    cell, gaps = off_by(fitted, name, x)
    squares = [np.mean(gaps[cell == c] ** 2) for c in np.unique(cell)[1:-1]]
    assert np.sqrt(2 * np.max(squares)) <= 1.05 * fitted.error
    assert np.abs(gaps).max() <= PIECES * error / ERROR


@pytest.mark.parametrize("name", SHAPES)
def test_pieces_are_off_to_both_sides_alike(name: str) -> None:
    """What is off to one side adds up over a row of a matrix; noise does not."""
    fitted = found(name, 4.0)
    x = np.random.default_rng(2).normal(0, 1, 400_000)
    x = x[np.abs(x) < fitted.high]
    _, gaps = off_by(fitted, name, x)
    assert abs(gaps.mean()) < ERROR / 10


@pytest.mark.parametrize("name", ["gelu", "silu", "tanh"])
def test_a_quarter_of_the_error_costs_two_fifths_more_at_most(name: str) -> None:
    for reach in (3.0, 12.0):
        coarse, fine = found(name, reach), found(name, reach, ERROR / 4)
        assert fine.bits <= 1.4 * coarse.bits
        assert coarse.bits <= 400


@pytest.mark.parametrize("name", SHAPES)
def test_functions_are_straight_lines_beyond_their_edges(name: str) -> None:
    shape = SHAPES[name]
    x = np.linspace(shape.edge, 60, 4097)
    for side, slope in ((x, float(shape.rises)), (-x, 0.0)):
        y = shape.function(side) - slope * side
        assert np.abs(y - y[0]).max() <= 1 / 80_000


def test_the_nearest_error_that_has_pieces_is_taken() -> None:
    assert nearest_pieces("gelu", 6.0, ERROR, 1.0) == fit_pieces("gelu", 6.0, ERROR)
    assert fit_pieces("silu", 440.0, ERROR) is None
    near = nearest_pieces("silu", 440.0, ERROR, 1.0)
    assert near is not None
    assert ERROR < near.error <= 0.01
    assert nearest_pieces("silu", 440.0, ERROR, near.error / 2) is None
    assert nearest_pieces("silu", 1e6, ERROR, 1e3) is None
