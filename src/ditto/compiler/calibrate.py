"""How large every value of a graph gets, from sample inputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ditto.compiler.graph import Graph, Node, walk
from ditto.errors import FixedPointRangeError, SetupError

Samples = Sequence[Sequence[Any]]
"""For each sample, the flat inputs of the graph."""


_ENORMOUS = 1e15


@dataclass(frozen=True)
class Range:
    """What the samples showed of one value."""

    low: float
    high: float
    mean_square: float

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def rms(self) -> float:
        """The usual magnitude; never zero."""
        return max(math.sqrt(self.mean_square), self.largest * 1e-4, 1e-12)


def ranges(graph: Graph, samples: Samples) -> list[Range]:
    """The range of every node over all samples.

    The parties find a coarse maximum or one step more: samples take turns with it.
    """
    if not samples:
        raise SetupError("Calibration needs at least one sample.")
    found: list[Range | None] = [None] * len(graph.nodes)
    coarse = any(node.op == "coarse_max" for node in graph.nodes)
    if coarse and len(samples) == 1:
        samples = [*samples, *samples]
    for k, sample in enumerate(samples):
        settle = _one_step_more if coarse and k % 2 else None
        for i, value in walk(graph, sample, settle=settle):
            seen, node = found[i], graph.nodes[i]
            if seen is not None and (node.op == "constant" or _same(node, samples, k)):
                continue
            new = _range_of(value)
            found[i] = new if seen is None else _join(seen, new)
    result = [r for r in found if r is not None]
    for i, r in enumerate(result):
        node = graph.nodes[i]
        if node.op != "constant" and not math.isfinite(r.low + r.high):
            raise FixedPointRangeError(
                f"{node.op!r} in scope {node.scope or '(top)'!r} reaches a value that "
                f"is not finite on the calibration samples. Fixed point has no "
                f"infinity and no NaN: bound it before (an attention mask needs no "
                f"more than -30)."
            )
    return result


def _one_step_more(node: Node, value: Any) -> Any:
    return value + node.params["step"] if node.op == "coarse_max" else value


def _same(node: Node, samples: Samples, k: int) -> bool:
    """Whether an input is the very array it was in the sample before."""
    if node.op != "input":
        return False
    index = node.params["index"]
    return samples[k][index] is samples[k - 1][index]


def _range_of(value: Any) -> Range:
    array = np.asarray(value)
    if array.size == 0:
        return Range(0.0, 0.0, 0.0)
    flat = array.reshape(-1).astype(np.float32, copy=False)
    low, high = float(flat.min()), float(flat.max())
    if max(-low, high) > _ENORMOUS:  # a mask
        return Range(low, high, _ENORMOUS**2)
    return Range(low, high, float(np.dot(flat, flat)) / flat.size)


def _join(a: Range, b: Range) -> Range:
    square = (a.mean_square + b.mean_square) / 2
    return Range(min(a.low, b.low), max(a.high, b.high), square)


def samples_from_bounds(graph: Graph, bounds: Sequence[float]) -> Samples:
    """Samples that fill the given bounds of the inputs, when there is no data."""
    rng = np.random.default_rng(0)
    nodes = [graph.nodes[i] for i in graph.inputs]

    def draw(node: Any, bound: float) -> Any:
        if node.dtype == "float32":
            return rng.uniform(-bound, bound, node.shape).astype(np.float32)
        return rng.integers(0, int(bound) + 1, node.shape).astype(node.dtype)

    return [
        [draw(node, bound) for node, bound in zip(nodes, bounds, strict=True)]
        for _ in range(4)
    ]
