"""Rules that several kinds of steps have in common."""

from collections.abc import Sequence

import numpy as np

from ditto.errors import PlanError
from ditto.fixedpoint import FxpType
from ditto.operations import TRAITS, infer
from ditto.plan import LEAVES, Graph, Params, Value
from ditto.steps.base import Site, demand

LOW_RINGS = range(17, 33)
"""Bits of the low ring, and of those that are held in words of the same size."""
Signature = tuple[tuple[int, ...], str]


def shared_type(value: Value) -> FxpType:
    """The type of a value that has to be shared."""
    if value.type is None:
        raise PlanError(f"takes and makes shares, got {value}")
    return value.type


def shares(site: Site) -> list[Value]:
    """The operands that are shared."""
    return [x for x in site.operands if x.is_shared]


def publics(site: Site) -> list[Value]:
    """The operands that are public."""
    return [x for x in site.operands if x.is_public]


def listed(values: Sequence[Value]) -> str:
    """Values for a message."""
    return ", ".join(map(str, values)) or "nothing"


def demand_operands(site: Site, count: int) -> None:
    """So many operands."""
    got = len(site.operands)
    demand(got == count, f"takes {count} operands", got)


def demand_shape(site: Site, shape: tuple[int, ...]) -> None:
    """The result has a shape."""
    got = site.result.shape
    demand(got == shape, f"gives a result of shape {shape}", got)


def demand_broadcast(site: Site) -> None:
    """The result has the operands' common shape."""
    demand_shape(site, np.broadcast_shapes(*(x.shape for x in site.operands)))


def demand_numbers(values: Sequence[Value]) -> None:
    """Shares of numbers, or public ones."""
    fits = all(x.is_shared or x.is_public for x in values)
    demand(fits, "takes numbers", listed(values))


def demand_sum(values: Sequence[Value], result: Value) -> None:
    """What is added up: shares of the low ring that only need to be shifted left."""
    target = shared_type(result)
    secret = [x for x in values if x.is_shared]
    fits = target.bits in LOW_RINGS and bool(secret)
    demand(fits, "takes and makes shares of the low ring", listed([*values, result]))
    for x in secret:
        source = shared_type(x)
        up = target.frac - source.frac
        fits = source.bits == target.bits and 0 <= up < target.bits
        demand(
            fits,
            f"takes shares of {target.bits} bits with at most {target.frac} frac",
            source,
        )


def demand_rounds(rounds: int, most: int = 3) -> None:
    """One round or more."""
    demand(1 <= rounds <= most, f"takes 1 to {most} rounds", rounds)


def demand_scaled(site: Site, frac: int) -> None:
    """Shares of the low ring times a public factor, encoded with ``frac``."""
    one_each = len(shares(site)) == len(publics(site)) == 1
    demand(one_each, "takes shares and a public factor", listed(site.operands))
    (x,), (factor,) = shares(site), publics(site)
    source = shared_type(x)
    demand(factor.dtype != "bool", "takes a factor of numbers", factor)
    demand(source.bits == 32, "takes shares of the low ring", source)
    FxpType(32, frac)
    target = FxpType(32, source.frac + frac)
    demand(shared_type(site.result) == target, f"makes {target}", site.result.type)


def axis_sizes(subscripts: str, operands: Sequence[Value]) -> dict[str, int]:
    """The length of every axis that a contraction names."""
    left, right = subscripts.split("->", maxsplit=1)[0].split(",")
    sizes: dict[str, int] = {}
    for labels, x in zip((left, right), operands, strict=True):
        once = len(set(labels)) == len(labels) == len(x.shape)
        demand(once, "names each axis of its operands once", subscripts)
        for label, n in zip(labels, x.shape, strict=True):
            equal = sizes.setdefault(label, n) == n
            demand(equal, f"sums over axes of equal length, {label} is {n}", subscripts)
    return sizes


def demand_contraction(site: Site, subscripts: str) -> None:
    """Two operands and subscripts that fit them and the result."""
    demand_operands(site, 2)
    letters = subscripts.replace("->", "", 1).replace(",", "", 1)
    plain = letters.isascii() and letters.isalpha()
    demand(plain, "has subscripts of letters", subscripts)
    sizes = axis_sizes(subscripts, site.operands)
    output = subscripts.split("->")[1]
    demand(len(set(output)) == len(output), "names each axis once", subscripts)
    demand_shape(site, tuple(sizes[label] for label in output))


def result_signature(
    op: str, params: Params, operands: Sequence[Signature]
) -> Signature:
    """Shape and dtype of an operation's result; refuses what is no operation."""
    demand(op in TRAITS, "names an operation of the table", op)
    try:
        return infer(op, params, tuple(operands))
    except Exception:  # whatever JAX has to say about shapes
        taken = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in operands)
        raise PlanError(f"{op} does not take {taken}") from None


def check_graph(graph: Graph) -> None:
    """Every node uses earlier ones, and has the shape its operation gives."""
    for i, node in enumerate(graph.nodes):
        if any(not 0 <= u < i for u in node.inputs):
            raise PlanError(f"Node {i} ({node.op}) uses a node that is not before it.")
        if node.op == "constant":
            held = graph.constants[node.params["index"]]
            fits = (held.shape, held.dtype.name) == (node.shape, node.dtype)
            demand(fits, f"node {i} is another array than its constant")
        elif node.op not in LEAVES:
            operands = [graph.nodes[u] for u in node.inputs]
            given = [(n.shape, n.dtype) for n in operands]
            expected = result_signature(node.op, node.params, given)
            got = (node.shape, node.dtype)
            demand(got == expected, f"node {i} ({node.op}) gives {expected}", got)
    count = len(graph.nodes)
    demand(all(u < count for u in graph.outputs), "an output is not there")
