"""How far the parties' result may be from the simulator's: a proof, step by step.

Every value gets, element by element, a bound on the difference of its integers between
a run on shares and the simulator. Recasts add the error their protocol declares, SPU's
approximations the one measured for them; all other steps only pass errors on.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.compiler.graph import Graph, Node
from ditto.compiler.operations import ELEMENTWISE, LINEAR_SHAPE, evaluate
from ditto.compiler.plan import Plan, Step, Value, curve_of
from ditto.compiler.simulator import Machine, curve_values, enter
from ditto.engine import FXP_FRAC
from ditto.fixedpoint import FxpType
from ditto.protocols import product_type
from ditto.protocols.recast import Conversion

RELATIVE: dict[str, float] = {
    "reciprocal": 2.0**-10,
    "rsqrt": 2.0**-8,
    "sqrt": 2.0**-8,
    "exp": 2.0**-8,
    "log": 2.0**-8,
    "tanh": 2.0**-6,
    "logistic": 2.0**-6,
    "div": 2.0**-10,
}
"""SPU's approximations in the high ring: relative error, beside a few last places."""
_LAST_PLACES = 64


def error_bounds(plan: Plan, arguments: Sequence[Any]) -> list[Any]:
    """For each output, the largest difference to the simulator, element by element."""
    leaves = jax.tree_util.tree_leaves(tuple(arguments))
    with jax.enable_x64(True):
        held = Machine(plan).run(enter(plan, leaves))
        errors = _Errors(plan, held).run()
        return [
            np.asarray(errors[o.value]) * _ulp(plan.values[o.value])
            for o in plan.outputs
        ]


def _ulp(value: Value) -> float:
    return 1.0 if value.type is None else value.type.ulp


class _Errors:
    def __init__(self, plan: Plan, held: dict[int, Any]) -> None:
        self.plan, self.held = plan, held
        self.errors: dict[int, Any] = {}

    def run(self) -> dict[int, Any]:
        for given in self.plan.inputs:
            for v in given.forms:
                value = self.plan.values[v]
                shape = () if value.kind == "indices" else value.shape
                self.errors[v] = jnp.zeros(shape)
        for step in self.plan.steps:
            if step.op == "region":
                self._region(step)
                continue
            (v,) = step.outputs
            out = self.plan.values[v]
            if out.kind == "public":
                self.errors[v] = jnp.zeros(out.shape)
            else:
                self.errors[v] = jnp.broadcast_to(self._step(step, out), out.shape)
        return self.errors

    def _step(self, step: Step, out: Value) -> Any:
        values = self.plan.values
        kinds = [values[v] for v in step.inputs]
        errors = [self.errors[v] for v in step.inputs]
        sizes = [jnp.abs(self.held[v]) for v in step.inputs]
        kind = out.type
        assert kind is not None  # noqa: S101  (public results were handled)

        def lifted(e: Any, held: Value) -> Any:
            return e if held.type is None else e * 2.0 ** (kind.frac - held.type.frac)

        moved = [lifted(e, k) for e, k in zip(errors, kinds, strict=True)]
        match step.op:
            case "embed":
                return jnp.zeros(out.shape)
            case "add" | "sub":
                return moved[0] + moved[1]
            case "neg" | "retag":
                return errors[0]
            case "select":
                which = jnp.asarray(self.held[step.inputs[0]], jnp.int32)
                cases = [jnp.broadcast_to(e, out.shape) for e in moved[1:]]
                chosen = jnp.broadcast_to(which, out.shape)
                return jnp.choose(chosen, cases, mode="clip")
            case "local":
                given = [
                    self.held[v] if k.type is None else e
                    for v, k, e in zip(step.inputs, kinds, moved, strict=True)
                ]
                call = step.params["op"], step.params["with"]
                return evaluate(*call, given, np.float64)
            case "scale" | "contract":
                scale = 2.0 ** step.params["frac"]
                pair = [
                    jnp.rint(s * scale) if k.type is None else e
                    for s, k, e in zip(sizes, kinds, errors, strict=True)
                ]
                if step.op == "scale":
                    return pair[0] * pair[1]
                return jnp.einsum(step.params["subscripts"], *pair)
            case "combine":
                weights = step.params["coefficients"]
                return sum(abs(c) * e for c, e in zip(weights, errors, strict=True))
            case "recast":
                (source,) = (k.type for k in kinds)
                assert source is not None  # noqa: S101
                return _converted(errors[0], source, kind, fused=False)
            case "lookup":
                found = errors[1][self.held[step.inputs[0]]]
                return _converted(found, kinds[1].fxp, kind, fused=True)
            case "maximum":
                # either is less than a step from the maximum it saw
                return jnp.max(errors[0], -1) + 2.0 ** (1 + step.params["cut"])
            case "curve":
                shape = curve_of(step, kinds[0].fxp, kind)
                x, e = self.held[step.inputs[0]], errors[0]
                lowest = jnp.maximum(x - e, shape.low)
                y, near = (curve_values(shape, v) for v in (x, lowest))
                return jnp.abs(near - y) * 2.0**kind.frac + shape.error + 1
            case "multiply" | "einsum":
                (a, b), (ea, eb) = sizes, errors
                if step.op == "multiply":
                    z = a * eb + ea * b + ea * eb
                else:
                    text = step.params["subscripts"]
                    z = jnp.einsum(text, a + ea, eb) + jnp.einsum(text, ea, b)
                types = [k.type for k in kinds if k.type is not None]
                return _converted(z, product_type(*types), kind, fused=True)
        raise NotImplementedError(step.op)

    def _region(self, step: Step) -> None:
        region = self.plan.regions[step.params["region"]]
        values = [self.held[v] for v in step.inputs]
        errors = [self.errors[v] for v in step.inputs]
        graph = region.graph
        unit = 1.0
        real = any(n.op == "input" and n.dtype == "float32" for n in graph.nodes)
        if real:
            unit = 2.0 ** -FXP_FRAC[64 if region.bits == 64 else 32]
            values = [
                x * unit if graph.nodes[i].dtype == "float32" else x
                for x, i in zip(values, graph.inputs, strict=True)
            ]
            errors = [e * unit for e in errors]
        results = _region_errors(graph, values, errors, unit)
        for v, e in zip(step.outputs, results, strict=True):
            self.errors[v] = e / unit if self.plan.values[v].type else e


def _converted(e: Any, source: FxpType, target: FxpType, *, fused: bool) -> Any:
    """After a recast: both sides round to one of two neighbours, or of three when the
    shares are shifted where they are."""
    if source == target:
        return e
    conversion = Conversion(source, target)
    if conversion.cut:
        own = 2.0 if conversion.is_local and not fused else 1.0
        e = e * 2.0**-conversion.cut
        e = jnp.where(e > 0, jnp.floor(e) + 1 + own, own)
    return e * 2.0**conversion.lift


def _region_errors(
    graph: Graph, values: list[Any], errors: list[Any], unit: float
) -> list[Any]:
    """Errors through a region: ambiguous bits are those whose operands nearly meet."""
    held: dict[int, Any] = {}
    error: dict[int, Any] = {}
    for i, node in enumerate(graph.nodes):
        dtype = np.float64 if node.dtype == "float32" else node.dtype
        if node.op == "input":
            held[i] = jnp.asarray(values[node.params["index"]], dtype)
            error[i] = jnp.asarray(errors[node.params["index"]], np.float64)
        elif node.op == "constant":
            held[i] = jnp.asarray(graph.constants[node.params["index"]], dtype)
            error[i] = jnp.zeros(node.shape)
        else:
            xs = [held[u] for u in node.inputs]
            es = [error[u] for u in node.inputs]
            held[i] = evaluate(node.op, node.params, xs, np.float64)
            error[i] = jnp.broadcast_to(
                _node_error(node, xs, es, held[i], unit), node.shape
            )
    return [error[i] for i in graph.outputs]


_COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


def _node_error(node: Node, xs: Any, es: Any, y: Any, unit: float) -> Any:
    match node.op:
        case op if op in _COMPARISONS:
            gap = jnp.abs(jnp.asarray(xs[0], float) - jnp.asarray(xs[1], float))
            return (gap <= es[0] + es[1]) * ((es[0] + es[1]) > 0) * 1.0
        case "and" | "or" | "xor" | "not":
            return jnp.clip(sum(es), 0, 1)
        case "max" | "min":
            return jnp.maximum(es[0], es[1])
        case "reduce_max" | "reduce_min" | "bounded_max" | "bounded_min":
            return jnp.max(es[0], axis=tuple(node.params["axes"]))
        case "abs" | "neg" | "convert_element_type":
            return es[0]
        case "sign":
            return 2.0 * ((jnp.abs(jnp.asarray(xs[0], float)) <= es[0]) & (es[0] > 0))
        case "select_n":
            gap = jnp.abs(jnp.asarray(xs[1], float) - jnp.asarray(xs[2], float))
            return jnp.maximum(es[1], es[2]) + es[0] * gap
        case "add" | "sub":
            return es[0] + es[1]
        case "mul":
            a, b = (jnp.abs(jnp.asarray(x, float)) for x in xs)
            return a * es[1] + b * es[0] + es[0] * es[1] + 2 * unit
        case "dot_general":
            sizes = [jnp.abs(jnp.asarray(x, float)) for x in xs]
            most = [size + e for size, e in zip(sizes, es, strict=True)]
            exact = evaluate(node.op, node.params, sizes, np.float64)
            return evaluate(node.op, node.params, most, np.float64) - exact + 2 * unit
        case op if op in LINEAR_SHAPE:
            return evaluate(op, node.params, es, np.float64)
        case op if op in ELEMENTWISE and len(xs) == 1:
            return _monotone(node, xs[0], es[0], y, unit)
    raise NotImplementedError(f"no error bound for {node.op}")


def _monotone(node: Node, x: Any, e: Any, y: Any, unit: float) -> Any:
    """A monotone function of one operand, plus SPU's own error."""

    def function(v: Any) -> Any:
        return evaluate(node.op, node.params, [v], np.float64)

    moved = jnp.maximum(jnp.abs(function(x + e) - y), jnp.abs(function(x - e) - y))
    own = RELATIVE.get(node.op, 0.0) * jnp.abs(y) + _LAST_PLACES * unit
    return jnp.where(e > 0, moved, 0.0) + own
