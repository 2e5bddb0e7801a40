"""How large every value of a graph gets, from sample inputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ditto.compiler.graph import Graph, Node, Settle, walk
from ditto.compiler.operations import MOVES
from ditto.errors import FixedPointRangeError, SetupError

Samples = Sequence[Sequence[Any]]
"""For each sample, the flat inputs of the graph."""


_ENORMOUS = 1e15
_KEPT = MOVES | {"transpose", "within"}
"""What leaves the range of its operand as it is."""
_FEW = 16
"""Samples that all graphs but the first are run on."""
_NEARLY = 0.05
"""What is lost if a sample stands for one that goes further."""


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


class Calibration:
    """Sample inputs, and how large they make every value of a graph.

    Graphs come one after another as passes change them. The first sees all samples; the
    others those alone that went furthest somewhere, which show nearly the same.
    """

    def __init__(self, samples: Samples) -> None:
        if not samples:
            raise SetupError("Calibration needs at least one sample.")
        self.samples = list(samples)
        self._chosen = False

    def ranges(self, graph: Graph) -> list[Range]:
        """The range of every node over all samples.

        The parties find a coarse maximum or one step more: samples take turns with it.
        """
        coarse = any(node.op == "coarse_max" for node in graph.nodes)
        samples = self.samples
        if coarse and len(samples) == 1:
            samples = [*samples, *samples]
        tables: list[list[Range]] = []
        for k, sample in enumerate(samples):
            settle = _one_step_more if coarse and k % 2 else None
            before = samples[k - 1] if k else None
            known = tables[k - 1] if k else None
            tables.append(_ranges_of(graph, sample, settle, before, known))
        if not self._chosen:
            self.samples = [self.samples[k] for k in _furthest(tables)]
            self._chosen = True
        result = [_joined(seen) for seen in zip(*tables, strict=True)]
        for node, seen in zip(graph.nodes, result, strict=True):
            if node.op != "constant" and not math.isfinite(seen.low + seen.high):
                raise FixedPointRangeError(
                    f"{node.op!r} in scope {node.scope or '(top)'!r} reaches a value "
                    f"that is not finite on the calibration samples. Fixed point has "
                    f"no infinity and no NaN: bound it before (an attention mask needs "
                    f"no more than -30)."
                )
        return result


def _ranges_of(
    graph: Graph,
    sample: Sequence[Any],
    settle: Settle | None,
    before: Sequence[Any] | None,
    known: list[Range] | None,
) -> list[Range]:
    """The range of every node on one sample; what is as before is not looked at."""
    found: list[Range] = []
    for i, value in walk(graph, sample, settle=settle):
        node = graph.nodes[i]
        if node.op in _KEPT:
            found.append(found[node.inputs[0]])
        elif known is not None and _same(node, sample, before):
            found.append(known[i])
        else:
            found.append(_range_of(value))
    return found


def _furthest(tables: list[list[Range]]) -> list[int]:
    """Samples that together reach nearly as far as all of them, the best first."""
    if len(tables) <= _FEW:
        return list(range(len(tables)))
    ends = np.array([[(-r.low, r.high) for r in table] for table in tables])
    ends = ends.reshape(len(tables), -1)
    best = ends.max(0)
    near = ends >= best - _NEARLY * np.abs(best)
    chosen: list[int] = []
    missing = np.ones(near.shape[1], bool)
    while missing.any() and len(chosen) < _FEW:
        gains = (near & missing).sum(1)
        chosen.append(int(gains.argmax()))
        missing &= ~near[chosen[-1]]
    return sorted(chosen)


def _one_step_more(node: Node, value: Any) -> Any:
    return value + node.params["step"] if node.op == "coarse_max" else value


def _same(node: Node, sample: Sequence[Any], before: Sequence[Any] | None) -> bool:
    """Whether a constant or an input is the very array it was in the sample before."""
    if node.op != "input" or before is None:
        return node.op == "constant"
    index = node.params["index"]
    return sample[index] is before[index]


def _range_of(value: Any) -> Range:
    array = np.asarray(value)
    if array.size == 0:
        return Range(0.0, 0.0, 0.0)
    flat = array.reshape(-1).astype(np.float32, copy=False)
    low, high = float(flat.min()), float(flat.max())
    if max(-low, high) > _ENORMOUS:  # a mask
        return Range(low, high, _ENORMOUS**2)
    return Range(low, high, float(np.dot(flat, flat)) / flat.size)


def _joined(seen: Sequence[Range]) -> Range:
    return Range(
        min(r.low for r in seen),
        max(r.high for r in seen),
        sum(r.mean_square for r in seen) / len(seen),
    )


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
