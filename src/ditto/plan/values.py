"""What a plan computes on: tensors, and how arguments and results relate to them."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Array, FxpType

DTYPES = ("float32", "int32", "uint32", "uint8", "int8", "int16", "uint16", "bool")
"""The element types of tensors."""


class InputRole(StrEnum):
    """Whose an input is."""

    SECRET = "secret"  # noqa: S105  (no password)
    """The client's."""
    WEIGHT = "weight"
    """The owner's."""
    STATE = "state"
    """Retained by the parties from the run before."""
    PUBLIC = "public"
    """Everybody's."""


class Representation(StrEnum):
    """How the parties hold a tensor."""

    SHARED = "shared"
    """As shares of integers."""
    BITS = "bits"
    """As shares of bits."""
    INDICES = "indices"
    """As what selects rows of a table: the shape ends in the table's length."""
    PUBLIC = "public"
    """As it is."""


@dataclass(frozen=True)
class Value:
    """One tensor of a plan."""

    shape: tuple[int, ...]
    representation: Representation
    type: FxpType | None
    dtype: str

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def fxp(self) -> FxpType:
        """The type of a value that is known to be shared."""
        if self.type is None:
            raise TypeError("A shared value has a type.")
        return self.type

    @property
    def is_public(self) -> bool:
        """Whether all parties know it."""
        return self.representation is Representation.PUBLIC

    @property
    def is_shared(self) -> bool:
        """Whether the parties hold shares of integers."""
        return self.representation is Representation.SHARED

    def __str__(self) -> str:
        kind = str(self.type) if self.type else f"{self.representation} {self.dtype}"
        return f"{kind}[{'x'.join(str(n) for n in self.shape)}]"


@dataclass(frozen=True)
class InputSpec:
    """An argument of the function, in every encoding that the steps use it in."""

    name: str
    role: InputRole
    shape: tuple[int, ...]
    dtype: str
    encodings: tuple[int, ...]
    """The values that hold it."""

    def is_plain(self, encoding: Value) -> bool:
        """Whether an encoding is the input itself."""
        return (encoding.shape, encoding.dtype) == (self.shape, self.dtype)

    def is_indices(self, encoding: Value) -> bool:
        """Whether an encoding holds, for each index, what selects a row by it."""
        return (
            encoding.representation is Representation.INDICES
            and encoding.dtype == self.dtype == "int32"
            and len(encoding.shape) == len(self.shape) + 1
            and encoding.shape[:-1] == self.shape
        )


@dataclass(frozen=True)
class OutputSpec:
    """A result: the value, and the type the function gave it.

    The client learns it, unless it is ``retained``: then the parties hold its shares,
    and the retained results are, in order, the state that the next run starts from.
    """

    value: int
    dtype: str
    retained: bool = False


def dense(values: npt.ArrayLike) -> Array:
    """An array that lies in memory in order, of the shape it has."""
    return np.ascontiguousarray(values).reshape(np.shape(values))
