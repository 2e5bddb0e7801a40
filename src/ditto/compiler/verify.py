"""Rules that graphs and plans keep. What breaks one is never run.

Graphs are checked between passes; plans when they are made and when they are read, so
that a party that executes one need not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ditto.compiler.graph import Graph, infer
from ditto.compiler.operations import LINEAR_SHAPE, OPERATIONS
from ditto.compiler.plan import (
    Plan,
    Step,
    Value,
    curve_of,
    grid_of,
    is_indices,
    is_plain,
)
from ditto.errors import DittoError, PlanError
from ditto.fixedpoint import FxpType
from ditto.protocols import product_type
from ditto.protocols.recast import Conversion

Values = Sequence[Value]


@dataclass(frozen=True)
class Given:
    """A step with what it takes and makes."""

    plan: Plan
    step: Step
    operands: Values
    results: Values


Rule = Callable[[Given], None]


def verify_graph(graph: Graph) -> None:
    """Every node uses earlier ones, and has the shape its operation gives."""
    for i, node in enumerate(graph.nodes):
        if any(not 0 <= u < i for u in node.inputs):
            raise PlanError(f"Node {i} ({node.op}) uses a node that is not before it.")
        if node.op == "constant":
            held = graph.constants[node.params["index"]]
            _demand(held.shape == node.shape, f"node {i} is not its constant")
        elif node.op != "input":
            operands = [graph.nodes[u] for u in node.inputs]
            found = _infer(node.op, node.params, [(n.shape, n.dtype) for n in operands])
            _demand(
                found == (node.shape, node.dtype),
                f"node {i} ({node.op}) is not {found}",
            )
    _demand(all(u < len(graph.nodes) for u in graph.outputs), "an output is not there")


def verify(plan: Plan) -> None:
    """Raise PlanError naming the first step that breaks a rule."""
    ready: set[int] = set()
    for given in plan.inputs:
        for v in given.forms:
            held = plan.values[v]
            whole = "public" if given.role == "public" else "shared"
            plain = is_plain(given, held) and held.kind == whole
            index = is_indices(given, held) and given.role == "secret"
            fits = (plain or index) and v not in ready
            _demand(fits, f"input {given.name!r} has no such form")
            ready.add(v)
    used = {s.params.get("region") for s in plan.steps if s.op == "region"}
    _demand(used == set(range(len(plan.regions))), "a region is never run")
    for region in plan.regions:
        verify_graph(region.graph)
    for value in plan.values:
        typed = value.type is not None
        due = value.kind in ("shared", "indices")
        _demand(typed == due, "a value has no possible type")
        _demand(value.kind != "bits" or value.dtype == "bool", "bits are not bool")
    for i, step in enumerate(plan.steps):
        _verify_step(plan, i, step, ready)
    for output in plan.outputs:
        held = plan.values[output.value]
        _demand(output.value in ready, "a result is never computed")
        _demand(held.kind in ("shared", "public"), "a result is no number")
        _demand(held.kind == "shared" or not output.kept, "a kept result is public")
    _demand(
        all(len(given.forms) <= 1 for given in plan.state), "a state has several forms"
    )


def _verify_step(plan: Plan, i: int, step: Step, ready: set[int]) -> None:
    try:
        _demand(all(v in ready for v in step.inputs), "uses a value that is not there")
        fresh = len(set(step.outputs)) == len(step.outputs)
        _demand(fresh and not ready & set(step.outputs), "makes a value a second time")
        if step.op != "region":
            _demand(len(step.outputs) == 1, "has one result")
        operands = [plan.values[v] for v in step.inputs]
        results = [plan.values[v] for v in step.outputs]
        RULES[step.op](Given(plan, step, operands, results))
    except PlanError as broken:
        raise PlanError(
            f"Step {i} ({step.op}, scope {step.scope!r}): {broken}"
        ) from None
    except (DittoError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise PlanError(
            f"Step {i} ({step.op}, scope {step.scope!r}) has parameters or types that "
            f"do not fit."
        ) from None
    ready.update(step.outputs)


def _demand(holds: bool, rule: str) -> None:
    if not holds:
        raise PlanError(rule)


def _infer(op: str, params: Any, operands: Any) -> tuple[tuple[int, ...], str]:
    try:
        return infer(op, params, tuple(operands))
    except Exception:  # whatever JAX has to say about shapes
        raise PlanError(f"{op} does not take these operands") from None


def _type(value: Value) -> FxpType:
    if value.type is None:
        raise PlanError("needs shares")
    return value.type


def _shares(operands: Values) -> list[Value]:
    return [x for x in operands if x.kind == "shared"]


def _publics(operands: Values) -> list[Value]:
    return [x for x in operands if x.kind == "public"]


def _public(given: Given) -> None:
    _demand(
        _publics(given.operands) == list(given.operands), "is on public values only"
    )
    _demand(given.step.params["op"] in OPERATIONS, "is no operation")
    shapes = [(x.shape, x.dtype) for x in given.operands]
    found = _infer(given.step.params["op"], given.step.params["with"], shapes)
    _demand(given.results[0].kind == "public", "has a public result")
    _demand(
        found == (given.results[0].shape, given.results[0].dtype), "has another result"
    )


def _constant(given: Given) -> None:
    index = given.step.params["index"]
    _demand(
        isinstance(index, int) and 0 <= index < len(given.plan.constants),
        "is not there",
    )
    held = given.plan.constants[index]
    _demand(given.results[0].kind == "public" and not given.operands, "is public")
    fits = (held.shape, held.dtype.name) == (
        given.results[0].shape,
        given.results[0].dtype,
    )
    _demand(fits, "has another shape")


def _embed(given: Given) -> None:
    (x,) = given.operands
    _demand(x.kind == "public" and x.dtype != "bool", "is on public numbers")
    _demand(_type(given.results[0]).bits in (32, 64), "has no such ring")
    _demand(x.shape == given.results[0].shape, "keeps its shape")


def _summed(operands: Values, result: Value) -> None:
    kind = _type(result)
    shares = _shares(operands)
    _demand(kind.bits == 32 and bool(shares), "is on shares of the low ring")
    for x in shares:
        held = _type(x)
        _demand(held.bits == kind.bits, "is in one ring")
        _demand(0 <= kind.frac - held.frac < kind.bits, "only shifts left")


def _sum(given: Given) -> None:
    _demand(
        len(given.operands) == (1 if given.step.op == "neg" else 2), "has its operands"
    )
    _demand(all(x.kind != "bits" for x in given.operands), "is on numbers")
    _summed(given.operands, given.results[0])
    shape = np.broadcast_shapes(*(x.shape for x in given.operands))
    _demand(shape == given.results[0].shape, "has another shape")
    if given.step.op == "neg":
        _demand(given.operands[0].type == given.results[0].type, "keeps its type")


def _select(given: Given) -> None:
    which, *cases = given.operands
    whole = which.dtype == "bool" or which.dtype.startswith(("int", "uint"))
    _demand(which.kind == "public" and whole and len(cases) >= 2, "chooses publicly")
    _demand(which.dtype != "bool" or len(cases) == 2, "chooses one of two")
    _demand(all(x.kind != "bits" for x in cases), "is on numbers")
    _summed(cases, given.results[0])
    shape = np.broadcast_shapes(*(x.shape for x in given.operands))
    _demand(shape == given.results[0].shape, "has another shape")


def _retag(given: Given) -> None:
    (x,) = given.operands
    _demand(_type(x).bits == _type(given.results[0]).bits, "keeps its ring")
    _demand(x.shape == given.results[0].shape, "keeps its shape")


def _local(given: Given) -> None:
    op = given.step.params["op"]
    _demand(op in LINEAR_SHAPE, "is not linear")
    _demand(given.operands[0].kind == "shared", "is on shares")
    _demand(all(x.kind != "bits" for x in given.operands), "is on numbers")
    if op not in ("gather", "dynamic_slice", "dynamic_update_slice"):
        _demand(not _publics(given.operands), "is on shares only")
    _summed(given.operands, given.results[0])
    shapes = [
        (x.shape, "int32" if x.kind == "shared" else x.dtype) for x in given.operands
    ]
    found, _ = _infer(op, given.step.params["with"], shapes)
    _demand(found == given.results[0].shape, "has another shape")


def _scaled(step: Step, operands: Values, result: Value) -> None:
    (x,), (factor,) = _shares(operands), _publics(operands)
    _demand(factor.dtype != "bool" and _type(x).bits == 32, "is in the low ring")
    frac = step.params["frac"]
    due = FxpType(32, _type(x).frac + frac)
    FxpType(32, frac)
    _demand(_type(result) == due, "adds fracs")


def _scale(given: Given) -> None:
    _scaled(given.step, given.operands, given.results[0])
    shape = np.broadcast_shapes(*(x.shape for x in given.operands))
    _demand(shape == given.results[0].shape, "has another shape")


def _contract(given: Given) -> None:
    _scaled(given.step, given.operands, given.results[0])
    _contraction(given.step, given.operands, given.results[0])


def _contraction(step: Step, operands: Values, result: Value) -> None:
    text = step.params["subscripts"]
    inputs, output = text.split("->")
    left, right = inputs.split(",")
    letters = left + right + output
    _demand(letters.isalpha() and letters.isascii(), "has no such subscripts")
    a, b = operands
    sizes: dict[str, int] = {}
    for labels, x in ((left, a), (right, b)):
        _demand(len(set(labels)) == len(labels) == len(x.shape), "names each axis once")
        for label, n in zip(labels, x.shape, strict=True):
            _demand(sizes.setdefault(label, n) == n, "sums over equal axes")
    _demand(len(set(output)) == len(output), "names each axis once")
    _demand(
        tuple(sizes[label] for label in output) == result.shape, "has another shape"
    )


def _combine(given: Given) -> None:
    weights, bias = given.step.params["coefficients"], given.step.params["bias"]
    _demand(
        len(weights) == len(given.operands) > 0, "has a coefficient for each operand"
    )
    # sums may wrap around and come back, so a bias may be larger than the ring
    whole = all(isinstance(n, int) and abs(n) < 1 << 48 for n in (*weights, bias))
    _demand(whole, "has integer coefficients")
    for x in given.operands:
        _demand(
            _type(x).bits == _type(given.results[0]).bits == 32, "is in the low ring"
        )
        _demand(x.shape == given.results[0].shape, "keeps its shape")


def _in_rounds(step: Step) -> None:
    _demand(step.params["rounds"] in (1, 2), "takes one round or two")


def _recast(given: Given) -> None:
    (x,) = given.operands
    conversion = Conversion(_type(x), _type(given.results[0]))
    _demand(x.shape == given.results[0].shape, "keeps its shape")
    _in_rounds(given.step)
    _demand(given.step.params["casts"] in ("ours", "paper"), "is ours or the paper's")
    if given.step.params["casts"] == "paper":
        upward = conversion.target.bits > conversion.source.bits
        possible = not conversion.cut if upward else conversion.is_local
        _demand(possible and not (conversion.lift and not upward), "is no such cast")


def _product(operands: Values, result: Value, step: Step) -> None:
    a, b = operands
    source = product_type(_type(a), _type(b))
    _demand(source.bits in (32, 64), "has no such ring")
    Conversion(source, _type(result))
    _in_rounds(step)


def _multiply(given: Given) -> None:
    _product(given.operands, given.results[0], given.step)
    shape = np.broadcast_shapes(*(x.shape for x in given.operands))
    _demand(shape == given.results[0].shape, "has another shape")


def _einsum(given: Given) -> None:
    _product(given.operands, given.results[0], given.step)
    _contraction(given.step, given.operands, given.results[0])


def _lookup(given: Given) -> None:
    indices, table = given.operands
    (result,) = given.results
    source, held = _type(table), _type(indices)
    _demand(indices.kind == "indices" and table.kind == "shared", "is by indices")
    _demand(source.bits == held.bits == 32 and held.frac == 0, "is in the low ring")
    _demand(indices.shape[-1] == table.shape[0], "is in a table of another length")
    shape = (*indices.shape[:-1], *table.shape[1:])
    _demand(result.kind == "shared" and result.shape == shape, "has another shape")
    if source != _type(result):
        Conversion(source, _type(result))
    _in_rounds(given.step)


def _maximum(given: Given) -> None:
    (x,), (result,) = given.operands, given.results
    _demand(x.shape[:-1] == result.shape and x.shape[-1] > 0, "is over the last axis")
    _demand(_type(x) == _type(result) and _type(x).bits == 32, "keeps its type")
    grid_of(given.step, _type(x))
    hidden = given.step.params["hidden"]
    _demand(
        isinstance(hidden, int) and abs(hidden) <= _type(x).limit + 1, "hides integers"
    )
    _in_rounds(given.step)


def _curve(given: Given) -> None:
    (x,), (result,) = given.operands, given.results
    _demand(x.shape == result.shape, "keeps its shape")
    curve_of(given.step, _type(x), _type(result))
    _in_rounds(given.step)


def _region(given: Given) -> None:
    index = given.step.params["region"]
    _demand(
        isinstance(index, int) and 0 <= index < len(given.plan.regions), "is not there"
    )
    region = given.plan.regions[index]
    graph = region.graph
    nodes = [graph.nodes[i] for i in graph.inputs]
    _demand(len(nodes) == len(given.operands), "has its operands")
    for node, x in zip(nodes, given.operands, strict=True):
        _demand(node.shape == x.shape, "takes another shape")
        if x.kind == "shared":
            kind = _type(x)
            _demand(kind.bits == region.bits and node.dtype != "bool", "is in one ring")
        else:
            _demand(node.dtype == x.dtype, "takes another dtype")
    outs = [graph.nodes[i] for i in graph.outputs]
    _demand(len(outs) == len(given.results), "has its results")
    for node, y in zip(outs, given.results, strict=True):
        _demand(node.shape == y.shape and y.kind != "public", "has another result")
        _demand((node.dtype == "bool") == (y.kind == "bits"), "has another result")
        _demand(y.type is None or y.type.bits == region.bits, "is in one ring")


RULES: dict[str, Rule] = {
    "public": _public,
    "constant": _constant,
    "embed": _embed,
    "local": _local,
    "add": _sum,
    "sub": _sum,
    "neg": _sum,
    "select": _select,
    "retag": _retag,
    "scale": _scale,
    "contract": _contract,
    "combine": _combine,
    "recast": _recast,
    "multiply": _multiply,
    "einsum": _einsum,
    "lookup": _lookup,
    "maximum": _maximum,
    "curve": _curve,
    "region": _region,
}
