"""centre: a normalisation subtracts the sum of a row, not its mean.

The mean of n = q 2^p numbers is a product with 1/n, which takes a recast before it and
one after. q x - sum(x) / 2^p is q times as much as x - mean(x), and dividing by a power
of two is free: only one recast is left. What is divided by its own root of a mean
square does not change when it is q times as much, if what is added to the mean square
is q^2 times as much.
"""

from ditto.compiler.builder import Builder, rewrite
from ditto.compiler.passes.tabulate import argument, unmoved
from ditto.operations import Trait, has
from ditto.plan import Graph

_MOST = 15
"""The largest q: it takes the bits that it has of those of the tensor."""


def centre(graph: Graph, secret: list[bool]) -> Graph:
    """Rewrite every normalisation whose rows have a length that is q 2^p."""
    users = graph.users()

    def rule(builder: Builder, old: Graph, i: int, _: tuple[int, ...]) -> int | None:
        node = old.nodes[i]
        if node.op != "mul" or node.dtype != "float32" or not secret[i]:
            return None
        for k in (0, 1):
            found = _centred(old, node.inputs[k], node.inputs[1 - k], users)
            if found is not None:
                return _rewritten(builder, old, i, k, found)
        return None

    return rewrite(graph, rule)


def odd_part(n: int) -> tuple[int, int]:
    """q and p of n = q 2^p with an odd q."""
    power = (n & -n).bit_length() - 1
    return n >> power, power


def _centred(
    graph: Graph, weighted: int, root: int, users: list[list[int]]
) -> tuple[int, int | None] | None:
    """x - mean(x) and its weight, if there is one, in a product with the inverse root
    of its mean square; nothing else may use it."""
    if graph.nodes[unmoved(graph, root)].op != "rsqrt":
        return None
    inverse = graph.nodes[unmoved(graph, root)]
    source, factor, _ = argument(graph, inverse.inputs[0])
    length = unmoved(graph, source)
    pairs: list[tuple[int, int | None]] = [(weighted, None)]
    if graph.nodes[weighted].op == "mul" and len(users[weighted]) == 1:
        a, b = graph.nodes[weighted].inputs
        pairs += [(a, b), (b, a)]
    for x, weight in pairs:
        node = graph.nodes[x]
        product = graph.nodes[length]
        if node.op != "sub" or product.op != "dot_general" or factor <= 0:
            continue
        if product.inputs != (x, x) or len(users[x]) != 2:
            continue
        tensor, mean = node.inputs
        n = graph.nodes[tensor].shape[-1]
        total, scale, summand = argument(graph, unmoved(graph, mean))
        summed = graph.nodes[unmoved(graph, total)]
        if summed.op != "reduce_sum" or summed.inputs[0] != tensor or summand:
            continue
        rows = [int(a) for a in summed.params["axes"]]
        whole = rows == [len(graph.nodes[tensor].shape) - 1]
        if whole and abs(scale * n - 1) < 1e-5 and 1 < odd_part(n)[0] <= _MOST:
            return x, weight
    return None


def _rewritten(
    builder: Builder,
    old: Graph,
    i: int,
    k: int,
    found: tuple[int, int | None],
) -> int:
    centred, weight = found
    place = builder.place
    scope = old.nodes[i].scope
    tensor, mean = old.nodes[centred].inputs
    q, power = odd_part(old.nodes[tensor].shape[-1])

    def times(x: int, number: float) -> int:
        return builder.emit("mul", x, builder.constant(number, "float32"), scope=scope)

    def again(end: int, start: int, replaced: int) -> int:
        """What leads from one node to another, from what replaces the first."""
        if end == start:
            return replaced
        node = old.nodes[end]
        if has(node.op, Trait.RESHAPES):
            inner = again(node.inputs[0], start, replaced)
            return builder.emit_encoded(node.op, (inner,), node.params, scope)
        if node.op == "rsqrt":
            inner = again(node.inputs[0], start, replaced)
            return builder.emit("rsqrt", inner, scope=scope, accuracy=None)
        source, factor, summand = argument(old, end)
        inner = times(again(source, start, replaced), factor)
        if not summand:
            return inner
        number = builder.constant(summand * q**2, "float32")
        return builder.emit("add", inner, number, scope=scope)

    total, _, _ = argument(old, unmoved(old, mean))
    scaled = times(place[total], 2.0**-power)
    means = again(mean, unmoved(old, mean), scaled)
    x = builder.emit("sub", times(place[tensor], float(q)), means, scope=scope)
    root = old.nodes[i].inputs[1 - k]
    inverse = old.nodes[unmoved(old, root)]
    length = unmoved(old, argument(old, inverse.inputs[0])[0])
    square = old.nodes[length]
    product = builder.emit_encoded("dot_general", (x, x), square.params, square.scope)
    inverse_root = again(root, length, product)
    weighted = (
        x if weight is None else builder.emit("mul", x, place[weight], scope=scope)
    )
    return builder.emit("mul", weighted, inverse_root, scope=scope)
