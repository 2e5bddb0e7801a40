"""The forms in which a secret enters and leaves a protocol, and how they travel.

Most protocols go from shares to shares. At the ends of a computation a party knows a
tensor, or learns one, or the client does; inside comparisons secrets are bits. A row
of the registry names its forms, and these functions let a harness run any row: deal
plain integers out to three parties, build the operand at each, and put the integers
together again from what the three hold, checking that they agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ditto.errors import ShareConsistencyError
from ditto.fixedpoint import Array, FxpType, Words
from ditto.sharing import (
    Rank,
    Revealed,
    Shared,
    SharedBits,
    SharedIndices,
    add_summands,
    combine,
    combine_bits,
    deal,
    deal_bits,
    deal_indices,
    pack_bits,
    packed_size,
    unpack_bits,
)

Arrays = dict[str, Array]


class Form(StrEnum):
    """What the parties hold of a tensor."""

    SHARES = "shares"
    BITS = "bits"
    OWNED = "known to P0"
    INDICES = "indices of a table"
    OPENED = "opened"
    SUMMANDS = "summands for the client"


@dataclass(frozen=True, eq=False)
class Owned:
    """A tensor that P0 knows: the others have its shape and type only."""

    integers: Words | None
    shape: tuple[int, ...]
    type: FxpType


Operand = Shared | SharedBits | SharedIndices | Owned
Result = Shared | SharedBits | Revealed | Words | None


def hand_out(form: Form, integers: Array, kind: FxpType) -> list[Arrays]:
    """Plain integers as arrays for P0, P1 and P2."""
    if form == Form.BITS:
        shape = integers.shape
        return [
            {
                "first": unpack_bits(held.first, shape),
                "second": unpack_bits(held.second, shape),
            }
            for held in deal_bits(integers.astype(np.bool_))
        ]
    if form == Form.INDICES:
        shape_only = np.array(integers.shape, np.int64)
        return [
            {"keys": held.keys, "shape": shape_only}
            for held in deal_indices(integers, depth=DEPTH)
        ]
    words = kind.ring.reduce(integers)
    if form == Form.OWNED:
        shape_only = np.array(words.shape, np.int64)
        return [{"integers": words, "shape": shape_only}, *[{"shape": shape_only}] * 2]
    return [{"first": held.first, "second": held.second} for held in deal(words, kind)]


def take_in(form: Form, arrays: Mapping[str, Array], kind: FxpType) -> Operand:
    """The operand at a party, from the arrays it was handed."""
    if form == Form.OWNED:
        shape = tuple(int(n) for n in arrays["shape"])
        return Owned(arrays.get("integers"), shape, kind)
    if form == Form.INDICES:
        shape = tuple(int(n) for n in arrays["shape"])
        return SharedIndices(arrays["keys"], shape, DEPTH, 32)
    first, second = arrays["first"], arrays["second"]
    if form == Form.BITS:
        return SharedBits(pack_bits(first), pack_bits(second), first.shape)
    return Shared(first, second, kind)


def deal_operands(
    form: Form, integers: Sequence[Array], kinds: Sequence[FxpType]
) -> list[Arrays]:
    """Plain integers, dealt: the arrays of each party, by operand."""
    dealt = [hand_out(form, x, kind) for x, kind in zip(integers, kinds, strict=True)]
    return [
        {
            f"{i}.{name}": array
            for i, operand in enumerate(dealt)
            for name, array in operand[rank].items()
        }
        for rank in range(3)
    ]


def take_operands(
    form: Form, arrays: Mapping[str, Array], kinds: Sequence[FxpType]
) -> list[Operand]:
    """A party's operands, from its part of ``deal_operands``."""
    return [
        take_in(
            form,
            {
                name.partition(".")[2]: array
                for name, array in arrays.items()
                if name.startswith(f"{i}.")
            },
            kind,
        )
        for i, kind in enumerate(kinds)
    ]


def give_back(result: Result) -> Arrays:
    """A party's result as arrays."""
    if result is None:
        return {}
    if isinstance(result, SharedBits):
        return {
            "first": unpack_bits(result.first, result.shape),
            "second": unpack_bits(result.second, result.shape),
        }
    if isinstance(result, Shared):
        return {"first": result.first, "second": result.second}
    if isinstance(result, Revealed):
        return result.to_arrays("integers")
    return {"integers": result}


def gather(
    form: Form, replies: Sequence[Mapping[str, Array]], kind: FxpType
) -> npt.NDArray[np.int64]:
    """The plain integers, from the arrays of all three; refuses contradictions."""
    if form == Form.BITS:
        shares = [take_in(form, arrays, kind) for arrays in replies]
        bits = combine_bits([held for held in shares if isinstance(held, SharedBits)])
        return bits.astype(np.int64)
    if form == Form.SUMMANDS:
        words = add_summands(
            [Revealed.from_arrays(arrays, "integers") for arrays in replies], kind
        )
    elif form == Form.OPENED:
        opened = [arrays["integers"] for arrays in replies if arrays]
        if any(not np.array_equal(opened[0], other) for other in opened):
            raise ShareConsistencyError("The parties were shown different values.")
        words = opened[0]
    else:
        words = combine([Shared(a["first"], a["second"], kind) for a in replies])
    return kind.ring.signed(words)


def client_bytes(form: Form, result: Result, kind: FxpType) -> int:
    """What a party sends to the client, outside the channel."""
    if form != Form.SUMMANDS or not isinstance(result, Revealed):
        return 0
    return packed_size(result.summand.size, kind.bits) + result.hash_of_next.size


OWNER = Rank.P0
"""Who knows an owned tensor in the rows of the registry."""
DEPTH = 23
"""How many rows the table has that indices in the registry go into."""
