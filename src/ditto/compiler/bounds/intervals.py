"""Bounds of sums, grids, tables and pieces: what intervals alone tell."""

import math
from dataclasses import replace

import numpy as np

from ditto.compiler.bounds.bound import Bound
from ditto.operations import evaluate_plain
from ditto.plan import Node

SLACK = 1 + 1 / 64
"""Of every product and normalisation: weights and operands are rounded to 10 bits and
more, a recast errs by an ulp, a table of an inverse root by far less than this."""
_POINTS = 4097
"""Where pieces are looked at: many more than they have cells."""


def slackened(bound: Bound) -> Bound:
    """Both ends further out."""
    low = bound.low * SLACK if bound.low < 0 else bound.low / SLACK
    high = bound.high * SLACK if bound.high > 0 else bound.high / SLACK
    return replace(bound, low=low, high=high)


def summed(node: Node, shape: tuple[int, ...], x: Bound) -> Bound:
    """A sum over axes."""
    axes = tuple(int(a) for a in node.params["axes"])
    count = math.prod(shape[a] for a in axes)
    low, high = min(x.low * count, 0.0), max(x.high * count, 0.0)
    if x.low > 0:
        low = x.low * count
    if x.rows is not None and x.rows.axes == axes:
        least, most = x.rows.total()
        return Bound(max(low, least), min(high, most))
    return Bound(low, high)


def on_grid(node: Node, x: Bound) -> Bound:
    """A coarse maximum."""
    low, high, step = (float(node.params[n]) for n in ("low", "high", "step"))
    return Bound(max(x.low, low) - step, min(x.high, high) + step)


def of_table(node: Node) -> Bound:
    """The function at the ends of its table, whatever it is asked for."""
    ends = np.array([node.params["low"], node.params["high"]])
    values = evaluate_plain("table_function", node.params, [ends]).astype(np.float64)
    return Bound(float(values.min()) / SLACK, float(values.max()) * SLACK)


def of_pieces(node: Node, x: Bound) -> Bound:
    """Pieces where they are used: on the range of x and of their cells."""
    low, high = (float(node.params[end]) for end in ("low", "high"))
    if low < x.high and x.low < high:
        low, high = max(x.low, low), min(x.high, high)
    points = np.linspace(low, high, _POINTS)
    values = evaluate_plain(node.op, node.params, [points]).astype(np.float64)
    return slackened(Bound(float(values.min()), float(values.max())))
