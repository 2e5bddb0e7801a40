"""What a row of the table is: a protocol that can be run, priced and checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Array, FxpType
from ditto.protocols.blocks import Rounds
from ditto.protocols.cost import Cost
from ditto.protocols.party import Party
from ditto.protocols.recast import Conversion
from ditto.protocols.registry.forms import (
    DEPTH,
    Arrays,
    Form,
    Operand,
    Result,
    client_bytes,
    deal_operands,
    give_back,
    take_operands,
)

Variant = Literal["ours", "ours-one-round", "ours-three-rounds", "provable", "paper"]
Reals = npt.NDArray[np.float64]
Shape = tuple[int, ...]
BOTH: tuple[Rounds, Rounds] = (2, 1)
ALL: tuple[Rounds, Rounds, Rounds] = (2, 1, 3)


@dataclass(frozen=True)
class Error:
    """Result minus exact value, in ulp of the result: low <= error <= high."""

    low: float
    high: float
    mean: float


EXACT = Error(0, 0, 0)


@dataclass(frozen=True)
class Protocol:
    """One row: a protocol with its parameters fixed, on shares of given types."""

    name: str
    variant: Variant
    parameters: dict[str, str]
    formula: str
    operands: tuple[FxpType, ...]
    result: FxpType
    holds: FxpType
    """The type in which the result must fit before it is recast."""
    shapes: Callable[[int], tuple[Shape, ...]]
    """Shapes of operands that go together, growing with their leading dimension."""
    run: Callable[..., Result]
    """run(party, *operands), in the forms below."""
    plain: Callable[..., Reals]
    """The exact result on reals; a recast's is not rounded."""
    cost: Callable[..., Cost]
    """cost(*shapes) of operands of these shapes."""
    error: Error = EXACT
    terms: int = 1
    """Summands of one result element, for operands of these shapes."""
    degree: int = 1
    """2 for a product of operands, 1 for a linear map."""
    takes: Form = Form.SHARES
    gives: Form = Form.SHARES
    between: tuple[int, int] | None = None
    """The smallest and the largest operand, where the ring does not say it all."""
    work: int = 1
    """How many times the work of a product an element is, as benchmarks count it."""

    @property
    def key(self) -> str:
        """A readable identity."""
        settings = " ".join(f"{k}={v}" for k, v in self.parameters.items())
        return " ".join(part for part in (self.name, self.variant, settings) if part)

    def deal(self, integers: Sequence[Array]) -> list[Arrays]:
        """Plain operands, dealt: the arrays of each party."""
        return deal_operands(self.takes, integers, self.operands)

    def take(self, arrays: Mapping[str, Array]) -> list[Operand]:
        """A party's operands, from its part of ``deal``."""
        return take_operands(self.takes, arrays, self.operands)

    def measure(
        self, party: Party, arrays: Mapping[str, Array]
    ) -> tuple[dict[str, int | list[int]], Arrays]:
        """One run on a party's part of ``deal``: its traffic and its result."""
        channel, operands = party.channel, self.take(arrays)
        channel.restart_clock()
        before = channel.traffic()
        result = self.run(party, *operands)
        after = channel.traffic()
        sent = [a - b for a, b in zip(after.sent, before.sent, strict=True)]
        to_client = client_bytes(self.gives, result, self.result)
        return {
            "sent": sent,
            "bytes": sum(sent) + to_client,
            "rounds": max(after.rounds, int(to_client > 0)),
        }, give_back(result)

    @property
    def domain(self) -> tuple[int, int]:
        """Smallest and largest integers for which operands and results fit."""
        if self.between:
            return self.between
        if self.takes == Form.BITS:
            return 0, 1
        if self.takes == Form.INDICES:
            return 0, DEPTH - 1
        return 1 - self._operand_limit, self._operand_limit - 1

    @property
    def _operand_limit(self) -> int:
        spare = self.holds.frac - self.result.frac
        room = self.result.limit << spare if spare >= 0 else self.result.limit >> -spare
        each = min(self.holds.limit, room) // self.terms
        reach = isqrt(each) if self.degree == 2 else each
        return min(reach, *(operand.limit for operand in self.operands))


def fxp(bits: int, frac: int) -> FxpType:
    """Short for the table below."""
    return FxpType(bits=bits, frac=frac)


def variant(rounds: Rounds) -> Variant:
    """Of our own protocols."""
    named: dict[Rounds, Variant] = {
        1: "ours-one-round",
        2: "ours",
        3: "ours-three-rounds",
    }
    return named[rounds]


def carry_formula(rounds: Rounds) -> str:
    """What ``convert`` sends for the carry."""
    return {1: "4k", 2: "3k", 3: "2k + 1"}[rounds]


def check_of(checked: bool) -> dict[str, str]:
    """The parameter of a row whose values are looked at by the range check."""
    return {"range": "checked"} if checked else {}


def recast_error(source: FxpType, to: FxpType, *, fused: bool = False) -> Error:
    """How far a recast may be off, by itself or as the end of a product."""
    conversion = Conversion(source, to)
    if conversion.cut == 0:
        return EXACT
    if conversion.is_local:
        return Error(-1.5, 1.5, 1.5 * 2.0**-conversion.cut)
    if not fused or not conversion.unseen:
        return Error(-1, 1, 2.0**-conversion.cut)
    reach = 1 + conversion.blur
    return Error(-reach, reach, 2 * 2.0**-conversion.cut)


def in_place_error(source: FxpType, to: FxpType) -> Error:
    """How far a provable recast may be off."""
    conversion = Conversion(source, to)
    if conversion.cut == 0:
        return EXACT
    return Error(-1.5, 1.5, 0.5 * 2.0**-conversion.cut)


def one_matrix(rows: int) -> tuple[Shape, ...]:
    """Of five columns."""
    return ((rows, 5),)


def two_matrices(rows: int) -> tuple[Shape, ...]:
    """Of five columns."""
    return ((rows, 5), (rows, 5))
