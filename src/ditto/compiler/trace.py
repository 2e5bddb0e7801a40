"""From a JAX function to a graph: calls inlined, loops unrolled, scopes kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.tree_util import PyTreeDef

from ditto.compiler.builder import Builder
from ditto.errors import UnsupportedOperationError
from ditto.operations import PRIMITIVES, abstract, encode_param
from ditto.operations.arguments import computed_dtype
from ditto.plan import Graph, Tree

_CALLS = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}
_IDENTITIES = frozenset(
    {"copy", "copy_p", "stop_gradient", "optimization_barrier", "sharding_constraint"}
    | {"reduce_precision", "name"}
)
_ALTERNATIVES = {
    "while": "a Python loop or jax.lax.scan: how often a loop runs must be public",
    "cond": "jnp.where on both results: which branch is taken must not show",
    "fft": "a product with the DFT matrix",
    "random_bits": "randomness drawn outside and passed as an argument",
    "random_seed": "randomness drawn outside and passed as an argument",
    "random_wrap": "randomness drawn outside and passed as an argument",
    "random_unwrap": "randomness drawn outside and passed as an argument",
    "threefry2x32": "randomness drawn outside and passed as an argument",
    "scatter": "jnp.where, jnp.concatenate or a product with a one-hot matrix",
    "scatter-add": "a product with a one-hot matrix",
    "triangular_solve": "an inverse computed outside",
    "cholesky": "a factor computed outside",
    "complex": "real arithmetic on two arrays, or for a Fourier transform a product "
    "with the DFT matrix",
    "gather with fill_value": "indices inside the array, and jnp.where on the result",
    "scan of length 0": "no scan",
    **{
        f"conversion to {name}": "int32: smaller integers do not wrap around here"
        for name in ("int8", "uint8", "int16", "uint16")
    },
    "cbrt": "x ** (1 / 3) for positive x",
    "tan": "jnp.sin(x) / jnp.cos(x)",
    "cumlogsumexp": "jnp.log(jnp.cumsum(jnp.exp(x - x.max())))",
    "top_k": "jnp.sort and a slice: SPU's own is wrong now and then",
    "nextafter": "a step of your own: fixed point has no neighbouring float",
}
_Parameters = Mapping[str, Any]
"""Of a JAX primitive: each has its own."""
_OTHERWISE = (
    "arithmetic, comparison, selection, reductions, exp, log, rsqrt, tanh, or "
    "gather by public index"
)


@dataclass(frozen=True)
class Traced:
    """A function as a graph, and how its arguments and results are arranged."""

    graph: Graph
    names: tuple[str, ...]
    arguments: tuple[int, ...]
    """For each input of the graph, the argument of the function it belongs to."""
    result: Tree


def trace(function: Callable[..., Tree], arguments: Sequence[Tree]) -> Traced:
    """Trace the function at the shapes of the arguments."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(tuple(arguments))
    shapes = [
        abstract(
            np.shape(v), computed_dtype(v, f"Argument {jax.tree_util.keystr(path)}")
        )
        for path, v in leaves
    ]
    flat, out_tree = _flat(function, tree)
    closed = jax.make_jaxpr(flat)(*shapes)
    builder = Builder()
    inputs = [
        builder.input(i, tuple(s.shape), np.dtype(s.dtype).name)
        for i, s in enumerate(shapes)
    ]
    outputs = _Inliner(builder).inline(closed, inputs, "")
    names = tuple(jax.tree_util.keystr(path) for path, _ in leaves)
    owners = tuple(path[0].idx for path, _ in leaves)
    tree_of_results = jax.tree_util.tree_unflatten(
        out_tree(), list(range(len(outputs)))
    )
    return Traced(builder.finish(outputs), names, owners, tree_of_results)


def _flat(
    function: Callable[..., Tree], tree: PyTreeDef
) -> tuple[Callable[..., list[jax.Array]], Callable[[], PyTreeDef]]:
    trees: list[PyTreeDef] = []

    def flat(*leaves: jax.Array) -> list[jax.Array]:
        result = function(*jax.tree_util.tree_unflatten(tree, leaves))
        values, out_tree = jax.tree_util.tree_flatten(result)
        trees.append(out_tree)
        return values

    return flat, lambda: trees[-1]


def _dtype(atom: Var | Literal) -> np.dtype[np.generic]:
    dtype: np.dtype[np.generic] = cast(ShapedArray, atom.aval).dtype
    return dtype


class _Inliner:
    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def inline(
        self, closed: ClosedJaxpr | Jaxpr, inputs: Sequence[int], scope: str
    ) -> list[int]:
        jaxpr = getattr(closed, "jaxpr", closed)
        values = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, constant in zip(
            jaxpr.constvars, getattr(closed, "consts", ()), strict=True
        ):
            values[var] = self._constant(constant)

        def read(atom: Var | Literal) -> int:
            if hasattr(atom, "val"):
                return self._constant(np.asarray(atom.val, _dtype(atom)))
            return int(values[atom])

        for equation in jaxpr.eqns:
            inner = str(equation.source_info.name_stack)
            where = "/".join(part for part in (scope, inner) if part)
            operands = [read(atom) for atom in equation.invars]
            results = self._equation(equation, operands, where)
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _constant(self, value: npt.ArrayLike) -> int:
        array = np.asarray(value)
        dtype = computed_dtype(array, "A constant of the function")
        if array.dtype.kind == "f":
            array = np.clip(array, np.finfo(np.float32).min, np.finfo(np.float32).max)
        return self._builder.constant(array.astype(dtype))

    def _equation(self, equation: JaxprEqn, inputs: list[int], scope: str) -> list[int]:
        name, params = equation.primitive.name, dict(equation.params)
        if name in _CALLS:
            return self.inline(params[_CALLS[name]], inputs, scope)
        if name in _IDENTITIES:
            return inputs
        if name == "scan":
            return self._unroll(params, inputs, scope)
        if name == "split":
            return self._split(params, inputs[0], scope)
        dtypes = [_dtype(v) for v in equation.outvars]
        if any(jax.numpy.issubdtype(d, np.complexfloating) for d in dtypes):
            raise refusal("complex", scope)
        if name not in PRIMITIVES:
            raise refusal(name, scope)
        if name == "gather":
            if params["fill_value"] is not None:
                raise refusal("gather with fill_value", scope)
            params["mode"] = jax.lax.GatherScatterMode.CLIP
        if name == "convert_element_type":
            if params["new_dtype"].kind in "iu" and params["new_dtype"].itemsize < 4:
                raise refusal(f"conversion to {params['new_dtype'].name}", scope)
            params = {
                **params,
                "new_dtype": computed_dtype(np.empty(0, params["new_dtype"]), name),
            }
            params["weak_type"] = False
        if name == "dot_general":
            params |= {"precision": None, "preferred_element_type": None}
        try:
            encoded = {key: encode_param(value) for key, value in params.items()}
        except TypeError:
            raise refusal(name, scope) from None
        if not equation.primitive.multiple_results:
            return [self._builder.emit_encoded(name, inputs, encoded, scope)]
        return [
            self._builder.emit_encoded(name, inputs, {**encoded, "output": k}, scope)
            for k in range(len(equation.outvars))
        ]

    def _split(self, params: _Parameters, source: int, scope: str) -> list[int]:
        shape, axis = self._builder.nodes[source].shape, params["axis"]
        ends = np.cumsum(params["sizes"])
        pieces = []
        for end, size in zip(ends, params["sizes"], strict=True):
            starts, limits = [0] * len(shape), list(shape)
            starts[axis], limits[axis] = int(end - size), int(end)
            pieces.append(self._slice(source, starts, limits, scope))
        return pieces

    def _slice(
        self, source: int, starts: list[int], limits: list[int], scope: str
    ) -> int:
        return self._builder.emit(
            "slice",
            source,
            scope=scope,
            start_indices=starts,
            limit_indices=limits,
            strides=None,
        )

    def _unroll(self, params: _Parameters, inputs: list[int], scope: str) -> list[int]:
        """A scan, step by step."""
        consts = inputs[: params["num_consts"]]
        carry = inputs[params["num_consts"] :][: params["num_carry"]]
        rows = inputs[params["num_consts"] + params["num_carry"] :]
        order = range(params["length"])
        if not order:
            raise refusal("scan of length 0", scope)
        stacked: dict[int, list[int]] = {}
        for step in reversed(order) if params["reverse"] else order:
            taken = [self._row(source, step, scope) for source in rows]
            results = self.inline(params["jaxpr"], [*consts, *carry, *taken], scope)
            carry, ys = (
                results[: params["num_carry"]],
                results[params["num_carry"] :],
            )
            stacked[step] = [self._as_row(y, scope) for y in ys]
        columns = zip(*(stacked[step] for step in order), strict=True)
        joined = [
            self._builder.emit("concatenate", *column, scope=scope, dimension=0)
            for column in columns
        ]
        return [*carry, *joined]

    def _row(self, source: int, step: int, scope: str) -> int:
        shape = list(self._builder.nodes[source].shape)
        row = self._slice(
            source, [step] + [0] * len(shape[1:]), [step + 1, *shape[1:]], scope
        )
        return self._builder.emit("squeeze", row, scope=scope, dimensions=(0,))

    def _as_row(self, source: int, scope: str) -> int:
        shape = self._builder.nodes[source].shape
        return self._builder.emit(
            "reshape",
            source,
            scope=scope,
            new_sizes=(1, *shape),
            dimensions=None,
            sharding=None,
        )


def refusal(operation: str, scope: str) -> UnsupportedOperationError:
    """What is not supported, where, and what to write instead."""
    instead = _ALTERNATIVES.get(operation, _OTHERWISE)
    return UnsupportedOperationError(
        f"{operation!r} in scope {scope or '(top)'!r} cannot run on secret shares. "
        f"Use {instead}.",
        operation=operation,
        scope=scope,
    )
