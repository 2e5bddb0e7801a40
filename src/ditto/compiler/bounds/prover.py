"""prover: follow a graph and say how large every value can get, whatever the input.

Every rule holds for all inputs, as long as nothing before has left a range that is
checked: grids, tables and fitted functions are then used where they are good, and what
was recast is below its limit. So a value that is the first to leave its range does so
from operands that are in theirs, and reaches no further than its bound says.

Rules
    weights           are known, and so is what follows from them alone.
    lookup            rows of a known table, element by element and by their length.
    normalisation     x / sqrt(mean(x^2) + eps) is at most sqrt(d) long, without its
                      mean too if x was centred.
    x @ w + b         an image of the rows of x (``rows``, ``products``).
    scores            |q . k| by heads, from the weights of both.
    softmax           shares are not negative and add up to one, so what they weight
                      stays among the rows it is taken from.
    functions         what is computed element by element from one tensor (exp by
                      squarings, clamps) is looked at along that tensor's range.
    else              intervals. An operation without a rule has no bound.

Security
    The bounds depend on weights and on nothing a client sends. They stay with the
    owner; of a plan they change fracs alone, which tell magnitudes to a factor of two
    as those of samples do.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ditto.compiler.bounds.bound import (
    UNKNOWN,
    Bound,
    Curve,
    exactly,
    of_rows,
    rows_along,
)
from ditto.compiler.bounds.intervals import (
    SLACK,
    of_pieces,
    of_table,
    on_grid,
    slackened,
    summed,
)
from ditto.compiler.bounds.movement import moved
from ditto.compiler.bounds.products import WHOLE, contraction_bound
from ditto.compiler.bounds.rows import Rows
from ditto.compiler.bounds.structure import (
    below_maximum,
    is_centred,
    normalised,
    share_of,
    weighted_mean,
)
from ditto.compiler.calibrate import Range
from ditto.compiler.passes.tabulate import is_square
from ditto.fixedpoint import Array
from ditto.operations import Trait, evaluate_plain, has
from ditto.plan import Graph, Node

_MOST_KNOWN = 1 << 25
"""Elements of the largest array that is computed because it is always the same."""
_ALONG = ("add", "sub", "mul", "neg", "max", "min", "within", "exp", "tanh",
          "logistic", "gelu", "gelu_tanh", "silu", "abs", "exp_negative")  # fmt: skip
"""Operations that a curve is followed through."""
_DEGREES: Mapping[str, Callable[[Sequence[int]], int]] = {"mul": sum}


@dataclass(frozen=True)
class Proof:
    """What was proved of a graph."""

    reach: list[tuple[float, float]]
    """For every node, between what it lies; infinite where nothing is proved."""
    curves: dict[int, Curve]
    """Nodes that are functions of what squarings or a clamp are of."""

    def largest(self, i: int) -> float:
        """The largest magnitude of a node."""
        return max(abs(end) for end in self.reach[i])


def prove(
    graph: Graph,
    known: Sequence[Range],
    secret: Sequence[bool],
    weights: Mapping[int, Array],
    limits: Mapping[int, float] | None = None,
) -> Proof:
    """Bounds of all nodes.

    ``weights`` are the nodes whose value never changes. Public values lie where
    ``known`` says. ``limits`` are what checked nodes are below when others take them.
    """
    walker = _Prover(graph, known, secret, weights, limits or {})
    return walker.run()


class _Prover:
    def __init__(
        self,
        graph: Graph,
        known: Sequence[Range],
        secret: Sequence[bool],
        weights: Mapping[int, Array],
        limits: Mapping[int, float],
    ) -> None:
        self._graph, self._known, self._secret = graph, known, secret
        self._weights, self._limits = weights, limits
        self._bounds: dict[int, Bound] = {}

    def run(self) -> Proof:
        graph = self._graph
        last = {u: i for i, node in enumerate(graph.nodes) for u in node.inputs}
        for i, node in enumerate(graph.nodes):
            found = normalised(graph, i) if node.op == "mul" else None
            if found is not None and found.weight is not None:
                last[found.weight] = i  # looked at again behind the root
            mean = weighted_mean(graph, i) if node.op == "mul" else None
            if mean is not None:
                for u in graph.nodes[mean.product].inputs:
                    last[u] = max(last[u], i)  # and behind the quotient
        reach: list[tuple[float, float]] = []
        curves: dict[int, Curve] = {}
        for i, node in enumerate(graph.nodes):
            bound = self._bound(i, node)
            reach.append((bound.low, bound.high))
            if bound.curve is not None:
                curves[i] = bound.curve
            limit = self._limits.get(i, math.inf)
            self._bounds[i] = _checked(bound, limit)
            for u in {*node.inputs}:
                if last[u] == i:  # large matrices go with their last use
                    self._bounds[u] = replace(self._bounds[u], rows=None, value=None)
        return Proof(reach, curves)

    def _bound(self, i: int, node: Node) -> Bound:
        constant = self._graph.constant(i)
        if constant is not None:
            return exactly(constant)
        if i in self._weights:
            return exactly(self._weights[i])
        if not self._secret[i]:
            return self._public(i)
        if node.op == "input" or node.dtype == "bool":
            return UNKNOWN
        operands = [self._bounds[u] for u in node.inputs]
        if all(b.value is not None for b in operands) and node.size <= _MOST_KNOWN:
            values = [b.value for b in operands if b.value is not None]
            return exactly(evaluate_plain(node.op, node.params, values))
        found = self._rule(i, node, operands)
        curve = self._curve(i, node, operands)
        if curve is not None:
            low, high = curve.ends
            low, high = max(low, found.low), min(high, found.high)
            found = replace(found, low=low, high=high, curve=curve)
        if is_square(self._graph, i):
            found = replace(found, low=max(found.low, 0.0))
        if math.isnan(found.low) or math.isnan(found.high):
            return UNKNOWN
        return found

    def _public(self, i: int) -> Bound:
        """Where samples saw it, and as far again; 0 and 1 are a mask."""
        seen = self._known[i]
        if seen.low >= 0.0 and seen.high <= 1.0:
            return Bound(0.0, 1.0)
        reach = 2 * seen.largest
        return Bound(0.0 if seen.low >= 0 else -reach, reach)

    def _rule(self, i: int, node: Node, operands: list[Bound]) -> Bound:
        shapes = [self._graph.nodes[u].shape for u in node.inputs]
        match node.op:
            case "lookup":
                return self._lookup(node, operands[0])
            case "dot_general":
                found = contraction_bound(node, shapes, *operands)
                return slackened(found)
            case "mul":
                return self._product(i, node, operands)
            case "add" | "sub":
                return self._sum(i, node, operands)
            case "neg":
                return Bound(-operands[0].high, -operands[0].low)
            case "max" | "min":
                choose = max if node.op == "max" else min
                low, high = (
                    choose(getattr(b, end) for b in operands) for end in ("low", "high")
                )
                return Bound(low, high)
            case "select_n":
                return self._selected(i, operands)
            case "reduce_sum":
                return summed(node, shapes[0], operands[0])
            case "reduce_max" | "reduce_min" | "bounded_max" | "bounded_min":
                return Bound(operands[0].low, operands[0].high)
            case "coarse_max":
                return on_grid(node, operands[0])
            case "within":
                low, high = (float(node.params[end]) for end in ("low", "high"))
                (x,) = operands
                return Bound(max(x.low, low), min(x.high, high))
            case "piecewise_quadratic":
                return of_pieces(node, operands[0])
            case "exponential":
                top = min(operands[0].high, float(node.params["high"]))
                return Bound(0.0, math.exp(top) * SLACK)
            case "table_function":
                return of_table(node)
            case op if has(op, Trait.RESHAPES) or op in (
                "transpose", "slice", "rev", "concatenate", "gather", "dynamic_slice",
                "dynamic_update_slice", "convert_element_type", "pad",
            ):  # fmt: skip
                return moved(node, shapes, operands)
            case "tanh" | "logistic" | "erf":
                return Bound(-1.0, 1.0)
        return UNKNOWN

    def _lookup(self, node: Node, table: Bound) -> Bound:
        if table.value is None or table.value.ndim != 2:
            return Bound(table.low, table.high)
        last = (len(node.shape) - 1,)
        rows = rows_along(table, table.value.shape, (1,))
        if rows is None:
            return UNKNOWN
        return of_rows(rows.along(last, rows.sizes))

    def _product(self, i: int, node: Node, operands: list[Bound]) -> Bound:
        a, b = operands
        found = self._normalised(i)
        if found is not None:
            return found
        shared = share_of(self._graph, i)
        if shared is not None and self._bounds[shared].low >= 0:
            return Bound(0.0, WHOLE, shares=True)
        mean = self._weighted_mean(i)
        if mean is not None:
            return mean
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        ends = [0.0 if math.isnan(end) else end for end in ends]
        found = Bound(min(ends), max(ends))
        rows = self._scaled_rows(node, operands)
        if rows is not None:
            low, high = max(found.low, rows.low), min(found.high, rows.high)
            found = Bound(low, high, rows=rows)
        return slackened(found)

    def _weighted_mean(self, i: int) -> Bound | None:
        """As the product of shares and rows that it is equal to."""
        found = weighted_mean(self._graph, i)
        if found is None:
            return None
        product = self._graph.nodes[found.product]
        operands = [self._bounds[u] for u in product.inputs]
        if operands[found.side].low < 0:
            return None
        operands[found.side] = Bound(0.0, WHOLE, shares=True)
        shapes = [self._graph.nodes[u].shape for u in product.inputs]
        return slackened(contraction_bound(product, shapes, *operands))

    def _normalised(self, i: int) -> Bound | None:
        """x / sqrt(factor * |x|^2 + eps) is at most 1 / sqrt(factor) long, and then
        each feature may be scaled by a weight."""
        found = normalised(self._graph, i)
        if found is None:
            return None
        shape = self._graph.nodes[found.source].shape
        radius, last = SLACK / math.sqrt(found.factor), len(shape) - 1
        rows = Rows.ball(last, shape[-1], radius, mean_free=found.centred)
        if found.weight is None:
            return of_rows(rows)
        weights = self._scaled(rows, shape, self._bounds[found.weight])
        return None if weights is None else slackened(of_rows(weights))

    @staticmethod
    def _scaled(rows: Rows, shape: tuple[int, ...], weight: Bound) -> Rows | None:
        """Rows times a weight that is known."""
        if weight.value is None:
            return None
        factors = rows_along(weight, shape, rows.axes)
        if factors is None or np.any(factors.extent):
            return None
        return rows.scaled(factors.centre)

    def _scaled_rows(self, node: Node, operands: list[Bound]) -> Rows | None:
        for k in (0, 1):
            rows, other = operands[k].rows, operands[1 - k]
            if rows is None:
                continue
            scaled = self._scaled(rows, node.shape, other)
            if scaled is not None:
                return scaled
            if other.low >= 0 and other.known:
                return rows.between_zero_and(other.high)
        return None

    def _sum(self, i: int, node: Node, operands: list[Bound]) -> Bound:
        a, b = operands
        if node.op == "sub":
            b = replace(b, low=-b.high, high=-b.low)
        found = Bound(a.low + b.low, a.high + b.high)
        if node.op == "sub" and is_centred(self._graph, i):
            rows = a.rows
            if rows is not None and len(rows.axes) == 1:
                return of_rows(rows.centred())
            return found
        step = below_maximum(self._graph, i)
        if step is not None:
            scores, grid = self._grid_under(i)
            low = max(found.low, scores.low - grid.high - step)
            found = replace(found, low=low, high=min(found.high, step))
        rows = self._added_rows(node, operands)
        if rows is not None:
            low, high = max(found.low, rows.low), min(found.high, rows.high)
            found = Bound(low, high, rows=rows)
        return found

    def _added_rows(self, node: Node, operands: list[Bound]) -> Rows | None:
        axes = next((b.rows.axes for b in operands if b.rows is not None), None)
        if axes is None:
            return None
        first, second = (rows_along(b, node.shape, axes) for b in operands)
        if first is None or second is None or first.sizes != second.sizes:
            return None
        if node.op == "sub":
            second = second.scaled(np.float32(-1) * np.ones_like(second.centre))
        if not second.balls and second.box is None:
            return first.moved(second.centre)
        return first.plus(second)

    def _selected(self, i: int, operands: list[Bound]) -> Bound:
        cases = operands[1:]
        low, high = min(b.low for b in cases), max(b.high for b in cases)
        step = below_maximum(self._graph, i)
        if step is not None:  # hidden positions are 0, the others below their maximum
            scores, grid = self._grid_of(i)
            low, high = min(scores.low - grid.high - step, 0.0), step
        rows = next((b.rows for b in cases if b.rows is not None), None)
        zeros = [b for b in cases if (b.low, b.high) == (0.0, 0.0)]
        if rows is not None and len(zeros) == len(cases) - 1:
            return Bound(low, high, rows=rows.between_zero_and(1.0))
        return Bound(low, high)

    def _grid_of(self, i: int) -> tuple[Bound, Bound]:
        """The scores that a masked softmax is of, and their maximum."""
        nodes = self._graph.nodes
        return self._grid_under(
            next(u for u in nodes[i].inputs[1:] if nodes[u].op == "sub")
        )

    def _grid_under(self, difference: int) -> tuple[Bound, Bound]:
        """The same of x - max(x)."""
        nodes = self._graph.nodes
        top = nodes[difference].inputs[1]
        while has(nodes[top].op, Trait.RESHAPES):
            top = nodes[top].inputs[0]
        held = self._bounds[nodes[top].inputs[0]]
        if nodes[top].op == "coarse_max":
            ends = [float(nodes[top].params[end]) for end in ("low", "high")]
            held = Bound(max(held.low, ends[0]), min(held.high, ends[1]))
        return held, self._bounds[top]

    def _curve(self, i: int, node: Node, operands: list[Bound]) -> Curve | None:
        """What a node is of one tensor, element by element."""
        if node.op == "concatenate" and int(node.params["dimension"]) == 0:
            return self._stacked(node, operands)
        if node.op == "slice" and operands[0].curve is not None:
            return _part_of(node, operands[0].curve)
        if node.op == "within":
            (x,) = operands
            low, high = (float(node.params[end]) for end in ("low", "high"))
            if not x.known or x.high <= low or x.low >= high:
                return None
            ends = max(low, x.low), min(high, x.high)
            return Curve.reaching(i, ends, (x.low, x.high))
        if node.op not in _ALONG or node.dtype != "float32":
            return None
        return self._applied(node, operands)

    def _applied(self, node: Node, operands: list[Bound]) -> Curve | None:
        curves = [
            None if b.value is not None else self._identity(u, b)
            for u, b in zip(node.inputs, operands, strict=True)
        ]
        numbers = [self._graph.uniform(u) for u in node.inputs]
        found = [curve for curve in curves if curve is not None]
        if not found or any(c.source != found[0].source for c in found):
            return None
        if any(c is None and x is None for c, x in zip(curves, numbers, strict=True)):
            return None
        shapes = [
            self._graph.nodes[u].shape
            for u, c in zip(node.inputs, curves, strict=True)
            if c is not None
        ]
        if any(shape != node.shape for shape in shapes):
            return None
        values = [
            np.full((), x or 0.0) if c is None else c.samples
            for c, x in zip(curves, numbers, strict=True)
        ]
        with np.errstate(all="ignore"):
            samples = _evaluated(node, values)
        degrees = [c.degree for c in found]
        degree = _DEGREES.get(node.op, max)(degrees)
        return replace(found[0], samples=samples, degree=degree)

    def _identity(self, u: int, bound: Bound) -> Curve | None:
        """A tensor as a function of itself, if it is none of another."""
        if bound.curve is not None:
            return bound.curve
        if not bound.known or self._graph.nodes[u].dtype != "float32":
            return None
        return Curve.of(u, bound.low, bound.high)

    def _stacked(self, node: Node, operands: list[Bound]) -> Curve | None:
        curves = [
            self._identity(u, b) for u, b in zip(node.inputs, operands, strict=True)
        ]
        found = [c for c in curves if c is not None]
        shapes = {self._graph.nodes[u].shape for u in node.inputs}
        same = len(shapes) == 1 and len({c.source for c in found}) == 1
        if len(found) < len(curves) or not same:
            return None
        return replace(found[0], samples=np.concatenate([c.samples for c in found]))


def _evaluated(node: Node, values: list[np.ndarray]) -> np.ndarray:
    """An operation on samples, in double precision."""
    simple: dict[str, Callable[..., np.ndarray]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
        "max": np.maximum, "min": np.minimum, "abs": np.abs, "tanh": np.tanh,
        "exp": np.exp, "exp_negative": np.exp,
    }  # fmt: skip
    if node.op in simple:
        return np.asarray(simple[node.op](*values), np.float64)
    return evaluate_plain(node.op, node.params, values).astype(np.float64)


def _part_of(node: Node, curve: Curve) -> Curve | None:
    """One of the parts that lie one after another."""
    start, stop = (node.params[n] for n in ("start_indices", "limit_indices"))
    parts, rows = len(curve.samples), node.shape[0] if node.shape else 0
    whole = all(
        a == 0 and b == n
        for a, b, n in zip(start[1:], stop[1:], node.shape[1:], strict=True)
    )
    if parts == 1 or not whole or node.params.get("strides") or start[0] % rows:
        return None
    k = start[0] // rows
    return replace(curve, samples=curve.samples[k : k + 1]) if k < parts else None


def _checked(bound: Bound, limit: float) -> Bound:
    """A bound, where a check has found the value below a limit."""
    if limit >= bound.largest:
        return bound
    rows = None if bound.rows is None else bound.rows.below(limit)
    low, high = max(bound.low, -limit), min(bound.high, limit)
    return replace(bound, low=low, high=high, rows=rows)
