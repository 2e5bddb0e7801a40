"""mask: positions that a public attention mask hides cost nothing and need no range.

People hide positions with a number no ring holds: ``where(mask, s, -1e9)`` or
``s + (1 - mask) * -3.4e38``. Where such scores go into a softmax, the number is
replaced by one as small as the other scores get, and exp gives 0 there by selection.
It is a whole number, which tells little of the samples.
SPU alone gets a number its exp can take.
"""

import math
from dataclasses import replace

from ditto.compiler.builder import Builder, rewrite, rewrite_tracked
from ditto.compiler.calibrate import Range
from ditto.compiler.passes.recognise import less_its_maximum
from ditto.plan import Graph

HIDDEN = -1000.0
"""Scores below this are hidden positions, not scores."""
SMALL_ENOUGH = -30.0
"""exp of this is nothing in fixed point."""


def bound_masks(
    graph: Graph, known: list[Range], secret: list[bool]
) -> tuple[Graph, list[Range]]:
    """Replace endless numbers in masked softmax.

    Also gives the ranges of what goes into the new softmax, which follow from those of
    the old one.
    """
    masked: dict[int, int] = {}
    bounded: dict[int, Range] = {}
    scores_of = _into_softmax(graph)

    def hide(builder: Builder, i: int, predicate: int, scores: int, low: float) -> int:
        masked[i] = predicate
        lowest = min(math.floor(low), 0)
        bounded[i] = replace(known[i], low=max(known[i].low, lowest))
        fill = builder.full(scores, lowest)
        scope = builder.nodes[scores].scope
        return builder.emit("select_n", predicate, fill, scores, scope=scope)

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node, emit = old.nodes[i], builder.emit
        if node.op == "exp_negative":
            source = old.nodes[node.inputs[0]].inputs[0]  # x of x - max(x)
            if source not in masked:
                return None
            zero = builder.full(inputs[0], 0.0)
            seen = masked[source]
            safe = emit("select_n", seen, zero, inputs[0], scope=node.scope)
            raised = emit("exp_negative", safe, scope=node.scope)
            return emit("select_n", seen, zero, raised, scope=node.scope)
        if i not in scores_of:
            return None
        if node.op == "select_n" and len(inputs) == 3 and not secret[node.inputs[0]]:
            for k in (1, 2):
                fill, scores = node.inputs[k], node.inputs[3 - k]
                if secret[fill] or not secret[scores] or known[fill].high > HIDDEN:
                    continue
                seen = inputs[0] if k == 1 else emit("not", inputs[0])
                return hide(builder, i, seen, inputs[3 - k], known[scores].low)
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
                return hide(builder, i, seen, total, known[scores].low)
        return None

    new, origins = rewrite_tracked(graph, rule)
    nowhere = Range(0.0, 0.0, 0.0)
    of_old = {j: bounded.get(i, known[i]) for j, i in origins.items()}
    return new, [of_old.get(j, nowhere) for j in range(len(new.nodes))]


def soften_masks(graph: Graph, secret: list[bool]) -> Graph:
    """Bound the public numbers that go into a softmax."""
    scores_of = _into_softmax(graph)

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node = old.nodes[i]
        if i not in scores_of or node.op not in ("add", "select_n"):
            return None
        bound = builder.constant(SMALL_ENOUGH, "float32")
        softened = [
            builder.emit("max", new, bound, scope=node.scope)
            if old.nodes[u].dtype == "float32" and not secret[u]
            else new
            for u, new in zip(node.inputs, inputs, strict=True)
        ]
        return builder.emit_encoded(node.op, softened, node.params, node.scope)

    return rewrite(graph, rule)


def _into_softmax(graph: Graph) -> set[int]:
    """Nodes x of which x - max(x) is taken, and that serve nothing else."""
    users = graph.users()
    found = {
        graph.nodes[i].inputs[0]
        for i in range(len(graph.nodes))
        if less_its_maximum(graph, i)
    }

    def only(x: int) -> bool:
        return x not in graph.outputs and all(
            graph.nodes[u].op == "reduce_max" or less_its_maximum(graph, u)
            for u in users[x]
        )

    return {x for x in found if only(x)}


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
