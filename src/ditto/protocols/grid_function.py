"""What functions of values on a grid have in common: their task, and their cost.

Such a function finds the cell of every element (``blocks.grid``), computes over a ring
that just holds the result, and ends in ``convert`` (``recast``). How it computes, what
that costs and why it reveals nothing stands with each of them.
"""

import math
from abc import ABC, abstractmethod

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.protocols.blocks import FAR_CELLS, MOST_FAR_WORDS, Grid, Rounds
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Pair,
    PairSteps,
    Party,
    Role,
    Task,
    shares_in_parts,
)
from ditto.protocols.recast import (
    Conversion,
    convert_rounds,
    convert_widths,
    lifted,
    recast_for_free,
    unseen,
)
from ditto.sharing import Shared

MOST_BITS = 32


def bits_of(largest: float, cut: int) -> int:
    """Of the smallest ring that holds integers up to ``largest``, before ``convert``
    cuts bits of which the last ones are not sent."""
    return max(3, math.frexp(largest + (1 << unseen(cut)))[1] + 2)


class GridFunction(ABC):
    """A function of integers on ``grid``, with results in ``target``.

    If it is checked, ``far_words`` say how far beyond the grid.
    """

    grid: Grid
    target: FxpType
    far_words: int

    @property
    @abstractmethod
    def product(self) -> FxpType:
        """The type of the result before ``convert``: as few bits as hold it."""

    @property
    @abstractmethod
    def error(self) -> float:
        """How far a result may be off, in units of its last place."""

    @property
    @abstractmethod
    def sent(self) -> list[int]:
        """Widths of the fields of an element, but for cells and ``convert``."""

    @abstractmethod
    def steps(self, role: Role, x: Pair, rounds: Rounds, checked: bool) -> PairSteps:
        """The protocol, of flat shares: two rounds and those of ``convert``."""

    @property
    def conversion(self) -> Conversion:
        """The last step."""
        return Conversion(self.product, self.target)

    def check_types(self, name: str) -> None:
        """Refuse types and far words that no function on a grid has."""
        source = self.grid.type
        if source.bits > MOST_BITS or self.target.bits > MOST_BITS:
            raise FixedPointTypeError(
                f"There is no {name} from {source} to {self.target}."
            )
        if not 0 <= self.far_words <= MOST_FAR_WORDS:
            raise FixedPointTypeError(
                f"There are at most {MOST_FAR_WORDS} words of cells beyond a grid, got "
                f"{self.far_words}."
            )

    def task(
        self, x: Shared, rounds: Rounds = 2, *, checked: bool = False
    ) -> Task[Shared]:
        """The function of every element of x, as a task.

        x may have more fraction bits than the grid: the shares are shifted where they
        are (``recast``).
        """
        x = recast_for_free(x, self.grid.type)
        conversion = self.conversion
        return shares_in_parts(
            x.flat,
            lambda role, pair: self.steps(role, pair, rounds, checked),
            lambda pair: lifted(*pair, conversion, x.shape),
        )

    def cost(self, count: int, rounds: Rounds = 2, *, checked: bool = False) -> Cost:
        """Of ``count`` values."""
        grid, conversion = self.grid, self.conversion
        far = [FAR_CELLS for _ in grid.far_cells(self.far_words) if checked]
        words = [grid.word.bits] * grid.words
        last = convert_widths(conversion, rounds, False)
        widths = [*words, *far, *self.sent, *last]
        return Cost.of(count, widths, 2 + convert_rounds(conversion, rounds))


def compute_on_grid(
    party: Party,
    x: Shared,
    function: GridFunction,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The function of every element of x."""
    return party.run_task(function.task(x, rounds, checked=checked))
