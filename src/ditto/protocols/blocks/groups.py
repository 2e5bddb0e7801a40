"""How shares add up: as integers modulo a power of two, or as words of bits by XOR.

A uniform element of a group hides any other element that is added to it. That is all
the blocks need, so those that only add and subtract serve both.
"""

from dataclasses import dataclass

from ditto.fixedpoint import Ring, Words


@dataclass(frozen=True)
class Group:
    """Elements of ``ring``: added modulo 2^bits, or bit by bit if ``xor``."""

    ring: Ring
    xor: bool = False

    def add(self, x: Words, y: Words) -> Words:
        """x + y."""
        return x ^ y if self.xor else self.ring.reduce(x + y)

    def subtract(self, x: Words, y: Words) -> Words:
        """x - y."""
        return x ^ y if self.xor else self.ring.reduce(x - y)
