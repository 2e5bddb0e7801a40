"""What functions of values on a grid have in common: all but their tables.

Steps
    1. The cell of every element is a sum modulo V of what P1 and what P0 and P2 know
       (``blocks.grid``). What they are left with of their summands inside a cell makes
       the factors that P1 knows and the tables that P0 and P2 know.
    2. The tables' entries at the cell, times the factors, are a sum of what is known to
       P0 and P2 and of what is known to P1 (``blocks.table_product``), over a ring that
       just holds the result.
    3. ``convert`` (``recast``) goes on to the type of the result.
    4. If it is checked, one column of the one-hot words says that no x in the range has
       the cell, and cells far beyond the grid are looked at: P0 and P2 note both
       (``blocks.range_check``).

Which tables and factors, what that costs and why it reveals nothing stands with each of
the functions.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import (
    FAR_CELLS,
    MOST_FAR_WORDS,
    P1,
    Grid,
    Rounds,
    Sums,
    cell_index,
    choose,
    far_flags,
    grid_summand,
    note_flags,
    selected_bits,
    table_product,
    table_product_widths,
    together,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Pair,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    shares_in_parts,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
    convert_rounds,
    convert_widths,
    lifted,
    recast_for_free,
    unseen,
)
from ditto.sharing import Shared

MOST_BITS = 32
Integers = npt.NDArray[np.integer]


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
    factors: ClassVar[int]
    """Numbers that P1 multiplies entries with."""

    @property
    @abstractmethod
    def product(self) -> FxpType:
        """The type of the result before ``convert``: as few bits as hold it."""

    @property
    @abstractmethod
    def error(self) -> float:
        """How far a result may be off, in units of its last place."""

    @abstractmethod
    def of_p1(self, rest: Words) -> Integers:
        """The factors that P1 brings, of what it is left with: (factors, N)."""

    @abstractmethod
    def sums(self, words: Words, rest: Words) -> Sums:
        """Of the tables of P0 or P2, by what it is left with, where its words
        (N, words) have ones."""

    @property
    def sent(self) -> list[int]:
        """Widths of the fields of an element, but for cells and ``convert``."""
        ring, dropped = self.product.ring, self.conversion.unseen
        return table_product_widths(self.factors, ring, dropped)

    @property
    def conversion(self) -> Conversion:
        """The last step."""
        return Conversion(self.product, self.target)

    def steps(self, role: Role, x: Pair, rounds: Rounds, checked: bool) -> PairSteps:
        """The protocol, of flat shares: two rounds and those of ``convert``."""
        grid, conversion = self.grid, self.conversion
        ring = self.product.ring
        summand = grid_summand(role, x, grid)
        place = cell_index(summand, grid.cut, grid.levels)
        rest = cell_index(summand, 0, 1 << grid.cut)
        if role.rank == P1:
            known = ring.reduce(self.of_p1(rest))
        else:
            known = np.empty((self.factors, rest.size), ring.dtype)
        blocks: list[Steps[Any]] = [choose(role, place, grid.levels, known, ring)]
        if checked:
            blocks.append(far_flags(role, x, grid, self.far_words))
        chosen, *far = yield from together(*blocks)
        sums = None
        if role.rank != P1:
            sums = self.sums(chosen.words, rest)
            if checked:
                beyond = selected_bits(chosen.words, [grid.outside])
                note_flags(role, np.concatenate([beyond, *far]))
        total = yield from table_product(
            role, chosen, sums, ring, dropped=conversion.unseen
        )
        if role.rank != P1:
            total = ring.reduce(total + ring.scalar(conversion.bias))
        return (yield from convert(role, total, conversion, rounds, False))

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
