"""Plans as files: canonical, versioned, with a digest, read with limits.

A file is a line of magic, the SHA-256 of what follows, and canonical JSON. Whatever is
read is checked as if an enemy had written it: sizes, forms, references, shapes, and the
rules of ``verify``; anything else is refused with PlanError. Nothing in it is code.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from ditto.compiler.graph import Array, Graph, Node
from ditto.compiler.operations import DTYPES, OPERATIONS, decode_param
from ditto.compiler.plan import STEPS, Input, Output, Plan, Region, Step, Value
from ditto.compiler.profile import Profile
from ditto.compiler.verify import verify
from ditto.errors import DittoError, PlanError
from ditto.fixedpoint import FxpType

VERSION = 3
MAX_BYTES = 1 << 30
MAX_ITEMS = 1 << 20
MAX_DEPTH = 24
MAX_SIZE = 1 << 34
"""Elements of the largest tensor."""
MAX_INTEGER = 1 << 48
"""The largest parameter: sums may wrap around and come back."""
MAX_CONSTANT = 1 << 26
"""Elements of the largest constant."""
_MAGIC = b"ditto-plan\n"
_HEAD = len(_MAGIC) + 64 + 1


def dump(plan: Plan) -> bytes:
    """The plan as bytes: the same bytes wherever and whenever it is made."""
    body = _canonical(_plan_out(plan))
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def digest(plan: Plan) -> str:
    """SHA-256 of the plan's content."""
    return hashlib.sha256(_canonical(_plan_out(plan))).hexdigest()


def read(path: Path) -> Plan:
    """A plan from a file, refused before it is read if it is too large."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise PlanError(f"{path} has {size} bytes; a plan has at most {MAX_BYTES}.")
        return load(path.read_bytes())
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}.") from None


def load(data: bytes) -> Plan:
    """The inverse of ``dump``; raises PlanError for anything else."""
    if len(data) > MAX_BYTES:
        raise PlanError(f"A plan has at most {MAX_BYTES} bytes, got {len(data)}.")
    if not data.startswith(_MAGIC) or len(data) < _HEAD:
        raise PlanError("This is not a plan.")
    claimed, body = data[len(_MAGIC) : _HEAD - 1], data[_HEAD:]
    if data[_HEAD - 1 : _HEAD] != b"\n":
        raise PlanError("This is not a plan.")
    if hashlib.sha256(body).hexdigest().encode() != claimed:
        raise PlanError("The plan is damaged: its digest does not match. Make it anew.")
    return load_body(body)


def load_body(body: bytes) -> Plan:
    """A plan from its JSON alone."""
    try:
        document = json.loads(body, parse_constant=_no_number)
        version = document["version"]
        if type(version) is not int or version != VERSION:
            raise PlanError(
                f"The plan has version {str(version)[:20]!r}; this release reads "
                f"version {VERSION}. Compile it anew."
            )
        plan = _plan_in(document)
        verify(plan)
    except PlanError:
        raise
    except DittoError as error:
        raise PlanError(f"The plan breaks a rule: {error}") from None
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        ValidationError,
    ):
        raise PlanError("The plan does not have the form of one.") from None
    return plan


def _no_number(name: str) -> Any:
    raise PlanError(f"The plan holds {name}, which is no number.")


def _canonical(document: Any) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


# Out


def _plan_out(plan: Plan) -> dict[str, Any]:
    return {
        "version": VERSION,
        "profile": plan.profile.model_dump(mode="json"),
        "inputs": [
            [i.name, i.role, list(i.shape), i.dtype, list(i.forms)] for i in plan.inputs
        ],
        "values": [
            [
                list(v.shape),
                v.kind,
                None if v.type is None else [v.type.bits, v.type.frac],
                v.dtype,
            ]
            for v in plan.values
        ],
        "constants": [_array_out(c) for c in plan.constants],
        "regions": [
            {"bits": r.bits, "graph": _graph_out(r.graph)} for r in plan.regions
        ],
        "steps": [
            [s.op, list(s.inputs), list(s.outputs), dict(s.params), s.scope]
            for s in plan.steps
        ],
        "outputs": [[o.value, o.dtype, o.kept] for o in plan.outputs],
        "result": plan.result,
    }


def _graph_out(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": [
            [n.op, list(n.inputs), dict(n.params), list(n.shape), n.dtype]
            for n in graph.nodes
        ],
        "constants": [_array_out(c) for c in graph.constants],
        "outputs": list(graph.outputs),
    }


def _array_out(array: Array) -> list[Any]:
    """Type, shape, data; of an array of equal elements only the first."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    flat = little.reshape(-1)
    if flat.size > 1 and flat.tobytes() == flat[:1].tobytes() * flat.size:
        little = flat[:1]
    data = base64.b64encode(little.tobytes()).decode()
    return [array.dtype.name, list(array.shape), data]


# In


def _plan_in(document: Mapping[str, Any]) -> Plan:
    profile = Profile.model_validate(document["profile"])
    values = tuple(_value_in(item) for item in _items(document["values"]))
    count = len(values)
    inputs = tuple(
        Input(
            _text(name),
            _one_of(role, ("secret", "weight", "state", "public")),
            _shape(shape),
            _one_of(dtype, DTYPES),
            tuple(_index(v, count) for v in _items(forms)),
        )
        for name, role, shape, dtype, forms in _items(document["inputs"])
    )
    constants = tuple(_array_in(item) for item in _items(document["constants"]))
    regions = tuple(
        Region(_one_of(r["bits"], (32, 64)), _graph_in(r["graph"]))
        for r in _items(document["regions"])
    )
    steps = tuple(
        Step(
            _one_of(op, STEPS),
            tuple(_index(v, count) for v in _items(given)),
            tuple(_index(v, count) for v in _items(made)),
            _params(params),
            _text(scope),
        )
        for op, given, made, params, scope in _items(document["steps"])
    )
    outputs = tuple(
        Output(_index(v, count), _one_of(dtype, DTYPES), _flag(kept))
        for v, dtype, kept in _items(document["outputs"])
    )
    result = _structure(document["result"], len(outputs), 0)
    return Plan(profile, inputs, values, constants, regions, steps, outputs, result)


def _value_in(item: Any) -> Value:
    shape, kind, held, dtype = item
    fxp = None
    if held is not None:
        bits, frac = held
        fxp = FxpType(_integer(bits), _integer(frac))
    return Value(
        _shape(shape),
        _one_of(kind, ("shared", "bits", "indices", "public")),
        fxp,
        _one_of(dtype, DTYPES),
    )


def _graph_in(document: Mapping[str, Any]) -> Graph:
    nodes: list[Node] = []
    constants = tuple(_array_in(item) for item in _items(document["constants"]))
    for op, inputs, params, shape, dtype in _items(document["nodes"]):
        if op not in OPERATIONS and op not in ("input", "constant"):
            raise PlanError("A region has an operation that there is not.")
        node = Node(
            op,
            tuple(_index(u, len(nodes)) for u in _items(inputs)),
            _params(params),
            _shape(shape),
            _one_of(dtype, DTYPES),
            "",
        )
        if op == "constant":
            array = constants[_index(node.params["index"], len(constants))]
            if (array.shape, array.dtype.name) != (node.shape, node.dtype):
                raise PlanError("A constant has another shape than its node.")
        elif op == "input":
            _index(node.params["index"], MAX_ITEMS)
        nodes.append(node)
    found = [n.params["index"] for n in nodes if n.op == "input"]
    if sorted(found) != list(range(len(found))):
        raise PlanError("The inputs of a region are not numbered.")
    outputs = tuple(_index(u, len(nodes)) for u in _items(document["outputs"]))
    return Graph(tuple(nodes), constants, outputs)


def _array_in(item: Any) -> Array:
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


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise PlanError("The plan does not have the form of one.")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_SIZE:
        raise PlanError("A number in the plan is not an integer in range.")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise PlanError("A flag in the plan is neither true nor false.")
    return value


def _index(value: Any, count: int) -> int:
    if not 0 <= _integer(value) < count:
        raise PlanError("The plan refers to something that is not there.")
    return int(value)


def _shape(value: Any) -> tuple[int, ...]:
    sizes = tuple(_integer(n) for n in _items(value))
    if len(sizes) > 16 or any(n < 0 for n in sizes) or prod(sizes) > MAX_SIZE:
        raise PlanError("A tensor of the plan has no possible shape.")
    return sizes


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        raise PlanError("A name in the plan is not one.")
    return re.sub(r"[\x00-\x1f\x7f]", "?", value)


def _one_of(value: Any, allowed: Any) -> Any:
    if isinstance(value, list | dict) or value not in allowed:
        raise PlanError("The plan names something that there is not.")
    return value


def _params(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > 64:
        raise PlanError("The parameters of a step do not have the form of any.")
    _bounded(value, 0)
    for item in value.values():
        if not isinstance(item, dict) or "with" not in value:
            decode_param(item)
    return value


def _bounded(value: Any, depth: int) -> None:
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
    elif isinstance(value, float) and not isfinite(value):
        raise PlanError("A number in the plan is not finite.")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise PlanError("A number in the plan is not an integer in range.")


def _structure(value: Any, count: int, depth: int) -> Any:
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
