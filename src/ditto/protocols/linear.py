"""Sums and differences: each party works on its own shares.

Steps
    Every party applies the same linear map to each share it holds. A public summand
    is added to share 0 only, which P0 holds first and P2 second.

Cost
    0 bits, 0 rounds.

Security
    No message is sent.

Source
    Linearity of additive sharing.
"""

from collections.abc import Sequence

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, encode
from ditto.protocols.blocks import complement
from ditto.sharing import Rank, Shared, SharedBits


def align(x: Shared, y: Shared) -> tuple[Shared, Shared]:
    """Both at the finer frac of the two: the coarser is shifted left."""
    if x.type.bits != y.type.bits:
        raise FixedPointTypeError(
            f"A sum needs one ring, got {x.type} and {y.type}. Recast one of them."
        )
    frac = max(x.type.frac, y.type.frac)
    return lift(x, frac=frac), lift(y, frac=frac)


def lift(x: Shared, *, frac: int) -> Shared:
    """The same values at a finer frac, by a left shift."""
    up = frac - x.type.frac
    if up == 0:
        return x
    if not 0 < up < x.type.bits:
        raise FixedPointTypeError(
            f"{x.type} cannot be shifted left to frac {frac}; recast it instead."
        )
    shift = x.ring.dtype.type(up)
    shifted = x.map(lambda share: np.asarray(share << shift))
    return Shared(shifted.first, shifted.second, FxpType(x.type.bits, frac))


def add(x: Shared, y: Shared) -> Shared:
    """x + y, broadcast as numpy does."""
    x, y = align(x, y)
    return _pairwise(x, y, np.add)


def subtract(x: Shared, y: Shared) -> Shared:
    """x - y, broadcast as numpy does."""
    x, y = align(x, y)
    return _pairwise(x, y, np.subtract)


def negate(x: Shared) -> Shared:
    """-x."""
    return x.map(lambda share: np.subtract(x.ring.scalar(0), share))


def add_public(rank: Rank, x: Shared, values: float | Sequence[float]) -> Shared:
    """x plus public real values, encoded at x's own type."""
    constant = encode(values, x.type, name="public summand")
    first = np.add(x.first, constant) if rank == Rank.P0 else x.first
    second = np.add(x.second, constant) if rank == Rank.P2 else x.second
    shape = np.broadcast_shapes(x.shape, constant.shape)
    reduce = x.ring.reduce
    return Shared(
        reduce(np.broadcast_to(first, shape)),
        reduce(np.broadcast_to(second, shape)),
        x.type,
    )


def sum_over(x: Shared, axis: int | tuple[int, ...]) -> Shared:
    """The sum over ``axis``, kept as an axis of size one."""
    return x.map(lambda s: s.sum(axis=axis, keepdims=True, dtype=x.ring.dtype))


def invert_bits(rank: Rank, x: SharedBits) -> SharedBits:
    """NOT x."""
    return SharedBits(*complement(rank, (x.first, x.second)), x.shape)


def _pairwise(x: Shared, y: Shared, operation: np.ufunc) -> Shared:
    reduce = x.ring.reduce
    return Shared(
        reduce(np.asarray(operation(x.first, y.first))),
        reduce(np.asarray(operation(x.second, y.second))),
        x.type,
    )
