"""Numbers: fixed-point types, rings, encoding and decoding."""

from ditto.fixedpoint.fxp import FxpType, decode, encode
from ditto.fixedpoint.ring import RINGS, Array, Ring, Words

__all__ = ["RINGS", "Array", "FxpType", "Ring", "Words", "decode", "encode"]
