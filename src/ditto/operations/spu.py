"""SPU's own fixed point: its fraction bits in each ring."""

from typing import Literal

from ditto.fixedpoint import FxpType

RingBits = Literal[32, 64]

FXP_FRAC: dict[RingBits, int] = {32: 8, 64: 18}
"""The fraction bits of SPU's own fixed point in each ring."""
HIGH = FxpType(bits=64, frac=FXP_FRAC[64])
"""SPU's own fixed point in the high ring."""
LOW_FIXED = FxpType(bits=32, frac=FXP_FRAC[32])
"""SPU's own fixed point in the low ring, which the paper's way uses."""


def spu_frac(bits: int) -> int:
    """The fraction bits of SPU's own fixed point in a ring."""
    return FXP_FRAC[64 if bits == 64 else 32]
