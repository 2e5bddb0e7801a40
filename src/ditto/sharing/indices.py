"""Secret indices: which row of a table, so that nobody who holds a piece knows it.

An index i into ``depth`` rows is the vector e_i with a one at i. The three shares of a
table each lie with two parties, so what is needed of e_i is a two-party sharing for
each of the three pairs. Two splits of the point i serve all of them: one between P0 on
the one side and P1 and P2 on the other, and one between P1 and P2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ditto.errors import ShareConsistencyError
from ditto.fixedpoint import Array, Words
from ditto.sharing.packing import Bytes
from ditto.sharing.points import expand_points, point_bytes, split_points
from ditto.sharing.rank import Rank

MAX_EXPANDED = 1 << 24
"""Elements of one-hot vectors that are held at a time."""


@dataclass(frozen=True, eq=False)
class SharedIndices:
    """What one party holds of a tensor of secret indices.

    ``keys`` has one layer for each split it takes part in: P0 has its side of the
    first; P1 and P2 have the other side of the first, and each its side of the second.
    A layer alone, and both together, are independent of the indices.
    """

    keys: Bytes
    shape: tuple[int, ...]
    depth: int
    bits: int

    def __post_init__(self) -> None:
        row = point_bytes(self.depth, self.bits)
        due = (int(np.prod(self.shape)), row)
        layers = self.keys.shape[0] if self.keys.ndim else 0
        if self.keys.ndim != 3 or layers > 2 or self.keys.shape[1:] != due:
            raise ShareConsistencyError(
                f"The keys of {due[0]} indices into {self.depth} rows are {row} bytes "
                f"each, got an array of shape {self.keys.shape}."
            )

    def one_hots(self, rank: Rank) -> Iterator[tuple[slice, list[Words]]]:
        """For a few indices at a time, this party's shares of their one-hot rows."""
        count = self.keys.shape[1]
        step = max(1, MAX_EXPANDED // self.depth)
        sides = [0] if rank == Rank.P0 else [1, 0 if rank == Rank.P1 else 1]
        if len(sides) != len(self.keys):
            raise ShareConsistencyError(
                f"{rank.name} has {len(sides)} keys of every index, got "
                f"{len(self.keys)}."
            )
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            yield (
                part,
                [
                    expand_points(
                        layer[part], depth=self.depth, bits=self.bits, side=side
                    )
                    for layer, side in zip(self.keys, sides, strict=True)
                ],
            )


def deal_indices(
    indices: Array, *, depth: int, bits: int = 32
) -> tuple[SharedIndices, SharedIndices, SharedIndices]:
    """What a client sends of its indices to P0, P1 and P2."""
    flat = np.asarray(indices).reshape(-1)
    one, others = split_points(flat, depth=depth, bits=bits)
    second, third = split_points(flat, depth=depth, bits=bits)
    layers = ([one], [others, second], [others, third])
    p0, p1, p2 = (
        SharedIndices(np.stack(held), np.shape(indices), depth, bits) for held in layers
    )
    return p0, p1, p2
