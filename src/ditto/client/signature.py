"""A plan as its client sees it: what to share, what will come back.

The client of a model has signatures and no plans. They say how each input is encoded
before it is shared and how the summands of each output become numbers again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ditto.errors import PlanError
from ditto.files import Json, JsonValue
from ditto.fixedpoint import FxpType
from ditto.plan import InputRole


@dataclass(frozen=True)
class Encoding:
    """One form in which the parties take an input.

    ``type`` is None for a public array. ``depth`` is the length of the table that
    indices select from, and None for what is shared by its elements.
    """

    value: int
    """The number of the plan's value."""
    type: FxpType | None
    depth: int | None = None


@dataclass(frozen=True)
class InputSignature:
    """An input of a plan."""

    name: str
    role: InputRole
    shape: tuple[int, ...]
    dtype: str
    encodings: tuple[Encoding, ...]


@dataclass(frozen=True)
class OutputSignature:
    """An output of a plan: its dtype, and its fixed-point type unless it is public."""

    dtype: str
    type: FxpType | None
    retained: bool
    """Whether the parties retain it."""


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of the plan with this digest."""

    digest: str
    inputs: tuple[InputSignature, ...]
    outputs: tuple[OutputSignature, ...]
    result: JsonValue
    """How the outputs are arranged: nested lists and dicts of their numbers."""
    range_check: bool = False
    """Whether the parties tell the client that a value left its range."""

    def to_json(self) -> Json:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> "Signature":
        """The inverse of ``to_json``; raises PlanError for anything else."""
        try:
            return cls(
                digest=str(data["digest"]),
                inputs=tuple(_input(each) for each in data["inputs"]),
                outputs=tuple(
                    OutputSignature(
                        str(each["dtype"]), _type(each["type"]), bool(each["retained"])
                    )
                    for each in data["outputs"]
                ),
                result=data["result"],
                range_check=bool(data["range_check"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PlanError(f"This is not the signature of a plan: {error}.") from None


def _input(data: Mapping[str, JsonValue]) -> InputSignature:
    role = InputRole(data["role"])
    encodings = tuple(
        Encoding(
            int(each["value"]),
            _type(each["type"]),
            None if each["depth"] is None else int(each["depth"]),
        )
        for each in data["encodings"]
    )
    shape = tuple(int(n) for n in data["shape"])
    return InputSignature(str(data["name"]), role, shape, str(data["dtype"]), encodings)


def _type(data: Mapping[str, JsonValue] | None) -> FxpType | None:
    return None if data is None else FxpType(int(data["bits"]), int(data["frac"]))
