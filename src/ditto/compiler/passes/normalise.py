"""normalise: say everything with few operations.

Divisions become products with a reciprocal of as few elements as possible, powers
become products, and a sum of products becomes a dot product, which costs per sum and
not per product. A weight is multiplied before an inverse root is, not after it: that
product does not wait for the root.
"""

import math
from itertools import permutations

from ditto.compiler.builder import Builder, rewrite
from ditto.operations import Trait, has
from ditto.plan import Graph


def normalise(graph: Graph, secret: list[bool]) -> Graph:
    """Rewrite to the operations that types are assigned to."""
    users = graph.users()

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        if not secret[i]:
            return None
        node, scope = old.nodes[i], old.nodes[i].scope
        if node.dtype != "float32" and node.op not in ("square", "integer_pow"):
            return None
        match node.op:
            case "square":
                return builder.emit("mul", inputs[0], inputs[0], scope=scope)
            case "integer_pow":
                return _power(builder, inputs[0], int(node.params["y"]), scope)
            case "pow" if (exponent := old.uniform(node.inputs[1])) is not None:
                return _real_power(builder, inputs[0], exponent, scope)
            case "div":
                return _quotient(builder, old, i, inputs, secret)
            case "exp2":
                ln2 = builder.constant(math.log(2), "float32")
                scaled = builder.emit("mul", inputs[0], ln2, scope=scope)
                return builder.emit("exp", scaled, scope=scope, accuracy=None)
            case "expm1":
                raised = builder.emit("exp", inputs[0], scope=scope, accuracy=None)
                one = builder.constant(1.0, "float32")
                return builder.emit("sub", raised, one, scope=scope)
            case "log1p":
                one = builder.constant(1.0, "float32")
                total = builder.emit("add", inputs[0], one, scope=scope)
                return builder.emit("log", total, scope=scope, accuracy=None)
            case "clamp":
                low, x, high = inputs
                raised = builder.emit("max", x, low, scope=scope)
                return builder.emit("min", raised, high, scope=scope)
            case "mul":
                return _weight_first(builder, old, i, inputs, users)
            case "reduce_sum":
                return _dot(builder, old, i, inputs[0], secret, users)
            case "dot_general":
                return _untransposed(builder, old, i, inputs)
        return None

    return rewrite(graph, rule)


def _weight_first(
    builder: Builder,
    old: Graph,
    i: int,
    inputs: tuple[int, ...],
    users: list[list[int]],
) -> int | None:
    """x * weight * rsqrt(y) for x * rsqrt(y) * weight, when nothing else needs that."""
    nodes = builder.nodes
    for k in (0, 1):
        scaled, weight = nodes[inputs[k]], inputs[1 - k]
        if scaled.op != "mul" or len(users[old.nodes[i].inputs[k]]) != 1:
            continue
        if nodes[_source(builder, weight)].op not in ("input", "constant"):
            continue
        for x, root in permutations(scaled.inputs):
            if nodes[_source(builder, root)].op == "rsqrt":
                scope = scaled.scope
                weighted = builder.emit("mul", x, weight, scope=scope)
                return builder.emit("mul", weighted, root, scope=scope)
    return None


def _source(builder: Builder, i: int) -> int:
    """The node whose elements node i has in another shape."""
    while has(builder.nodes[i].op, Trait.RESHAPES):
        i = builder.nodes[i].inputs[0]
    return i


def _untransposed(
    builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
) -> int | None:
    """A contraction of matrices as they lie, not turned around first.

    A turned weight would be turned around in every run.
    """
    node = old.nodes[i]
    contracted, batch = (list(pair) for pair in node.params["dimension_numbers"])
    operands = list(inputs)
    for side in (0, 1):
        source = builder.nodes[operands[side]]
        if source.op != "transpose":
            continue
        order = [int(a) for a in source.params["permutation"]]
        taken = {*contracted[side], *batch[side]}
        free = [order[a] for a in range(len(order)) if a not in taken]
        if free != sorted(free):
            continue
        contracted[side] = tuple(order[a] for a in contracted[side])
        batch[side] = tuple(order[a] for a in batch[side])
        operands[side] = source.inputs[0]
    if operands == list(inputs):
        return None
    numbers = (tuple(contracted), tuple(batch))
    params = {**node.params, "dimension_numbers": numbers}
    return builder.emit_encoded("dot_general", operands, params, node.scope)


def _power(builder: Builder, x: int, exponent: int, scope: str) -> int:
    if exponent < 0:
        return reciprocal(builder, _power(builder, x, -exponent, scope), scope)
    if exponent == 0:
        return builder.full(x, 1.0)
    if exponent == 1:
        return x
    half = _power(builder, x, exponent // 2, scope)
    squared = builder.emit("mul", half, half, scope=scope)
    return builder.emit("mul", squared, x, scope=scope) if exponent % 2 else squared


def _real_power(builder: Builder, x: int, exponent: float, scope: str) -> int:
    if exponent == int(exponent):
        return _power(builder, x, int(exponent), scope)
    if abs(exponent) == 0.5:
        root = "sqrt" if exponent > 0 else "rsqrt"
        return builder.emit(root, x, scope=scope, accuracy=None)
    logarithm = builder.emit("log", x, scope=scope, accuracy=None)
    factor = builder.constant(exponent, "float32")
    scaled = builder.emit("mul", logarithm, factor, scope=scope)
    return builder.emit("exp", scaled, scope=scope, accuracy=None)


def _quotient(
    builder: Builder,
    old: Graph,
    i: int,
    inputs: tuple[int, ...],
    secret: list[bool],
) -> int:
    node = old.nodes[i]
    scope = node.scope
    if secret[node.inputs[1]]:
        inverse = reciprocal(builder, inputs[1], scope)
    else:
        one = builder.constant(1.0, "float32")
        inverse = builder.emit("div", one, inputs[1], scope=scope)
    if (
        old.uniform(node.inputs[0]) == 1.0
        and builder.nodes[inverse].shape == node.shape
    ):
        return inverse
    return builder.emit("mul", inputs[0], inverse, scope=scope)


def reciprocal(builder: Builder, x: int, scope: str) -> int:
    """1/x, taken before x is spread out; of a root it is the inverse root."""
    node = builder.nodes[x]
    if has(node.op, Trait.RESHAPES) and builder.nodes[node.inputs[0]].size <= node.size:
        inverse = reciprocal(builder, node.inputs[0], scope)
        return builder.emit_encoded(node.op, (inverse,), node.params, scope)
    if node.op == "sqrt":
        return builder.emit("rsqrt", *node.inputs, scope=scope, accuracy=None)
    return builder.emit("reciprocal", x, scope=scope)


def _dot(
    builder: Builder,
    old: Graph,
    i: int,
    product: int,
    secret: list[bool],
    users: list[list[int]],
) -> int | None:
    """sum(a * b) as one contraction, when nothing else needs a * b."""
    node, source = old.nodes[i], old.nodes[i].inputs[0]
    inner = builder.nodes[product]
    if inner.op != "mul" or len(users[source]) != 1:
        return None
    old_source = old.nodes[source]
    if old_source.op in ("mul", "div"):
        both = all(secret[u] for u in old_source.inputs)
    else:
        both = old_source.op in ("square", "integer_pow")
    if not both or any(builder.nodes[u].shape != inner.shape for u in inner.inputs):
        return None
    summed = tuple(int(a) for a in node.params["axes"])
    kept = tuple(a for a in range(len(inner.shape)) if a not in summed)
    return builder.emit(
        "dot_general",
        *inner.inputs,
        scope=node.scope,
        dimension_numbers=((summed, summed), (kept, kept)),
        precision=None,
        preferred_element_type=None,
        out_sharding=None,
    )
