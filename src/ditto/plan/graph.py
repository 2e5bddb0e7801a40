"""A graph of operations on tensors, as data: what an SPU region computes.

Node i may use nodes before it. Every node has one result. The compiler works on such
graphs too; what an operation means stands in ``ditto.operations``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ditto.files import JsonValue
from ditto.fixedpoint import Array

Params = Mapping[str, JsonValue]
"""Parameters of an operation, as JSON holds them."""
LEAVES = ("input", "constant")
"""Nodes that are no operations; their ``index`` tells which input or constant."""


@dataclass(frozen=True)
class Node:
    """One operation, or a leaf."""

    op: str
    inputs: tuple[int, ...]
    params: Params
    shape: tuple[int, ...]
    dtype: str
    scope: str
    ring: str = ""
    """A hint: "high" if a pass wants it in the high ring."""

    @property
    def size(self) -> int:
        """Elements of the result."""
        return prod(self.shape)


@dataclass(frozen=True)
class Graph:
    """Nodes in the order they are computed, and which of them come out."""

    nodes: tuple[Node, ...]
    constants: tuple[Array, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> list[int]:
        """The nodes of the inputs, by index."""
        found = [i for i, n in enumerate(self.nodes) if n.op == "input"]
        return sorted(found, key=lambda i: int(self.nodes[i].params["index"]))

    def key(self) -> object:
        """Equal for graphs that compute the same, whatever their scopes."""
        nodes = tuple(
            (n.op, n.inputs, repr(n.params), n.shape, n.dtype) for n in self.nodes
        )
        constants = tuple((c.dtype.str, c.shape, c.tobytes()) for c in self.constants)
        return nodes, constants, self.outputs

    def users(self) -> list[list[int]]:
        """For each node, the nodes that use it."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for u in dict.fromkeys(node.inputs):
                found[u].append(i)
        return found

    def constant(self, i: int) -> Array | None:
        """The value of a constant node, None for any other."""
        node = self.nodes[i]
        return self.constants[node.params["index"]] if node.op == "constant" else None

    def uniform(self, i: int) -> float | None:
        """The one number of a constant whose elements are all equal."""
        values = self.constant(i)
        if values is None or values.size == 0 or values.dtype == np.bool_:
            return None
        first = values.reshape(-1)[0]
        return float(first) if np.all(values == first) else None


@dataclass(frozen=True)
class Region:
    """A piece that SPU runs: a graph in one of its rings."""

    bits: int
    graph: Graph
