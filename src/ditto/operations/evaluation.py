"""The one meaning of an operation, and of a graph of them, on plain arrays.

Tracing folds constants with it, calibration and public values use it, an SPU region is
compiled from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.extend.core import Primitive
from jax.typing import ArrayLike

from ditto.fixedpoint import Array
from ditto.operations.interpreter import interpreted
from ditto.operations.own import OWN
from ditto.operations.parameters import decode_param
from ditto.operations.table import TRAITS
from ditto.plan import Graph, Node, Params

Signature = tuple[tuple[int, ...], str]
"""Shape and dtype."""
Real = type[np.floating[Any]] | np.dtype[np.floating[Any]]
"""The type of real numbers."""


def _primitives() -> dict[str, Primitive]:
    every = (getattr(jax.lax, name) for name in dir(jax.lax) if name.endswith("_p"))
    return {p.name: p for p in every if p.name in TRAITS}


PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(_primitives())


def evaluate(
    op: str,
    params: Params,
    values: Sequence[ArrayLike],
    real: Real = np.float32,
) -> jax.Array:
    """The result of an operation on plain arrays; real numbers are of type ``real``."""
    arguments = {name: decode_param(value) for name, value in params.items()}
    if np.dtype(real) != np.float32:
        arguments = {
            name: np.dtype(real) if value == np.dtype(np.float32) else value
            for name, value in arguments.items()
        }
    output = arguments.pop("output", 0)
    if op in OWN:
        return OWN[op](*values, **arguments)
    primitive = PRIMITIVES[op]
    bind: Callable[..., Any] = primitive.bind
    result = bind(*values, **arguments)
    value: jax.Array = result[output] if primitive.multiple_results else result
    return value


def infer(op: str, params: Params, operands: tuple[Signature, ...]) -> Signature:
    """Shape and dtype of an operation's result."""
    return _infer(_Call(op, params), operands)


def abstract(shape: tuple[int, ...], dtype: npt.DTypeLike) -> jax.ShapeDtypeStruct:
    """An array of which only shape and type are known."""
    make: Callable[..., jax.ShapeDtypeStruct] = jax.ShapeDtypeStruct
    return make(shape, dtype)


class _Call:
    """An operation with its parameters, as a key."""

    def __init__(self, op: str, params: Params) -> None:
        self.op, self.params = op, params
        self._key = (op, repr(params))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=1 << 14)
def _infer(call: _Call, operands: tuple[Signature, ...]) -> Signature:
    shapes = [abstract(shape, dtype) for shape, dtype in operands]
    result = jax.eval_shape(lambda *a: evaluate(call.op, call.params, a), *shapes)
    return tuple(result.shape), result.dtype.name


@lru_cache(maxsize=1 << 14)
def _plain(
    call: _Call, operands: tuple[Signature, ...], batched: tuple[bool, ...]
) -> Callable[..., Array]:
    """An operation on arrays of numpy, of which some have an axis of samples in front:
    by numpy itself, or compiled where it has no form of it."""

    def apply(*values: jax.Array) -> jax.Array:
        return evaluate(call.op, call.params, values)

    axes = tuple(0 if each else None for each in batched)
    function = jax.vmap(apply, in_axes=axes) if any(batched) else apply
    program = interpreted(function, *(abstract(*each) for each in operands))
    if program is not None:
        return lambda *values: program(*values)[0]
    compiled = jax.jit(function)
    return lambda *values: np.asarray(compiled(*values))


def evaluate_plain(op: str, params: Params, values: Sequence[npt.ArrayLike]) -> Array:
    """As ``evaluate``, on arrays of numpy and without a compiler where that can be."""
    arrays = [*map(np.asarray, values)]
    return _on_samples(op, params, arrays, (False,) * len(arrays))


def _on_samples(
    op: str, params: Params, arrays: Sequence[Array], batched: tuple[bool, ...]
) -> Array:
    operands = tuple((x.shape, x.dtype.name) for x in arrays)
    return _plain(_Call(op, params), operands, batched)(*arrays)


Settle = Callable[[Node, jax.Array], jax.Array]


def run(graph: Graph, arguments: Sequence[ArrayLike]) -> list[jax.Array]:
    """Evaluate the graph on plain arrays; see ``walk``."""
    values = dict(walk(graph, arguments, keep=graph.outputs))
    return [values[i] for i in graph.outputs]


def walk(
    graph: Graph,
    arguments: Sequence[ArrayLike],
    *,
    keep: Sequence[int] | None = None,
    real: Real = np.float32,
    settle: Settle | None = None,
) -> Iterator[tuple[int, jax.Array]]:
    """Every node with its value on plain arrays, in order.

    With ``keep``, only those nodes are handed out. Values are let go after their last
    use, so a deep model needs no more memory than it does anyway. ``real`` is the type
    real numbers are computed in; ``settle`` may round each result.
    """
    last = {u: i for i, node in enumerate(graph.nodes) for u in node.inputs}
    values: dict[int, jax.Array] = {}
    for i, node in enumerate(graph.nodes):
        dtype = real if node.dtype == "float32" else node.dtype
        if node.op == "input":
            values[i] = jnp.asarray(arguments[node.params["index"]], dtype)
        elif node.op == "constant":
            values[i] = jnp.asarray(graph.constants[node.params["index"]], dtype)
        else:
            operands = [values[u] for u in node.inputs]
            values[i] = evaluate(node.op, node.params, operands, real)
            if settle:
                values[i] = settle(node, values[i])
        if keep is None or i in keep:
            yield i, values[i]
        for u in {*node.inputs, i}:
            if last.get(u, i) <= i:
                values.pop(u, None)


@dataclass(frozen=True, eq=False)
class Sampled:
    """A value on several samples: a row for each of them, or the same one for all."""

    array: Array
    batched: bool


def walk_samples(
    graph: Graph,
    arguments: Sequence[Sampled],
    settle: Callable[[Node, Sampled], Sampled],
) -> Iterator[tuple[int, Sampled]]:
    """As ``walk``, on several samples at once: every operation is called once, and what
    is the same in all samples is computed once."""
    last = {u: i for i, node in enumerate(graph.nodes) for u in node.inputs}
    values: dict[int, Sampled] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            given = arguments[node.params["index"]]
            values[i] = replace(given, array=np.asarray(given.array, node.dtype))
        elif node.op == "constant":
            constant = graph.constants[node.params["index"]]
            values[i] = Sampled(np.asarray(constant, node.dtype), batched=False)
        else:
            operands = [values[u] for u in node.inputs]
            batched = tuple(each.batched for each in operands)
            arrays = [each.array for each in operands]
            result = Sampled(
                _on_samples(node.op, node.params, arrays, batched), any(batched)
            )
            values[i] = settle(node, result)
        yield i, values[i]
        for u in {*node.inputs, i}:
            if last.get(u, i) <= i:
                values.pop(u, None)
