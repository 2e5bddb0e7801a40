"""A Plan: what the three parties do, step by step, as data.

Everything a party needs is in it but the shares themselves. It holds no code: steps and
regions name entries of fixed tables. ``ditto.steps`` reads one from a file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ditto.files import JsonValue
from ditto.fixedpoint import Array
from ditto.plan.graph import Region
from ditto.plan.step import Step
from ditto.plan.values import InputRole, InputSpec, OutputSpec, Value
from ditto.plan.writer import (
    canonical,
    write_array,
    write_interface,
    write_region,
    write_step,
    write_value,
)

VERSION = 6
MAGIC = b"ditto-plan\n"
RANGE_WORD = "range"
"""What a party's word of the range check is called among what it sends the client."""
Tree = Any
"""What a JAX function takes or returns: arrays, in nested lists, tuples and dicts."""


@dataclass(frozen=True, repr=False)
class Plan:
    """What three parties do, step by step, on shares; it holds no share itself.

    Its digest names it: an owner approves a digest, a client asks for it, and a party
    runs nothing else with the owner's weights.
    """

    profile: str
    """The name of the profile it was compiled with."""
    inputs: tuple[InputSpec, ...]
    values: tuple[Value, ...]
    constants: tuple[Array, ...]
    regions: tuple[Region, ...]
    steps: tuple[Step, ...]
    outputs: tuple[OutputSpec, ...]
    result: JsonValue
    """How the results are arranged: nested lists and dicts of indices."""
    range_check: bool = False
    """Whether the parties note values that leave their range, for the client to see."""
    provable: bool = False
    """Whether recasts are those of which each message can be proved."""

    def __repr__(self) -> str:
        return (
            f"Plan(profile={self.profile!r}, {len(self.inputs)} inputs, "
            f"{len(self.steps)} steps, digest {self.digest[:16]})"
        )

    def weights(self) -> set[int]:
        """The values that are weights, as they enter the plan."""
        return {
            v
            for spec in self.inputs
            if spec.role is InputRole.WEIGHT
            for v in spec.encodings
        }

    @cached_property
    def placed(self) -> list[tuple[Step, tuple[Value, ...], tuple[Value, ...]]]:
        """Every step, with the tensors that it takes and makes."""

        def of(numbers: Sequence[int]) -> tuple[Value, ...]:
            return tuple(self.values[v] for v in numbers)

        return [(step, of(step.inputs), of(step.outputs)) for step in self.steps]

    def last_uses(self) -> list[list[int]]:
        """For each step, the values that nobody needs after it."""
        return self._last_uses

    @cached_property
    def _last_uses(self) -> list[list[int]]:
        results = {output.value for output in self.outputs}
        last: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            for v in (*step.inputs, *step.outputs):
                last[v] = i
        dying: list[list[int]] = [[] for _ in self.steps]
        for v, i in last.items():
            if v not in results:
                dying[i].append(v)
        return dying

    def round_groups(self) -> list[list[int]]:
        """The steps in order, those that share their rounds in one list.

        They stand side by side, are batchable, and do not use each other's results.
        """
        return self._round_groups

    @cached_property
    def _round_groups(self) -> list[list[int]]:
        groups: list[list[int]] = []
        made: set[int] = set()
        for i, step in enumerate(self.steps):
            joins = groups and step.kind.batchable and not made & set(step.inputs)
            if joins and self.steps[groups[-1][-1]].kind.batchable:
                groups[-1].append(i)
            else:
                groups.append([i])
                made = set()
            made |= set(step.outputs)
        return groups

    @property
    def state(self) -> list[InputSpec]:
        """The inputs that come from the run before."""
        return [spec for spec in self.inputs if spec.role is InputRole.STATE]

    def retained(self) -> list[Value]:
        """What the parties hold after a run, for the next."""
        return [self.values[o.value] for o in self.outputs if o.retained]

    @cached_property
    def body(self) -> bytes:
        """The plan as canonical JSON."""
        return canonical(
            {
                "version": VERSION,
                "profile": self.profile,
                "range_check": self.range_check,
                **({"provable": True} if self.provable else {}),
                "values": [write_value(value) for value in self.values],
                "constants": [write_array(array) for array in self.constants],
                "regions": [write_region(region) for region in self.regions],
                "steps": [write_step(step) for step in self.steps],
                **write_interface(self.inputs, self.outputs, self.result),
            }
        )

    @cached_property
    def digest(self) -> str:
        """Equal at all parties if and only if they hold the same plan (SHA-256)."""
        return hashlib.sha256(self.body).hexdigest()

    def to_bytes(self) -> bytes:
        """The plan as a file: a line of magic, a line with the digest, and JSON."""
        return MAGIC + self.digest.encode() + b"\n" + self.body

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        Path(path).write_bytes(self.to_bytes())


def arrange(structure: JsonValue, results: Sequence[Tree]) -> Tree:
    """Flat results as the function returns them."""
    if isinstance(structure, int):
        return results[structure]
    if isinstance(structure, Mapping):
        if "tuple" in structure:
            return tuple(arrange(item, results) for item in structure["tuple"])
        return {k: arrange(item, results) for k, item in structure["dict"].items()}
    if structure is None:
        return None
    return [arrange(item, results) for item in structure]


def structure_of(tree: Tree) -> JsonValue:
    """A tree of results with indices at its leaves, as JSON."""
    if isinstance(tree, int) or tree is None:
        return tree
    if isinstance(tree, dict):
        return {"dict": {str(k): structure_of(v) for k, v in tree.items()}}
    if isinstance(tree, tuple):
        return {"tuple": [structure_of(v) for v in tree]}
    return [structure_of(v) for v in tree]
