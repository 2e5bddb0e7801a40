"""One step of a plan, and what every kind of step has in common."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class StepKind:
    """What a step does: its kind, with the parameters of this one as fields.

    The kinds, and all that is known of each, stand in ``ditto.steps``.
    """

    name: ClassVar[str]
    interactive: ClassVar[bool] = False
    """Whether the parties send anything in it."""
    batchable: ClassVar[bool] = False
    """Whether it can share its rounds with others; then it has one result."""


@dataclass(frozen=True)
class Step:
    """One operation on values of the plan."""

    kind: StepKind
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scope: str


def part_of(scope: str) -> str:
    """The part of a model that a scope belongs to: its first name."""
    return scope.split("/", maxsplit=1)[0]
