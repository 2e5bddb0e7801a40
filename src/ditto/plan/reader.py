"""Plans from files, read with limits as if an enemy had written them.

Sizes, forms and references are checked here; the rules of each kind of step and the
shapes of regions in ``ditto.steps``. Whatever is not a plan is refused with PlanError.
Nothing in a file is code.
"""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import cache
from math import isfinite, prod
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ditto.errors import DittoError, PlanError
from ditto.files import JsonValue
from ditto.fixedpoint import Array, FxpType
from ditto.plan.graph import LEAVES, Graph, Node, Region
from ditto.plan.plan import MAGIC, VERSION, Plan
from ditto.plan.step import Step, StepKind
from ditto.plan.values import (
    DTYPES,
    InputRole,
    InputSpec,
    OutputSpec,
    Representation,
    Value,
)

MAX_BYTES = 1 << 30
MAX_ITEMS = 1 << 20
MAX_DEPTH = 24
MAX_SIZE = 1 << 34
"""Elements of the largest tensor."""
MAX_INTEGER = 1 << 48
"""The largest parameter: sums may wrap around and come back."""
MAX_CONSTANT = 1 << 26
"""Elements of the largest constant."""
MALFORMED = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading something that is not a plan may raise."""
_HEAD = len(MAGIC) + 64 + 1

Choice = TypeVar("Choice")
Kinds = Mapping[str, type[StepKind]]
"""All kinds of steps by name."""


def body_of(data: bytes) -> bytes:
    """The JSON of a plan's file, if its digest matches."""
    if len(data) > MAX_BYTES:
        raise PlanError(f"A plan has at most {MAX_BYTES} bytes, got {len(data)}.")
    if not data.startswith(MAGIC) or len(data) < _HEAD:
        raise PlanError("This is not a plan.")
    claimed, body = data[len(MAGIC) : _HEAD - 1], data[_HEAD:]
    if data[_HEAD - 1 : _HEAD] != b"\n":
        raise PlanError("This is not a plan.")
    if hashlib.sha256(body).hexdigest().encode() != claimed:
        raise PlanError("The plan is damaged: its digest does not match. Make it anew.")
    return body


def parse(body: bytes, kinds: Kinds) -> Plan:
    """The plan of a body, not yet checked against the rules of its steps."""
    try:
        document = json.loads(body, parse_constant=_no_number)
        version = document["version"]
        if type(version) is not int or version != VERSION:
            raise PlanError(
                f"The plan has version {str(version)[:20]!r}; this release reads "
                f"version {VERSION}. Compile it anew."
            )
        return _plan(document, kinds)
    except PlanError:
        raise
    except DittoError as error:
        raise PlanError(f"The plan breaks a rule: {error}") from None
    except MALFORMED:
        raise PlanError("The plan does not have the form of one.") from None


def _no_number(name: str) -> JsonValue:
    raise PlanError(f"The plan holds {name}, which is no number.")


def _plan(document: Mapping[str, JsonValue], kinds: Kinds) -> Plan:
    values = tuple(_value(item) for item in _items(document["values"]))
    count = len(values)
    inputs = tuple(
        InputSpec(
            _text(name),
            InputRole(_one_of(role, tuple(InputRole))),
            _shape(shape),
            _one_of(dtype, DTYPES),
            tuple(_index(v, count) for v in _items(encodings)),
        )
        for name, role, shape, dtype, encodings in _items(document["inputs"])
    )
    constants = tuple(_array(item) for item in _items(document["constants"]))
    regions = tuple(
        Region(_one_of(r["bits"], (32, 64)), _graph(r["graph"]))
        for r in _items(document["regions"])
    )
    steps = tuple(
        Step(
            _kind(kinds[_one_of(name, kinds)], parameters),
            tuple(_index(v, count) for v in _items(operands)),
            tuple(_index(v, count) for v in _items(results)),
            _text(scope),
        )
        for name, operands, results, parameters, scope in _items(document["steps"])
    )
    outputs = tuple(
        OutputSpec(_index(v, count), _one_of(dtype, DTYPES), _flag(retained))
        for v, dtype, retained in _items(document["outputs"])
    )
    result = _structure(document["result"], len(outputs), 0)
    profile = _text(document["profile"])
    checked = _flag(document["range_check"])
    provable = _flag(document.get("provable", False))
    parts = (inputs, values, constants, regions, steps, outputs)
    return Plan(profile, *parts, result, checked, provable)


def _value(item: JsonValue) -> Value:
    shape, representation, held, dtype = item
    fxp = None
    if held is not None:
        bits, frac = held
        fxp = FxpType(_integer(bits), _integer(frac))
    chosen = Representation(_one_of(representation, tuple(Representation)))
    return Value(_shape(shape), chosen, fxp, _one_of(dtype, DTYPES))


def _kind(kind: type[StepKind], parameters: JsonValue) -> StepKind:
    """A kind of step with its parameters, each of the type its field has."""
    expected = _parameter_types(kind)  # type: ignore[arg-type]  # it is hashable
    if not isinstance(parameters, dict) or set(parameters) != set(expected):
        raise PlanError("The parameters of a step do not have the form of any.")
    return kind(**{n: _parameter(parameters[n], t) for n, t in expected.items()})


@cache
def _parameter_types(kind: type[StepKind]) -> dict[str, object]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _parameter(value: JsonValue, hint: object) -> object:
    if hint is int:
        return _integer(value, MAX_INTEGER)
    if hint is float:
        return _real(value)
    if hint is str:
        return _text(value)
    if get_origin(hint) is Literal:  # numbers are left to the rules of the step
        choices = get_args(hint)
        numbers = isinstance(choices[0], int)
        return _integer(value) if numbers else _one_of(value, choices)
    if get_origin(hint) is tuple:
        return tuple(_parameter(item, get_args(hint)[0]) for item in _items(value))
    return _params(value)


def _graph(document: Mapping[str, JsonValue]) -> Graph:
    nodes: list[Node] = []
    constants = tuple(_array(item) for item in _items(document["constants"]))
    for op, inputs, params, shape, dtype in _items(document["nodes"]):
        operands = tuple(_index(u, len(nodes)) for u in _items(inputs))
        sizes, kind = _shape(shape), _one_of(dtype, DTYPES)
        node = Node(_text(op), operands, _params(params), sizes, kind, "")
        if node.op in LEAVES:
            count = len(constants) if node.op == "constant" else MAX_ITEMS
            _index(node.params["index"], count)
        nodes.append(node)
    indices = [n.params["index"] for n in nodes if n.op == "input"]
    if sorted(indices) != list(range(len(indices))):
        raise PlanError("The inputs of a region are not numbered.")
    outputs = tuple(_index(u, len(nodes)) for u in _items(document["outputs"]))
    return Graph(tuple(nodes), constants, outputs)


def _array(item: JsonValue) -> Array:
    dtype, shape, text = item
    sizes, kind = _shape(shape), np.dtype(_one_of(dtype, DTYPES))
    data = base64.b64decode(text, validate=True)
    if kind == np.bool_ and data.strip(b"\x00\x01"):
        raise PlanError("A bit is neither 0 nor 1.")
    array = np.frombuffer(data, kind.newbyteorder("<")).astype(kind)
    if prod(sizes) > MAX_CONSTANT:
        raise PlanError(f"A constant has at most {MAX_CONSTANT} elements.")
    if array.size == 1:
        return np.broadcast_to(array, sizes) if sizes else array.reshape(())
    if array.size != prod(sizes):
        raise PlanError("A constant has another size than its shape.")
    return array.reshape(sizes)


def _items(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise PlanError("The plan does not have the form of one.")
    return value


def _integer(value: JsonValue, largest: int = MAX_SIZE) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > largest:
        raise PlanError("A number in the plan is not an integer in range.")
    return value


def _real(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlanError("A number in the plan is not one.")
    number = float(value)
    if not isfinite(number):
        raise PlanError("A number in the plan is not finite.")
    return number


def _flag(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise PlanError("A flag in the plan is neither true nor false.")
    return value


def _index(value: JsonValue, count: int) -> int:
    if not 0 <= _integer(value) < count:
        raise PlanError("The plan refers to something that is not there.")
    return int(value)


def _shape(value: JsonValue) -> tuple[int, ...]:
    sizes = tuple(_integer(n) for n in _items(value))
    if len(sizes) > 16 or any(n < 0 for n in sizes) or prod(sizes) > MAX_SIZE:
        raise PlanError("A tensor of the plan has no possible shape.")
    return sizes


def _text(value: JsonValue) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        raise PlanError("A name in the plan is not one.")
    return re.sub(r"[\x00-\x1f\x7f]", "?", value)


def _one_of(value: JsonValue, allowed: Collection[Choice]) -> Choice:
    known = not isinstance(value, list | dict | bool) and value in allowed
    if not known:
        raise PlanError("The plan names something that there is not.")
    choice: Choice = value
    return choice


def _params(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict) or len(value) > 64:
        raise PlanError("The parameters of a step do not have the form of any.")
    _bounded(value, 0)
    return value


def _bounded(value: JsonValue, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PlanError("The parameters of a step are nested too deeply.")
    if isinstance(value, dict):
        for key, item in value.items():
            _text(key)
            _bounded(item, depth + 1)
    elif isinstance(value, list):
        for item in _items(value):
            _bounded(item, depth + 1)
    elif isinstance(value, str):
        _text(value)
    elif isinstance(value, float):
        _real(value)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise PlanError("A number in the plan is not an integer in range.")


def _structure(value: JsonValue, count: int, depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise PlanError("The results of the plan are nested too deeply.")
    if value is None:
        return None
    if isinstance(value, list):
        return [_structure(item, count, depth + 1) for item in _items(value)]
    if isinstance(value, dict):
        if set(value) == {"tuple"}:
            return {"tuple": _structure(_items(value["tuple"]), count, depth + 1)}
        if set(value) == {"dict"} and isinstance(value["dict"], dict):
            return {
                "dict": {
                    _text(k): _structure(v, count, depth + 1)
                    for k, v in value["dict"].items()
                }
            }
        raise PlanError("The results of the plan have no possible arrangement.")
    return _index(value, count)
