"""mask: positions that a public attention mask hides cost nothing and need no range.

People hide positions with a number no ring holds: ``where(mask, s, -1e9)`` or
``s + (1 - mask) * -3.4e38``. When such scores go into a softmax, the number is replaced
by one as small as the other scores get, and exp gives 0 there by selection.
"""

from dataclasses import dataclass

from ditto.compiler.calibrate import Range
from ditto.compiler.graph import Builder, Graph, rewrite

HIDDEN = -1000.0
"""Scores below this are hidden positions, not scores."""


@dataclass(frozen=True)
class _Masked:
    predicate: int
    floor: float


def bound_masks(graph: Graph, known: list[Range], secret: list[bool]) -> Graph:
    """Replace endless numbers in masked softmax."""
    masked: dict[int, _Masked] = {}

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node, emit = old.nodes[i], builder.emit
        if node.op == "select_n" and len(inputs) == 3 and not secret[node.inputs[0]]:
            for k in (1, 2):
                fill, scores = node.inputs[k], node.inputs[3 - k]
                if secret[fill] or not secret[scores] or known[fill].high > HIDDEN:
                    continue
                floor = _floor(known[scores])
                predicate = inputs[0]
                if k == 2:
                    predicate = emit("not", predicate, scope=node.scope)
                return _hide(masked, builder, predicate, inputs[3 - k], floor, i)
        if node.op == "add":
            for k in (0, 1):
                summand, scores = node.inputs[k], node.inputs[1 - k]
                if secret[summand] or not secret[scores]:
                    continue
                if known[summand].low > HIDDEN:
                    continue
                limit = builder.constant(HIDDEN, "float32")
                seen = emit("gt", inputs[k], limit, scope=node.scope)
                nothing = builder.full(inputs[k], 0.0)
                rest = emit("select_n", seen, nothing, inputs[k], scope=node.scope)
                total = emit("add", inputs[1 - k], rest, scope=node.scope)
                seen = _broadcast(builder, seen, builder.nodes[total].shape, node.scope)
                floor = _floor(known[scores])
                return _hide(masked, builder, seen, total, floor, i)
        if node.op == "exp_negative":
            source = old.nodes[node.inputs[0]].inputs[0]  # x of x - max(x)
            if source in masked:
                seen = masked[source].predicate
                zero = builder.full(inputs[0], 0.0)
                safe = emit("select_n", seen, zero, inputs[0], scope=node.scope)
                raised = emit("exp_negative", safe, scope=node.scope)
                return emit("select_n", seen, zero, raised, scope=node.scope)
        return None

    return rewrite(graph, rule)


def _floor(scores: Range) -> float:
    return min(scores.low, 0.0)


def _hide(
    masked: dict[int, _Masked],
    builder: Builder,
    predicate: int,
    scores: int,
    floor: float,
    node: int,
) -> int:
    masked[node] = _Masked(predicate, floor)
    scope = builder.nodes[scores].scope
    fill = builder.full(scores, floor)
    return builder.emit("select_n", predicate, fill, scores, scope=scope)


def _broadcast(
    builder: Builder, source: int, shape: tuple[int, ...], scope: str
) -> int:
    held = builder.nodes[source].shape
    if held == shape:
        return source
    dimensions = range(len(shape) - len(held), len(shape))
    return builder.emit(
        "broadcast_in_dim",
        source,
        scope=scope,
        shape=shape,
        broadcast_dimensions=tuple(dimensions),
        sharding=None,
    )
