"""Replicated arithmetic shares: x = x0 + x1 + x2, and P_i holds (x_i, x_{i+1})."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from ditto.errors import FixedPointTypeError, MessageError, ShareConsistencyError
from ditto.fixedpoint import Array, FxpType, Ring, Words
from ditto.sharing.packing import Bytes
from ditto.sharing.prf import Stream

Index = int | slice | EllipsisType | None
"""Of one axis."""


@dataclass(frozen=True, eq=False)
class Shared:
    """What one party holds of a secret tensor: two of its three additive shares.

    ``first`` is x_i and ``second`` is x_{i+1} for the party of rank i. Either alone,
    and both together, are uniform and independent of the secret.
    """

    first: Words
    second: Words
    type: FxpType

    def __post_init__(self) -> None:
        if self.first.shape != self.second.shape:
            raise ShareConsistencyError(
                f"The two shares of a tensor have one shape, got {self.first.shape} "
                f"and {self.second.shape}."
            )
        for share in (self.first, self.second):
            if share.dtype != self.ring.dtype:
                raise FixedPointTypeError(
                    f"Shares of {self.type} are {self.ring.dtype}, got {share.dtype}."
                )

    @property
    def ring(self) -> Ring:
        """The ring the shares live in."""
        return self.type.ring

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the secret tensor."""
        return self.first.shape

    @property
    def size(self) -> int:
        """The number of elements of the secret tensor."""
        return self.first.size

    @property
    def flat(self) -> tuple[Words, Words]:
        """Both shares, as vectors."""
        return self.first.reshape(-1), self.second.reshape(-1)

    def map(self, function: Callable[[Words], Words]) -> "Shared":
        """Apply a linear function (reshape, transpose, slice, sum) to both shares."""
        reduce = self.ring.reduce
        return Shared(
            reduce(function(self.first)), reduce(function(self.second)), self.type
        )

    def reshape(self, *shape: int) -> "Shared":
        """The same tensor in another shape."""
        return self.map(lambda share: share.reshape(shape))

    def transpose(self, *axes: int) -> "Shared":
        """The same tensor with its axes in another order."""
        return self.map(lambda share: share.transpose(axes or None))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "Shared":
        return self.map(lambda share: np.asarray(share[index]))

    def scaled(self, power: int) -> "Shared":
        """Times 2^power, for free: the type changes, the integers do not."""
        return Shared(self.first, self.second, self.type.rescaled(power))


def deal(integers: Words, type: FxpType) -> tuple[Shared, Shared, Shared]:  # noqa: A002
    """What an outsider who knows a tensor sends to P0, P1 and P2."""
    ring = type.ring
    masks = Stream.private().open(0)
    flat = integers.astype(ring.dtype, copy=False).reshape(-1)
    x0 = masks.draw("x0", flat.size, ring)
    x1 = masks.draw("x1", flat.size, ring)
    x2 = ring.reduce(flat - x0 - x1)
    a, b, c = (share.reshape(integers.shape) for share in (x0, x1, x2))
    return Shared(a, b, type), Shared(b, c, type), Shared(c, a, type)


def combine(shares: Sequence[Shared]) -> Words:
    """The secret integers, from what P0, P1 and P2 hold; checks that they agree."""
    if len(shares) != 3:
        raise ShareConsistencyError(f"Three parties hold shares, got {len(shares)}.")
    if len({share.type for share in shares}) != 1:
        raise ShareConsistencyError(
            f"The parties disagree on the type: {[str(s.type) for s in shares]}."
        )
    for i in range(3):
        if not np.array_equal(shares[i].second, shares[(i + 1) % 3].first):
            raise ShareConsistencyError(
                f"P{i} and P{(i + 1) % 3} disagree on share {(i + 1) % 3}."
            )
    p0, p1, _ = shares
    total = p0.first.reshape(-1) + p0.second.reshape(-1) + p1.second.reshape(-1)
    return p0.ring.reduce(total).reshape(p0.shape)


@dataclass(frozen=True, eq=False)
class Revealed:
    """What one party sends to a client of a tensor.

    ``summand`` is one of three that add up to the tensor, and ``hash_of_next`` the
    SHA-256 of the summand that the next party sends, which this one knows as well.
    """

    summand: Words
    hash_of_next: Bytes

    @classmethod
    def of(cls, summand: Words, next_summand: Words) -> "Revealed":
        """What the party sends that knows these two."""
        return cls(summand, _sha256(next_summand))

    def to_arrays(self, name: str) -> dict[str, Array]:
        """As arrays of a reply."""
        return {name: self.summand, f"{name}.next": self.hash_of_next}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], name: str) -> "Revealed":
        """The inverse of ``to_arrays``, at the client."""
        try:
            return cls(arrays[name], arrays[f"{name}.next"])
        except KeyError:
            raise MessageError(f"A party sent nothing of output {name}.") from None


def add_summands(revealed: Sequence[Revealed], type: FxpType) -> Words:  # noqa: A002
    """The secret integers, from what three parties send to a client.

    Each summand comes from one party and its hash from another: raises MessageError if
    they differ.
    """
    summands = [part.summand for part in revealed]
    forms = {(summand.shape, summand.dtype.name) for summand in summands}
    if len(summands) != 3 or len({shape for shape, _ in forms}) != 1:
        raise ShareConsistencyError(
            f"The client needs three summands of one shape, got {len(summands)} of "
            f"shapes {sorted({shape for shape, _ in forms})}."
        )
    if {dtype for _, dtype in forms} != {type.ring.dtype.name}:
        raise MessageError(
            f"Summands of {type} are {type.ring.dtype}, got "
            f"{sorted({dtype for _, dtype in forms})}."
        )
    for i in range(3):
        j = (i + 1) % 3
        if not np.array_equal(revealed[i].hash_of_next, _sha256(summands[j])):
            raise MessageError(
                f"P{i} and P{j} disagree on a share of the answer, so it is not to be "
                f"trusted. One of them failed, or they ran different plans; ask again."
            )
    a, b, c = (summand.reshape(-1) for summand in summands)
    return type.ring.reduce(a + b + c).reshape(summands[0].shape)


def _sha256(words: Words) -> Bytes:
    digest = hashlib.sha256(np.ascontiguousarray(words).tobytes()).digest()
    return np.frombuffer(digest, np.uint8)
