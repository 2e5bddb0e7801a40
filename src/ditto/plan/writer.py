"""The parts of a plan as JSON: the same text wherever and whenever it is written."""

import base64
import json
from collections.abc import Sequence
from dataclasses import fields

from ditto.files import JsonValue
from ditto.fixedpoint import Array
from ditto.plan.graph import Graph, Region
from ditto.plan.step import Step, StepKind
from ditto.plan.values import InputSpec, OutputSpec, Value, dense


def canonical(document: JsonValue) -> bytes:
    """The bytes of a document."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def write_interface(
    inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], result: JsonValue
) -> dict[str, JsonValue]:
    """What goes in and what comes out."""
    return {
        "inputs": [
            [i.name, i.role.value, list(i.shape), i.dtype, list(i.encodings)]
            for i in inputs
        ],
        "outputs": [[o.value, o.dtype, o.retained] for o in outputs],
        "result": result,
    }


def write_value(value: Value) -> JsonValue:
    """A tensor's shape, representation, type and dtype."""
    kind = None if value.type is None else [value.type.bits, value.type.frac]
    return [list(value.shape), value.representation.value, kind, value.dtype]


def write_step(step: Step) -> JsonValue:
    """A step: its kind by name, operands, results, parameters and scope."""
    parameters = {f.name: _parameter(step.kind, f.name) for f in fields(step.kind)}
    name = step.kind.name
    return [name, list(step.inputs), list(step.outputs), parameters, step.scope]


def _parameter(kind: StepKind, name: str) -> JsonValue:
    value = getattr(kind, name)
    return list(value) if isinstance(value, tuple) else value


def write_region(region: Region) -> JsonValue:
    """A region: its ring and its graph."""
    return {"bits": region.bits, "graph": _graph(region.graph)}


def _graph(graph: Graph) -> JsonValue:
    return {
        "nodes": [
            [n.op, list(n.inputs), dict(n.params), list(n.shape), n.dtype]
            for n in graph.nodes
        ],
        "constants": [write_array(c) for c in graph.constants],
        "outputs": list(graph.outputs),
    }


def write_array(array: Array) -> JsonValue:
    """Type, shape, data; of an array of equal elements only the first."""
    little = dense(array).astype(array.dtype.newbyteorder("<"))
    flat = little.reshape(-1)
    if flat.size > 1 and flat.tobytes() == flat[:1].tobytes() * flat.size:
        little = flat[:1]
    data = base64.b64encode(little.tobytes()).decode()
    return [array.dtype.name, list(array.shape), data]
