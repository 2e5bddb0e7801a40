"""Fixed-point types, and the way in and out of them."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointRangeError, FixedPointTypeError
from ditto.fixedpoint.ring import RINGS, Ring, Words

MAX_FRAC = 64


@dataclass(frozen=True, order=True)
class FxpType:
    """An integer of Z_2^bits standing for integer / 2^frac.

    ``frac`` is a static property of a tensor. It may be negative (steps coarser than
    one) and may exceed what fits, as the frac of an untruncated product does: what
    bounds a tensor is ``limit``. It is checked where values enter; inside, where nobody
    sees values, a recast relies on it and calibration has to see to it.
    """

    bits: int
    frac: int

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 64:
            raise FixedPointTypeError(
                f"A fixed-point type has 2 to 64 bits, got bits={self.bits}."
            )
        if not -MAX_FRAC <= self.frac <= 2 * MAX_FRAC:
            raise FixedPointTypeError(
                f"frac must lie in [{-MAX_FRAC}, {2 * MAX_FRAC}], got {self.frac}."
            )

    @property
    def ring(self) -> Ring:
        """Where the integers live."""
        return RINGS[self.bits - 1]

    @property
    def limit(self) -> int:
        """The integers x of this type satisfy |x| < limit = 2^(bits-2).

        One bit is the sign. The other is what lets a recast compute the carry of two
        summands from their top bits alone.
        """
        return 1 << (self.bits - 2)

    @property
    def max_value(self) -> float:
        """The real bound that ``limit`` stands for."""
        return math.ldexp(1.0, self.bits - 2 - self.frac)

    @property
    def ulp(self) -> float:
        """The real value of one integer step."""
        return math.ldexp(1.0, -self.frac)

    def rescaled(self, power: int) -> "FxpType":
        """The type of the same integers after a multiplication by 2^power."""
        return FxpType(self.bits, self.frac - power)

    @classmethod
    def finest(cls, *, bits: int, bound: float) -> "FxpType":
        """The type of the largest frac that still holds every |value| <= bound."""
        if not (math.isfinite(bound) and bound >= 0):
            raise FixedPointRangeError(
                f"A bound must be finite and not negative, got {bound}."
            )
        if bound == 0:
            return cls(bits, bits - 2)
        exponent = math.frexp(bound)[1]  # bound < 2^exponent
        return cls(bits, max(-MAX_FRAC, min(bits - 2 - exponent, 2 * MAX_FRAC)))

    def __str__(self) -> str:
        return f"fxp{self.bits}.{self.frac}"


def encode(values: npt.ArrayLike, type: FxpType, *, name: str = "tensor") -> Words:  # noqa: A002
    """Real values as integers of ``type``, rounded to nearest.

    Raises FixedPointRangeError, naming the tensor, when a value is not finite or lies
    outside the type's limit, and FixedPointTypeError when the values are complex.
    """
    if np.iscomplexobj(values):
        raise FixedPointTypeError(
            f"{name!r} holds complex numbers; fixed point holds real ones. Give its "
            f"real and its imaginary part as two tensors."
        )
    real = np.asarray(values, dtype=np.float64)
    scaled = np.rint(np.ldexp(real, type.frac))
    largest = float(np.max(np.abs(scaled), initial=0.0))
    if not largest < type.limit:  # also catches NaN
        _refuse(real, type, name)
    return type.ring.reduce(scaled.astype(np.int64))


def decode(integers: Words, type: FxpType) -> npt.NDArray[np.float64]:  # noqa: A002
    """The real values that integers of ``type`` stand for."""
    signed = type.ring.signed(np.asarray(integers, dtype=type.ring.dtype))
    result: npt.NDArray[np.float64] = np.ldexp(signed.astype(np.float64), -type.frac)
    return result


def _refuse(real: npt.NDArray[np.float64], type: FxpType, name: str) -> None:  # noqa: A002
    broken = int(np.count_nonzero(~np.isfinite(real)))
    if broken:
        raise FixedPointRangeError(
            f"{name!r} has {broken} values that are not finite; "
            f"fixed point has no infinity and no NaN. Replace them before encoding "
            f"(an attention mask needs no more than -30)."
        )
    bound = float(np.max(np.abs(real)))
    fits = FxpType.finest(bits=type.bits, bound=bound)
    where = np.unravel_index(int(np.argmax(np.abs(real))), real.shape)
    raise FixedPointRangeError(
        f"{name!r} reaches {bound:.6g} at index {tuple(int(i) for i in where)}, but "
        f"{type} holds |value| < {type.max_value:.6g}. "
        f"Use frac {fits.frac} or less, or a wider ring."
    )
