"""How large every value of a graph gets, from sample inputs."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ditto.errors import FixedPointRangeError, SetupError
from ditto.fixedpoint import Array
from ditto.operations import Sampled, Trait, has, walk_samples
from ditto.operations.arguments import computed_dtype
from ditto.plan import Graph, Node

Samples = Sequence[Sequence[Any]]
"""For each sample, the flat inputs of the graph."""


_ENORMOUS = 1e15
_SAME_RANGE = Trait.RESHAPES | Trait.KEEPS_RANGE
"""What leaves the range of its operand as it is."""
_FEW = 16
"""Samples that all graphs but the first are run on, and that are computed together if
they are small: an operation is then called once for all of them."""
_ELEMENTS = 1 << 22
"""That a value may have in all samples that are computed together."""
_AT_ONCE = 2
"""Groups of samples that are evaluated at the same time: one computes while another is
looked at."""
_OUTLYING = 64.0
"""How many times the square of half of all rows the mean square may be: above it, a few
rows are outliers, such as the first token of a text in a decoder: they say how far
values go, and nothing of what precision the others need."""
_NEARLY = 0.05
"""What is lost if a sample stands for one that goes further."""


@dataclass(frozen=True)
class Range:
    """What the samples showed of one value."""

    low: float
    high: float
    mean_square: float
    spread: float = 1.0
    """How many times further the furthest sample goes than samples usually do."""
    usual_square: float | None = None
    """The mean square but for a few rows that hold nearly all of it; None if there are
    no such rows."""

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def rms(self) -> float:
        """The usual magnitude; never zero."""
        return max(math.sqrt(self.mean_square), self.largest * 1e-4, 1e-12)

    @property
    def usual(self) -> float:
        """The magnitude of what is no outlier; never zero."""
        if self.usual_square is None:
            return self.rms
        return max(math.sqrt(self.usual_square), self.largest * 1e-5, 1e-12)


OnStage = Callable[[str], None]
"""Called with what is being done."""
_Table = list[Range]
"""What one sample shows of every node."""


class Calibration:
    """Sample inputs, and how large they make every value of a graph.

    Graphs come one after another as passes change them. The first sees all samples; the
    others those alone that went furthest somewhere, which show nearly the same.
    """

    def __init__(self, samples: Samples, on_stage: OnStage | None = None) -> None:
        if not samples:
            raise SetupError("Calibration needs at least one sample.")
        self._on_stage = on_stage or _ignore
        self.samples = _converted(samples)
        self._together = min(_FEW, max(2, len(samples)))
        self._chosen = False
        self._known: tuple[Graph, list[Range]] | None = None

    def ranges(self, graph: Graph) -> list[Range]:
        """The range of every node over all samples.

        The parties find a coarse maximum or one step more: samples take turns with it.
        """
        if self._known is None or self._known[0] is not graph:
            self._on_stage(f"calibrating on {len(self.samples)} samples")
            self._known = (graph, self._measure(graph))
            self._on_stage("compiling")
        return self._known[1]

    def assume(self, graph: Graph, ranges: list[Range]) -> None:
        """Ranges of a graph that follow from those of the graph before."""
        self._known = (graph, ranges)

    def _measure(self, graph: Graph) -> list[Range]:
        coarse = any(node.op == "coarse_max" for node in graph.nodes)
        samples = self.samples
        if coarse and len(samples) == 1:
            samples = [*samples, *samples]
        alike = _alike(samples)
        size = _group_size(graph, alike, self._together)
        groups = [samples[k : k + size] for k in range(0, len(samples), size)]

        def tables_of(k: int, first: _Table | None = None) -> list[_Table]:
            return _tables_of(graph, groups[k], size, alike, k * size, first)

        tables = tables_of(0)
        later = partial(tables_of, first=tables[0])
        # with threads of its own in each of ours, BLAS takes twice as long
        limited = threadpool_limits(1, user_api="blas")
        with limited, ThreadPoolExecutor(_AT_ONCE) as pool:
            for more in pool.map(later, range(1, len(groups))):
                tables += more
        if not self._chosen:
            self.samples = [samples[k] for k in _furthest(tables)]
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


def _ignore(_: str) -> None:
    """Nobody asked what is being done."""


def _converted(samples: Samples) -> list[list[Array]]:
    """The samples in the types they are computed in; what they share is copied once."""
    copies: dict[int, Array] = {}

    def copied(x: Any) -> Array:
        if id(x) not in copies:
            copies[id(x)] = np.asarray(x, np.dtype(computed_dtype(x, "A sample")))
        return copies[id(x)]

    return [[copied(x) for x in sample] for sample in samples]


def _alike(samples: Samples) -> list[bool]:
    """For each input, whether it is the very same array in all samples."""
    return [all(x is each[0] for x in each) for each in zip(*samples, strict=True)]


def _group_size(graph: Graph, alike: Sequence[bool], most: int) -> int:
    """How many samples are computed together, ``most`` at most."""
    differs: list[bool] = []
    largest = 1
    for node in graph.nodes:
        if node.op == "input":
            differs.append(not alike[node.params["index"]])
        else:
            coarse = node.op == "coarse_max"
            differs.append(coarse or any(differs[u] for u in node.inputs))
        if differs[-1]:
            largest = max(largest, math.prod(node.shape))
    return max(1, min(most, _ELEMENTS // largest))


def _tables_of(
    graph: Graph,
    samples: Samples,
    size: int,
    alike: Sequence[bool],
    start: int,
    first: _Table | None,
) -> list[_Table]:
    """For each of some samples, of which ``start`` is the number of the first one, the
    range of every node; the table of another sample knows what is the same in all."""
    count = len(samples)
    full = [*samples, *[samples[-1]] * (size - count)]  # one shape, compiled once
    arguments = [
        Sampled(each[0], batched=False)
        if same
        else Sampled(np.stack(each), batched=True)
        for each, same in zip(zip(*full, strict=True), alike, strict=True)
    ]
    tables: list[_Table] = [[] for _ in samples]
    settle = partial(_every_second_one_step_more, (start + np.arange(size)) % 2)
    for i, value in walk_samples(graph, arguments, settle):
        node = graph.nodes[i]
        if has(node.op, _SAME_RANGE):
            ranges = [table[node.inputs[0]] for table in tables]
        elif value.batched:
            ranges = _ranges_of(value.array[:count])
        else:
            known = _range_of(value.array) if first is None else first[i]
            ranges = [known] * count
        for table, seen in zip(tables, ranges, strict=True):
            table.append(seen)
    return tables


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


def _every_second_one_step_more(odd: Array, node: Node, value: Sampled) -> Sampled:
    if node.op != "coarse_max":
        return value
    array = value.array if value.batched else value.array[None]
    steps = (node.params["step"] * odd).reshape(-1, *[1] * (array.ndim - 1))
    return Sampled(array + steps.astype(array.dtype), batched=True)


def _range_of(value: ArrayLike) -> Range:
    return _ranges_of(np.asarray(value)[None])[0]


def _ranges_of(values: Array) -> list[Range]:
    """The range of each sample."""
    if values.size == 0:
        return [Range(0.0, 0.0, 0.0)] * len(values)
    width = values.shape[-1] if values.ndim > 1 else 1
    rows = values.reshape(len(values), -1, width).astype(np.float32, copy=False)
    lows, highs = rows.min((1, 2)).tolist(), rows.max((1, 2)).tolist()
    squares = np.einsum("sij,sij->si", rows, rows).astype(np.float64) / width
    ends = zip(lows, highs, squares, strict=True)
    return [
        Range(low, high, _ENORMOUS**2)
        if max(-low, high) > _ENORMOUS  # a mask
        else _range_of_rows(each, low, high)
        for low, high, each in ends
    ]


def _range_of_rows(squares: Array, low: float, high: float) -> Range:
    """Of one sample, whose rows have these mean squares."""
    mean = float(squares.mean())
    return Range(low, high, mean, usual_square=_usual(squares, mean))


def _usual(squares: Array, mean: float) -> float | None:
    """The median, if a few are so large that the mean says nothing of the others."""
    outlying = mean / _OUTLYING
    if 2 * np.count_nonzero(squares >= outlying) > squares.size:  # so is the median
        return None
    median = float(np.median(squares))
    return median if 0 < median < outlying else None


def _joined(seen: Sequence[Range]) -> Range:
    sizes = sorted(r.largest for r in seen)
    usual = sizes[len(sizes) // 2]
    mean = sum(r.mean_square for r in seen) / len(seen)
    squares = [
        r.mean_square if r.usual_square is None else r.usual_square for r in seen
    ]
    return Range(
        min(r.low for r in seen),
        max(r.high for r in seen),
        mean,
        sizes[-1] / usual if usual > 0 else 1.0,
        _usual(np.array(squares), mean),
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
