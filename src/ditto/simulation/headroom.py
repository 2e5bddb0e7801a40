"""How close to the ends of their ranges the values of a simulated run came."""

import math
from dataclasses import dataclass, replace
from typing import Self

from ditto.errors import CapacityError
from ditto.plan import Tree


@dataclass(frozen=True)
class Headroom:
    """How far the values at one place stayed from the ends of its range."""

    step: int
    kind: str
    scope: str
    least: float
    most: float
    """The smallest and the largest value seen."""
    low: float
    high: float
    """What the place takes: low <= value < high."""
    pole: float | None = None
    """Where the function of a table is infinite; ranges are then ratios to it."""

    @property
    def bits(self) -> float:
        """Doublings that would still fit; not above 0 if it was left."""
        if self.least > self.most:
            return math.inf
        if self.pole is None and self.low < 0 < self.high:
            used = max(self.most / self.high, self.least / self.low)
        elif self.pole is None:
            middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
            used = max(self.most - middle, middle - self.least) / half
        elif self.least <= self.pole:
            return -math.inf
        else:
            used = max(
                (self.most - self.pole) / (self.high - self.pole),
                (self.low - self.pole) / (self.least - self.pole),
            )
        return -math.log2(used) if used > 0 else math.inf

    @property
    def left(self) -> bool:
        """Whether a value was outside."""
        return self.least < self.low or self.most >= self.high

    @property
    def reached(self) -> float:
        """The value that came closest to an end, or went furthest beyond."""
        ends = (replace(self, most=self.least), replace(self, least=self.most))
        return min(ends, key=lambda end: end.bits).least

    @property
    def tensor(self) -> str:
        """A name for people."""
        return f"{self.kind} (step {self.step})"

    def __str__(self) -> str:
        return (
            f"{self.tensor} in scope {self.scope or '(top)'!r} reaches "
            f"{self.reached:.6g} in a range of {self.low:.6g} to {self.high:.6g}"
        )


@dataclass(frozen=True)
class Simulated:
    """The result and how close to their bounds the values came."""

    result: Tree
    headroom: tuple[Headroom, ...]
    broken: bool
    """Whether a value that left its range reached an answer."""
    in_range: bool
    """Whether the parties note no value that left its range, if they look."""

    @property
    def tightest(self) -> Headroom:
        """The place that came closest to the end of its range."""
        return min(self.headroom, key=lambda h: h.bits)

    def check(self) -> Self:
        """Itself; raises CapacityError if its answer would be wrong on shares."""
        if not self.broken:
            return self
        first = next((h for h in self.headroom if h.left), None) or self.tightest
        raise CapacityError(
            f"{first}: on shares the result would be silently wrong. Calibrate with "
            f"inputs like this one, or raise the profile's margin."
        )
