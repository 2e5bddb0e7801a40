"""The three compute parties."""

from enum import IntEnum


class Rank(IntEnum):
    """A party's place on the ring P0 -> P1 -> P2 -> P0."""

    P0 = 0
    P1 = 1
    P2 = 2

    @property
    def next(self) -> "Rank":
        """The party that holds this one's second share as its first."""
        return RANKS[(self + 1) % 3]

    @property
    def previous(self) -> "Rank":
        """The party that holds this one's first share as its second."""
        return RANKS[(self + 2) % 3]

    def rotated(self, turns: int) -> "Rank":
        """The party ``turns`` places further on."""
        return RANKS[(self + turns) % 3]


RANKS = (Rank.P0, Rank.P1, Rank.P2)
