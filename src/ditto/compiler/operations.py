"""What a graph may compute: JAX's primitives by name, and a few of our own.

A graph is data, so an operation is a name from this table and parameters that JSON can
hold. ``evaluate`` is the one meaning of an operation: tracing folds constants with it,
calibration and public values use it, an SPU region is compiled from it.
"""

import enum
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import MessageError

Params = Mapping[str, Any]

LINEAR_SHAPE = frozenset(
    [
        "broadcast_in_dim",
        "concatenate",
        "cumsum",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "pad",
        "reduce_sum",
        "reshape",
        "rev",
        "slice",
        "squeeze",
        "transpose",
        "expand_dims",
        "within",
    ]
)
"""Move or add elements: a party does them on its shares alone."""

MOVES = frozenset(("broadcast_in_dim", "reshape", "squeeze", "expand_dims"))
"""Those that only change the shape around the elements, or repeat them."""

ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "clamp",
        "combine",
        "convert_element_type",
        "cos",
        "cosh",
        "div",
        "eq",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "exp_negative",
        "expm1",
        "floor",
        "ge",
        "gelu",
        "gelu_tanh",
        "gt",
        "integer_pow",
        "is_finite",
        "le",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "pow",
        "reciprocal",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "silu",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "sub",
        "tanh",
        "xor",
    ]
)
"""Each element of the result depends on the same element of the operands."""

_OTHERS = frozenset(
    [
        "argmax",
        "argmin",
        "conv_general_dilated",
        "cummax",
        "cummin",
        "cumprod",
        "dot_general",
        "iota",
        "reduce_and",
        "reduce_max",
        "reduce_min",
        "reduce_or",
        "reduce_prod",
        "sort",
    ]
)


def _combine(*values: Any, coefficients: Sequence[float], bias: float) -> Any:
    terms = [
        jnp.asarray(v) * np.asarray(c, jnp.asarray(v).dtype)
        for c, v in zip(coefficients, values, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total + np.asarray(bias, total.dtype)


def _bounded(
    x: Any, *, axes: Sequence[int], bound: float, choose: Callable[..., Any]
) -> Any:
    start = np.asarray(bound, x.dtype)
    return jax.lax.reduce(x, start, choose, tuple(axes))


def _coarse_max(
    x: Any,
    *,
    axes: Sequence[int],
    step: float,
    low: float,
    high: float,
    hidden: float | None = None,
) -> Any:
    del low, high, hidden  # where x lies; the value does not depend on it
    size = np.asarray(step, x.dtype)
    return jnp.floor(jnp.max(x, axis=tuple(axes)) / size) * size


def _curve(
    x: Any,
    *,
    function: str,
    factor: float,
    summand: float,
    low: float,
    high: float,
    widths: int,
) -> Any:
    del low, high, widths
    y = np.asarray(factor, x.dtype) * x + np.asarray(summand, x.dtype)
    return {"reciprocal": lambda v: 1 / v, "rsqrt": jax.lax.rsqrt}[function](y)


OWN: dict[str, Callable[..., Any]] = {
    "bounded_max": partial(_bounded, choose=jax.lax.max),
    "bounded_min": partial(_bounded, choose=jax.lax.min),
    "coarse_max": _coarse_max,
    "combine": _combine,
    "curve": _curve,
    "exp_negative": jnp.exp,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "lookup": lambda table, ids: table[ids],
    "reciprocal": lambda x: 1 / x,
    "silu": jax.nn.silu,
    "within": lambda x, low, high: x,  # noqa: ARG005
}
"""Operations that no JAX primitive names.

``bounded_max`` and ``bounded_min`` reduce from a bound that the ring can subtract, not
from the smallest or largest integer as JAX does: SPU may compare with it.
``coarse_max`` is the maximum on a grid of some step, and ``curve`` the reciprocal or
inverse root of factor * x + summand; both know between what x lies, and the first what
stands for positions that a mask hides. ``within`` is x
itself, and says between what it has to lie for what follows to be right.
``combine`` is a sum of its operands times public numbers, plus a public number.
``exp_negative`` is exp of what is never positive, as in softmax. ``lookup`` finds the
rows of a table.
"""

_RECORDS: dict[str, Any] = {
    "GatherDimensionNumbers": jax.lax.GatherDimensionNumbers,
    "ConvDimensionNumbers": jax.lax.ConvDimensionNumbers,
}
_ENUMS: dict[str, Any] = {
    "GatherScatterMode": jax.lax.GatherScatterMode,
    "RoundingMethod": jax.lax.RoundingMethod,
    "Precision": jax.lax.Precision,
}
DTYPES = ("float32", "int32", "uint32", "uint8", "int8", "int16", "uint16", "bool")


def _primitives() -> dict[str, Any]:
    wanted = LINEAR_SHAPE | ELEMENTWISE | _OTHERS
    found = (getattr(jax.lax, name) for name in dir(jax.lax) if name.endswith("_p"))
    return {p.name: p for p in found if p.name in wanted}


PRIMITIVES: Mapping[str, Any] = types.MappingProxyType(_primitives())
OPERATIONS = frozenset(PRIMITIVES) | frozenset(OWN)


def evaluate(
    op: str, params: Params, values: Sequence[Any], real: Any = np.float32
) -> Any:
    """The result of an operation on plain arrays; real numbers are of type ``real``."""
    given = {name: decode_param(value) for name, value in params.items()}
    if real != np.float32:
        given = {
            name: np.dtype(real) if value == np.dtype(np.float32) else value
            for name, value in given.items()
        }
    output = given.pop("output", 0)
    if op in OWN:
        return OWN[op](*values, **given)
    result = PRIMITIVES[op].bind(*values, **given)
    return result[output] if PRIMITIVES[op].multiple_results else result


def encode_param(value: Any) -> Any:
    """A JAX parameter as JSON; raises TypeError for what JSON cannot hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return encode_number(value)
    if isinstance(value, enum.Enum) and type(value).__name__ in _ENUMS:
        return {"enum": type(value).__name__, "name": value.name}
    kind = type(value).__name__
    if kind in _RECORDS:
        fields = getattr(value, "_fields", None) or value.__dataclass_fields__
        return {
            "record": kind,
            "fields": {f: encode_param(getattr(value, f)) for f in fields},
        }
    if isinstance(value, tuple | list):
        return [encode_param(item) for item in value]
    if isinstance(value, np.generic):
        return encode_number(value.item())
    if isinstance(value, np.dtype | type):
        name = np.dtype(value).name
        if name in DTYPES:
            return {"dtype": name}
    raise TypeError(f"{value!r} is not a parameter that a plan can hold")


def encode_number(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def decode_param(value: Any) -> Any:
    """The inverse of ``encode_param``."""
    if isinstance(value, list | tuple):
        return tuple(decode_param(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    match value:
        case {"dtype": str(name)} if name in DTYPES:
            return np.dtype(name)
        case {"enum": str(kind), "name": str(name)} if kind in _ENUMS:
            if name in _ENUMS[kind].__members__:
                return _ENUMS[kind][name]
        case {"record": str(kind), "fields": dict(fields)} if kind in _RECORDS:
            try:
                return _RECORDS[kind](**{k: decode_param(v) for k, v in fields.items()})
            except TypeError:
                pass
        case {"float": "inf" | "-inf" | "nan" as text}:
            return float(text)
    raise MessageError("A parameter has a form that no operation takes.")
