"""A traced function computed by numpy, one primitive after another.

XLA compiles an operation for every shape, which takes longer than to compute it a few
times, as calibration and the folding of constants do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.extend.core import ClosedJaxpr, Literal
from jax.lax import GatherDimensionNumbers, GatherScatterMode, RoundingMethod

from ditto.fixedpoint import Array

_INLINED = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Calls of a traced function, and the parameter that holds it."""


@dataclass(frozen=True)
class _Instruction:
    compute: Callable[..., Any]
    operands: tuple[int | Array, ...]
    """Values by their place, or constants."""
    result: int
    dtype: npt.DTypeLike


class Program:
    """A function of arrays, traced and ready to be computed."""

    def __init__(self, traced: ClosedJaxpr) -> None:
        self._types = [var.aval.dtype for var in traced.jaxpr.invars]
        self._places = len(self._types)
        self._instructions: list[_Instruction] = []
        self._results = self._add(traced, range(self._places))

    def __call__(self, *arguments: npt.ArrayLike) -> list[Array]:
        """The results."""
        values: list[Any] = [None] * self._places
        for k, (x, dtype) in enumerate(zip(arguments, self._types, strict=True)):
            values[k] = np.asarray(x, dtype)
        with np.errstate(all="ignore"):
            for each in self._instructions:
                operands = [values[x] if type(x) is int else x for x in each.operands]
                result = np.asarray(each.compute(*operands))
                values[each.result] = result.astype(each.dtype, copy=False)
        return [values[x] if isinstance(x, int) else x for x in self._results]

    def _add(
        self, traced: ClosedJaxpr, arguments: Sequence[int | Array]
    ) -> list[int | Array]:
        """The instructions of a function, and where its results will be."""
        jaxpr = traced.jaxpr
        known: dict[Any, int | Array] = dict(zip(jaxpr.invars, arguments, strict=True))
        for var, constant in zip(jaxpr.constvars, traced.consts, strict=True):
            known[var] = np.asarray(constant)

        def place(atom: Any) -> int | Array:
            dtype = atom.aval.dtype
            if isinstance(atom, Literal):
                return np.asarray(atom.val, dtype)
            return known[atom]

        for equation in jaxpr.eqns:
            name = equation.primitive.name
            operands = tuple(place(atom) for atom in equation.invars)
            if name in _INLINED:
                called = self._add(equation.params[_INLINED[name]], operands)
                known.update(zip(equation.outvars, called, strict=True))
                continue
            compute = _numpy(name, [x.aval for x in equation.invars], equation.params)
            (made,) = equation.outvars
            known[made] = self._places
            self._instructions.append(
                _Instruction(compute, operands, self._places, made.aval.dtype)
            )
            self._places += 1
        return [place(atom) for atom in jaxpr.outvars]


def interpreted(function: Callable[..., Any], *shapes: Any) -> Program | None:
    """A function of arrays of these shapes, or None if numpy has no form of it."""
    try:
        return Program(jax.make_jaxpr(function)(*shapes))
    except NotImplementedError:
        return None


def _numpy(
    name: str, operands: Sequence[Any], params: dict[str, Any]
) -> Callable[..., Any]:
    """A primitive on operands of these shapes and types."""
    types = [each.dtype.kind for each in operands]
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name in _REAL and {*types} == {"f"}:
        return _REAL[name]
    match name:
        case "dot_general" if {*types} == {"f"}:
            return partial(_dot_general, dimension_numbers=params["dimension_numbers"])
        case "select_n" if types[0] == "b":
            return lambda which, no, yes: np.where(which, yes, no)
        case "gather" if _takes_rows(operands, params):
            return partial(_gather, **_chosen(params, "mode", "fill_value"))
        case _ if name in _WITH_PARAMETERS:
            compute, *names = _WITH_PARAMETERS[name]
            return partial(compute, **_chosen(params, *names))
    raise NotImplementedError(name)


def _chosen(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: params[name] for name in names}


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _round(x: Array, rounding_method: RoundingMethod) -> Array:
    if rounding_method is RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    up: Array = np.abs(x - whole) >= 0.5
    return np.add(whole, np.copysign(up, x))


def _power(x: Array, y: int) -> Array:
    """By squaring, as XLA does; numpy's own power is many times slower."""
    if y < 0:
        return 1 / _power(x, -y)
    result, square = np.ones_like(x), x
    while y:
        if y & 1:
            result = result * square
        y >>= 1
        square = square * square if y else square
    return result


def _convert(x: Array, new_dtype: np.dtype[Any]) -> Array:
    """What is too large for an integer becomes the largest one, and NaN becomes 0."""
    if x.dtype.kind == "f" and new_dtype.kind in "iu":
        limits = np.iinfo(new_dtype)
        if not ((x > limits.min - 1) & (x < limits.max)).all():
            x = np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max)
    return x.astype(new_dtype)


def broadcast_in_dim(
    x: Array, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    """As JAX's primitive of this name."""
    inner = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        inner[axis] = size
    return np.broadcast_to(x.reshape(inner), shape)


def strided_slice(
    x: Array,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:
    """As JAX's primitive ``slice``."""
    steps = strides or [1] * x.ndim
    ends = zip(start_indices, limit_indices, steps, strict=True)
    part: Array = x[tuple(slice(*each) for each in ends)]
    return part


def _window(
    x: Array, sizes: Sequence[int], starts: Sequence[Array]
) -> tuple[slice, ...]:
    """Where a part of x lies; one that would go beyond an end lies at the end."""
    firsts = [
        min(max(int(k), 0), n - size)
        for k, n, size in zip(starts, x.shape, sizes, strict=True)
    ]
    return tuple(slice(k, k + size) for k, size in zip(firsts, sizes, strict=True))


def _dynamic_slice(x: Array, *starts: Array, slice_sizes: Sequence[int]) -> Array:
    part: Array = x[_window(x, slice_sizes, starts)]
    return part


def _dynamic_update_slice(x: Array, part: Array, *starts: Array) -> Array:
    result = x.copy()
    result[_window(x, part.shape, starts)] = part
    return result


def _cumulative(
    x: Array, axis: int, reverse: bool, function: Callable[..., Array]
) -> Array:
    if reverse:
        return np.flip(function(np.flip(x, axis), axis=axis), axis)
    return function(x, axis=axis)


def _takes_rows(operands: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether it is ``table[ids]``: whole rows, one for each number."""
    numbers: GatherDimensionNumbers = params["dimension_numbers"]
    table, ids = operands
    first, row = ids.ndim - 1, table.shape[1:]
    return (
        numbers.collapsed_slice_dims == numbers.start_index_map == (0,)
        and not numbers.operand_batching_dims
        and tuple(numbers.offset_dims) == tuple(range(first, first + len(row)))
        and tuple(params["slice_sizes"]) == (1, *row)
    )


def _gather(
    table: Array, ids: Array, mode: GatherScatterMode, fill_value: float | None
) -> Array:
    rows = ids[..., 0]
    found: Array = table[np.clip(rows, 0, len(table) - 1)]
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return found
    if fill_value is None:
        fill_value = np.nan if table.dtype.kind == "f" else np.iinfo(table.dtype).min
    found[(rows < 0) | (rows >= len(table))] = fill_value
    return found


def _dot_general(x: Array, y: Array, dimension_numbers: tuple[Any, Any]) -> Array:
    """As one product of matrices for each of the batch."""
    (inner_x, inner_y), (batch_x, batch_y) = dimension_numbers

    def outer(value: Array, inner: Sequence[int], batch: Sequence[int]) -> list[int]:
        return [k for k in range(value.ndim) if k not in inner and k not in batch]

    outer_x, outer_y = outer(x, inner_x, batch_x), outer(y, inner_y, batch_y)
    batch = [x.shape[k] for k in batch_x]
    rows, columns = [x.shape[k] for k in outer_x], [y.shape[k] for k in outer_y]
    m, n = math.prod(rows), math.prod(columns)
    size = math.prod(x.shape[k] for k in inner_x)
    left = x.transpose([*batch_x, *outer_x, *inner_x]).reshape(*batch, m, size)
    right = y.transpose([*batch_y, *inner_y, *outer_y]).reshape(*batch, size, n)
    product: Array = left @ right
    return product.reshape(*batch, *rows, *columns)


_SIMPLE: dict[str, Callable[..., Any]] = {
    "abs": np.absolute,
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": _clamp,
    "copy": np.asarray,
    "dynamic_update_slice": _dynamic_update_slice,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "sign": np.sign,
    "square": np.square,
    "stop_gradient": np.asarray,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}
"""Without parameters that matter, and the same for all types."""

_REAL: dict[str, Callable[..., Any]] = {
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""The same, for real numbers alone."""

_WITH_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "broadcast_in_dim": (broadcast_in_dim, "shape", "broadcast_dimensions"),
    "concatenate": (
        lambda *parts, dimension: np.concatenate(parts, dimension),
        "dimension",
    ),
    "convert_element_type": (_convert, "new_dtype"),
    "cummax": (partial(_cumulative, function=np.maximum.accumulate), "axis", "reverse"),
    "cummin": (partial(_cumulative, function=np.minimum.accumulate), "axis", "reverse"),
    "cumsum": (partial(_cumulative, function=np.add.accumulate), "axis", "reverse"),
    "dynamic_slice": (_dynamic_slice, "slice_sizes"),
    "integer_pow": (_power, "y"),
    "iota": (
        lambda dtype, shape, dimension: broadcast_in_dim(
            np.arange(shape[dimension], dtype=dtype), shape, (dimension,)
        ),
        "dtype",
        "shape",
        "dimension",
    ),
    "reduce_and": (lambda x, axes: np.logical_and.reduce(x, axis=axes), "axes"),
    "reduce_max": (lambda x, axes: np.max(x, axis=axes), "axes"),
    "reduce_min": (lambda x, axes: np.min(x, axis=axes), "axes"),
    "reduce_or": (lambda x, axes: np.logical_or.reduce(x, axis=axes), "axes"),
    "reduce_prod": (lambda x, axes: np.prod(x, axis=axes, dtype=x.dtype), "axes"),
    "reduce_sum": (lambda x, axes: np.sum(x, axis=axes, dtype=x.dtype), "axes"),
    "reshape": (lambda x, new_sizes: x.reshape(new_sizes), "new_sizes"),
    "rev": (lambda x, dimensions: np.flip(x, axis=dimensions), "dimensions"),
    "round": (_round, "rounding_method"),
    "slice": (strided_slice, "start_indices", "limit_indices", "strides"),
    "squeeze": (lambda x, dimensions: np.squeeze(x, axis=dimensions), "dimensions"),
    "transpose": (lambda x, permutation: x.transpose(permutation), "permutation"),
}
"""Each with the parameters it takes."""
