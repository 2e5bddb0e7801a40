"""Operands at one frac: shares are shifted left, public numbers become shares.

Shares of a public number are the number itself as share 0, and nothing else; that tells
nobody more than they know.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import FxpType, Words, encode
from ditto.plan import Value
from ditto.protocols import Party, lift
from ditto.sharing import Rank, Shared
from ditto.steps.base import Arithmetic, Held, Numbers, as_shared, real_dtype


def share_0(party: Party, words: Words) -> tuple[Words, Words]:
    """The two words of a party if share 0 is ``words`` and the others are zero."""
    zero = np.zeros_like(words)
    first = words if party.rank == Rank.P0 else zero
    return first, words if party.rank == Rank.P2 else zero


def trivial_shares(party: Party, values: Held, kind: FxpType) -> Shared:
    """Shares of public numbers."""
    integers = encode(np.asarray(values), kind, name="public value")
    return Shared(*share_0(party, integers), kind)


def aligned(party: Party, operands: Sequence[Held], kind: FxpType) -> list[Shared]:
    """Shares of all operands at one frac."""
    return [
        trivial_shares(party, x, kind)
        if isinstance(x, np.ndarray)
        else lift(as_shared(x), frac=kind.frac)
        for x in operands
    ]


def integers_at(
    x: Numbers, held: Value, kind: FxpType, arithmetic: Arithmetic
) -> Numbers:
    """Integers at the frac of ``kind``: shares shift left, numbers are rounded."""
    if held.type is None:
        return arithmetic.nearest(jnp.asarray(x, real_dtype()) * 2.0**kind.frac)
    return x * 2.0 ** (kind.frac - held.type.frac)


def errors_at(
    errors: Sequence[Numbers], operands: Sequence[Value], kind: FxpType
) -> list[Numbers]:
    """Errors of integers once those are at the frac of ``kind``."""
    return [
        e if held.type is None else e * 2.0 ** (kind.frac - held.type.frac)
        for e, held in zip(errors, operands, strict=True)
    ]
