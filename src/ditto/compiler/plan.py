"""A Plan: what the three parties do, step by step, as data.

Everything a party needs is in it but the shares themselves. It holds no code: steps and
regions name operations of fixed tables. ``artifact`` writes and reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ditto.compiler.graph import Array, Graph
from ditto.compiler.profile import Profile
from ditto.errors import PlanError
from ditto.fixedpoint import FxpType
from ditto.protocols import Curve, Grid

if TYPE_CHECKING:
    from ditto.compiler.estimate import Estimate, Network

Role = Literal["secret", "weight", "state", "public"]
"""Whose an input is: the client's, the owner's, kept by the parties from the run
before, or everybody's."""
Kind = Literal["shared", "bits", "indices", "public"]

STEPS = (
    "public",
    "constant",
    "embed",
    "local",
    "add",
    "sub",
    "neg",
    "select",
    "retag",
    "scale",
    "contract",
    "combine",
    "recast",
    "multiply",
    "einsum",
    "lookup",
    "maximum",
    "curve",
    "region",
)
"""Everything a step can be."""
TASKS = frozenset(("recast", "multiply", "einsum"))
"""Steps that can be taken together with others."""
TALKING = TASKS | {"lookup", "maximum", "curve", "region"}
"""Steps in which the parties send anything."""


@dataclass(frozen=True)
class Value:
    """One tensor of a plan: public numbers, shares of integers or bits, or indices.

    Indices are held as what selects rows of a table: their shape ends in its length.
    """

    shape: tuple[int, ...]
    kind: Kind
    type: FxpType | None
    dtype: str

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape))

    @property
    def fxp(self) -> FxpType:
        """The type of a value that is known to be shared."""
        if self.type is None:
            raise TypeError("A shared value has a type.")
        return self.type

    def __str__(self) -> str:
        kind = str(self.type) if self.type else f"{self.kind} {self.dtype}"
        return f"{kind}[{'x'.join(str(n) for n in self.shape)}]"


@dataclass(frozen=True)
class Input:
    """An argument of the function, in every form that the steps use it in."""

    name: str
    role: Role
    shape: tuple[int, ...]
    dtype: str
    forms: tuple[int, ...]


def is_plain(given: Input, form: Value) -> bool:
    """Whether a form is the input itself."""
    return (form.shape, form.dtype) == (given.shape, given.dtype)


def is_indices(given: Input, form: Value) -> bool:
    """Whether a form is, for each index of the input, what selects a row by it."""
    return (
        form.kind == "indices"
        and form.dtype == given.dtype == "int32"
        and len(form.shape) == len(given.shape) + 1
        and form.shape[:-1] == given.shape
    )


@dataclass(frozen=True)
class Region:
    """A piece that SPU runs: a graph in one of its rings."""

    bits: int
    graph: Graph


@dataclass(frozen=True)
class Step:
    """One operation on values of the plan."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Mapping[str, Any]
    scope: str


def grid_of(step: Step, kind: FxpType) -> Grid:
    """On which grid a step ``maximum`` compares values of a type."""
    low, high, cut = (step.params[name] for name in ("low", "high", "cut"))
    if not all(isinstance(n, int) for n in (low, high, cut)):
        raise PlanError("a grid is of integers")
    return Grid(kind, low, high, cut)


def curve_of(step: Step, source: FxpType, target: FxpType) -> Curve:
    """The function of a step ``curve``."""
    low, high, factor, summand = (
        step.params[name] for name in ("low", "high", "factor", "summand")
    )
    whole = all(isinstance(n, int) for n in (low, high))
    real = all(isinstance(n, int | float) for n in (factor, summand))
    if not whole or not real:
        raise PlanError("a curve is of numbers")
    function, widths = step.params["function"], step.params["widths"]
    given = (low, high, float(factor), float(summand))
    return Curve(function, source, target, *given, widths)


@dataclass(frozen=True)
class Output:
    """A result: the value, and the type the function gave it.

    The client learns it, unless it is ``kept``: then the parties hold its shares, and
    the kept results are, in order, the state that the next run starts from.
    """

    value: int
    dtype: str
    kept: bool = False


@dataclass(frozen=True)
class Plan:
    """See the module's text."""

    profile: Profile
    inputs: tuple[Input, ...]
    values: tuple[Value, ...]
    constants: tuple[Array, ...]
    regions: tuple[Region, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    result: Any
    """How the results are arranged: nested lists and dicts of indices."""

    def last_uses(self) -> list[list[int]]:
        """For each step, the values that nobody needs after it."""
        kept = {output.value for output in self.outputs}
        last: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            for v in (*step.inputs, *step.outputs):
                last[v] = i
        found: list[list[int]] = [[] for _ in self.steps]
        for v, i in last.items():
            if v not in kept:
                found[i].append(v)
        return found

    def groups(self) -> list[list[int]]:
        """The steps in order, those that the parties take together in one list.

        Together are steps that stand side by side, talk by a task of the protocols, and
        do not use each other's results.
        """
        found: list[list[int]] = []
        made: set[int] = set()
        for i, step in enumerate(self.steps):
            together = found and step.op in TASKS and not made & set(step.inputs)
            if together and self.steps[found[-1][-1]].op in TASKS:
                found[-1].append(i)
            else:
                found.append([i])
                made = set()
            made |= set(step.outputs)
        return found

    @property
    def state(self) -> list[Input]:
        """The inputs that come from the run before."""
        return [given for given in self.inputs if given.role == "state"]

    def kept(self) -> list[Value]:
        """What the parties hold after a run, for the next."""
        return [self.values[o.value] for o in self.outputs if o.kept]

    def arrange(self, results: list[Any]) -> Any:
        """Flat results as the function returns them."""
        return _arrange(self.result, results)

    # What can be done with a plan stands in modules of its own; these are the doors.

    @property
    def digest(self) -> str:
        """Equal at all parties if and only if they hold the same plan."""
        from ditto.compiler.artifact import digest

        return digest(self)

    def explain(self, *, free: bool = False) -> str:
        """A table of the steps by scope: types, bytes, rounds."""
        from ditto.compiler.explain import explain

        return explain(self, free=free)

    def estimate(self, network: "Network") -> "Estimate":
        """How long a run will take on a network, before anything runs."""
        from ditto.compiler.estimate import estimate

        return estimate(self, network)

    def draw(self) -> str:
        """The plan as a picture (SVG): rings as colours, bytes as widths."""
        from ditto.compiler.draw import draw

        return draw(self)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """Read a plan from a file."""
        from ditto.compiler.artifact import read

        return read(Path(path))

    def to_bytes(self) -> bytes:
        """The plan as a file."""
        from ditto.compiler.artifact import dump

        return dump(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Plan":
        """A plan from a file; all but an intact one of this version is refused."""
        from ditto.compiler.artifact import load

        return load(data)


def _arrange(structure: Any, results: list[Any]) -> Any:
    if isinstance(structure, int):
        return results[structure]
    if isinstance(structure, Mapping):
        if "tuple" in structure:
            return tuple(_arrange(item, results) for item in structure["tuple"])
        return {k: _arrange(item, results) for k, item in structure["dict"].items()}
    if structure is None:
        return None
    return [_arrange(item, results) for item in structure]


def structure_of(tree: Any) -> Any:
    """A tree of results with indices at its leaves, as JSON."""
    if isinstance(tree, int) or tree is None:
        return tree
    if isinstance(tree, dict):
        return {"dict": {str(k): structure_of(v) for k, v in tree.items()}}
    if isinstance(tree, tuple):
        return {"tuple": [structure_of(v) for v in tree]}
    return [structure_of(v) for v in tree]
