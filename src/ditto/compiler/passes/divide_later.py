"""divide later: a softmax is divided by its sums after the product with the values.

(e / sum(e)) v is (e v) / sum(e). The reciprocal of the sums then runs beside the
product, and what is divided has as many elements per row as v has features, not as many
as there are keys.

The sum of many e v is large, and its type leaves e few fraction bits if those of v are
given: then it is divided first after all.
"""

from collections.abc import Sequence, Set
from dataclasses import replace

from ditto.compiler.bounds.products import Contraction
from ditto.compiler.builder import Builder, rewrite
from ditto.compiler.calibrate import Range
from ditto.compiler.passes.tabulate import unmoved
from ditto.plan import Graph

_PRODUCT_BITS = 140
"""Of an element of a product with its recast, in its usual types."""
_WORTH = 3 << 21
"""Bits that the rounds of a product are worth, on a LAN."""
_LEAST_FRAC = 8
"""Fraction bits that exp needs: with n keys, attention is off by about sqrt(n) times
their rounding, beside a sum that may be near one."""


_MOST_ROOM = 4.0
"""How many times as far such a product may go as it would else. Of 1,000 varied
prompts SmolLM2 refused 36 without, most of them a word again and again."""


def divide_later(
    graph: Graph, secret: list[bool], first: Set[str] = frozenset()
) -> Graph:
    """Rewrite every contraction of quotients by the sums of their rows, where it pays:
    where what is divided does not grow by more than the rounds are worth.

    Quotients in the scopes ``first`` stay.
    """
    users = graph.users()

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node = old.nodes[i]
        if (
            node.op != "dot_general"
            or not secret[i]
            or not all(secret[u] for u in node.inputs)
        ):
            return None
        for side in (0, 1):
            quotient = node.inputs[side]
            if len(users[quotient]) != 1:
                continue
            found = divided(old, quotient)
            dot = Contraction.of(node, [old.nodes[u].shape for u in node.inputs])
            last = len(old.nodes[quotient].shape) - 1
            if found is None or dot.contracted[side] != (last,):
                continue
            x, inverse = found
            if old.nodes[x].scope in first:
                continue
            grown = node.size - old.nodes[quotient].size
            if grown * _PRODUCT_BITS > _WORTH:
                continue
            operands = list(inputs)
            operands[side] = builder.place[x]
            product = builder.emit_encoded(
                "dot_general", operands, node.params, node.scope
            )
            kept = [dot.place(side, axis) for axis in range(last)]
            spread = builder.emit(
                "broadcast_in_dim",
                builder.place[inverse],
                scope=node.scope,
                shape=tuple(n if a in kept else 1 for a, n in enumerate(node.shape)),
                broadcast_dimensions=tuple(kept),
                sharding=None,
            )
            return builder.emit("mul", product, spread, scope=node.scope)
        return None

    return rewrite(graph, rule)


def room_for_sums(
    graph: Graph, known: Sequence[Range], margins: Sequence[float]
) -> list[Range]:
    """The ranges, where products that are divided later reach as far as the number of
    keys times the values: about so far they go where all keys are alike, such as a word
    again and again, of which samples have only some."""
    found, summed = list(known), _summed_rows(graph)
    for i, node in enumerate(graph.nodes):
        if node.op != "dot_general":
            continue
        dot = Contraction.of(node, [graph.nodes[u].shape for u in node.inputs])
        for side in (0, 1):
            weights, values = node.inputs[side], node.inputs[1 - side]
            shape = graph.nodes[weights].shape
            of_rows = dot.contracted[side] == (len(shape) - 1,)
            if not (of_rows and weights in summed and _weighs(graph, weights)):
                continue
            most = shape[-1] * known[values].largest * margins[values] / margins[i]
            most = min(most, _MOST_ROOM * known[i].largest)
            found[i] = replace(found[i], high=max(found[i].largest, most))
    return found


def _summed_rows(graph: Graph) -> set[int]:
    """What is summed over its last axis."""
    return {
        node.inputs[0]
        for node in graph.nodes
        if node.op == "reduce_sum"
        and [int(a) for a in node.params["axes"]]
        == [len(graph.nodes[node.inputs[0]].shape) - 1]
    }


def _weighs(graph: Graph, i: int) -> bool:
    """Whether a node is exponentials, of which a mask may have left some."""
    node = graph.nodes[unmoved(graph, i)]
    if node.op in ("mul", "select_n"):
        return any(_weighs(graph, u) for u in node.inputs)
    return node.op == "exponential"


def divided(graph: Graph, i: int) -> tuple[int, int] | None:
    """x and the inverse of its sums, of one axis less, if node i is x divided by the
    sums of its rows."""
    node = graph.nodes[i]
    if node.op != "mul" or node.dtype != "float32":
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        inverse = unmoved(graph, other)
        if graph.nodes[inverse].op not in ("reciprocal", "table_function"):
            continue
        same = graph.nodes[x].shape == node.shape and _sums(graph, inverse, x)
        if same and _spread_out(graph, other, inverse, node.shape):
            return x, inverse
    return None


def _sums(graph: Graph, inverse: int, x: int) -> bool:
    """Whether a node is of the sums of the rows of x, and of nothing else."""
    total = graph.nodes[unmoved(graph, graph.nodes[inverse].inputs[0])]
    if total.op != "reduce_sum" or total.inputs[0] != x:
        return False
    last = len(graph.nodes[x].shape) - 1
    return [int(a) for a in total.params["axes"]] == [last]


def _spread_out(graph: Graph, i: int, inverse: int, shape: tuple[int, ...]) -> bool:
    """Whether node i is a number for every row of a shape, moved nowhere else."""
    if graph.nodes[inverse].shape != shape[:-1]:
        return False
    while i != inverse:
        node = graph.nodes[i]
        source = graph.nodes[node.inputs[0]]
        if node.op == "broadcast_in_dim":
            axes = [int(a) for a in node.params["broadcast_dimensions"]]
            same = axes == list(range(len(source.shape)))
        else:
            same = node.shape[: len(shape) - 1] == source.shape[: len(shape) - 1]
        if not same or node.shape[: len(shape) - 1] != shape[:-1]:
            return False
        i = node.inputs[0]
    return True


def cramped(graph: Graph, fracs: list[int]) -> Set[str]:
    """The scopes of exps that types leave too few fraction bits."""
    return {
        node.scope
        for node, frac in zip(graph.nodes, fracs, strict=True)
        if node.op == "exponential" and frac < _LEAST_FRAC
    }
