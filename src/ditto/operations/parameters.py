"""Parameters of JAX's primitives as JSON, and back."""

import enum
from collections.abc import Callable, Mapping

import jax
import numpy as np

from ditto.errors import MessageError
from ditto.files import JsonValue
from ditto.plan import DTYPES

_RECORDS: dict[str, Callable[..., object]] = {
    "GatherDimensionNumbers": jax.lax.GatherDimensionNumbers,
    "ConvDimensionNumbers": jax.lax.ConvDimensionNumbers,
}
_ENUMS: dict[str, type[enum.Enum]] = {
    "GatherScatterMode": jax.lax.GatherScatterMode,
    "RoundingMethod": jax.lax.RoundingMethod,
    "Precision": jax.lax.Precision,
}


def encode_param(value: object) -> JsonValue:
    """A JAX parameter as JSON; raises TypeError for what JSON cannot hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return encode_number(value)
    if isinstance(value, enum.Enum) and type(value).__name__ in _ENUMS:
        return {"enum": type(value).__name__, "name": value.name}
    kind = type(value).__name__
    if kind in _RECORDS:
        tuple_fields = getattr(value, "_fields", None)
        fields = tuple_fields or getattr(value, "__dataclass_fields__", {})
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


def encode_number(value: float | str | None) -> JsonValue:
    """JSON has no infinities."""
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def decode_param(value: JsonValue) -> object:
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
