"""exponential: e^x of many values, as a softmax wants it.

A sum of two numbers is a product of two exponentials, and each number is known to
somebody: P1 takes the exponential of its summand, P0 and P2 of theirs. What a sum
modulo a power of two makes of that is put right by a table of a few cells.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them, of which the last four that x may lie in are live: below
them e^x counts as 0. The result has type (l', f'). It is computed over Z_2^w, where e^x
with frac g + h just fits: what P1 brings has frac g, what P0 and P2 bring frac h.

Steps
    0. The cell c of x is a sum modulo V of what P1 and what P0 and P2 know
       (``blocks.grid``), and so is x itself of that and of what is left of both
       summands: x = base + (c - 1) 2^t + u + v, with 0 <= u < 2^t at P1 and
       0 <= v < 2^t at P0 and P2. Nothing is lost: u + v may reach into the next cell.
    1. P0 and P2 get XOR shares of 1 << c (``blocks.one_hot``), so of the bit z that
       says whether c is live. In the same message P1 deals a random bit rho as
       rho0 ^ rho2, masks of P0 and P1 and of P1 and P2, and two tables of four entries
       over Z_2^w: for every j modulo 4 it knows which live cell c would be if the
       summand of P0 and P2 were j modulo 4, and q_j, the exponential of that cell's
       start and of u. The first table is rho q_j, the second (1 - rho) q_j. P0 draws
       masks of P0 and P1 as its summands, P2 is sent the differences.
    2. P0 sends z0 ^ rho0 to P2, P2 sends z2 ^ rho2 to P0. Both know delta = z ^ rho now
       and take entry j of the first table if delta = 0, of the second if delta = 1: z
       is rho there, or 1 - rho, so they hold summands of z q_j. Both multiply by the
       exponential of v.
    3. They share it with P1 (``blocks.two_to_three``), and ``convert`` goes on to the
       type of the result (``recast``).
    4. If it is checked, one more column of the table says that no x in the range has
       the cell, and cells far beyond the grid are looked at (``blocks.grid``): P0 and
       P2 note both (``blocks.range_check``).

Cost
    per element V bits, and 16 for each far word if it is checked; 8w + 2; 2w, and
    ``convert`` from w bits: l' + 3k or l' + 4k, k = g + h - f' + l' - w.
    3 rounds and those of ``convert``.

Security (semi-honest, one corrupted party)
    Step 1: P2 sees eight numbers, each hidden by a mask of its own of P0 and P1, and
    the message of ``one_hot``. Step 2: P0 sees z2 ^ rho2, hidden by a mask of P1 and
    P2; P2 sees z0 ^ rho0, hidden by a mask of P0 and P1 that hides nothing else it
    sees. So delta is uniform. The messages of step 3 are those of blocks. Every message
    is uniform and independent of all else its receiver knows. The exponentials are
    taken of what a party holds, and their tables are public; nothing depends on whether
    x is in its range: beyond it the result is wrong, and noted if it is checked.

Source
    docs/explanation/protocols.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    FAR_CELLS,
    MOST_FAR_WORDS,
    P0,
    P1,
    P2,
    Grid,
    Group,
    Rounds,
    cell_index,
    far_flags,
    note_flags,
    selected_bits,
    shared_one_hot,
    together,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairInstance,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    in_parts,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
    convert_rounds,
    convert_widths,
    lifted,
)
from ditto.sharing import Rank, Shared

LIVE = 4
"""Cells in which e^x is not 0; a power of two."""
_ENTRIES = 2 * LIVE
_MOST_BITS = 32
_MOST_CUT = 16
"""Both sides look exponentials up in tables of 2^t entries."""
_BIT = Ring(1)


@dataclass(frozen=True)
class Exponential:
    """e^x for integers x on a grid, with results in ``target``.

    If it is checked, ``far_words`` say how far beyond the grid.
    """

    grid: Grid
    target: FxpType
    table_frac: int
    """g: of what P1 brings."""
    factor_frac: int
    """h: of what P0 and P2 bring."""
    far_words: int = 1

    def __post_init__(self) -> None:
        source = self.grid.type
        if source.bits > _MOST_BITS or self.target.bits > _MOST_BITS:
            raise FixedPointTypeError(
                f"There is no exponential from {source} to {self.target}."
            )
        if self.grid.cut > _MOST_CUT:
            raise FixedPointTypeError(
                f"A cell of an exponential has at most 2^{_MOST_CUT} values, got "
                f"2^{self.grid.cut}."
            )
        if not 0 <= self.far_words <= MOST_FAR_WORDS:
            raise FixedPointTypeError(
                f"There are at most {MOST_FAR_WORDS} words of cells beyond a grid, got "
                f"{self.far_words}."
            )
        if min(self.table_frac, self.factor_frac) < 0 or self._bits > _MOST_BITS:
            raise FixedPointTypeError(
                f"An exponential up to {self._largest:.3g} with fracs "
                f"{self.table_frac} and {self.factor_frac} takes {self._bits} bits; "
                f"there are {_MOST_BITS}."
            )
        Conversion(self.product, self.target)

    @property
    def _largest(self) -> float:
        """A bound of the results, rounded as they are."""
        exact = math.exp(self.grid.high * self.grid.type.ulp)
        return exact + self.rounding

    @property
    def _bits(self) -> int:
        frac = self.table_frac + self.factor_frac
        return max(3, math.frexp(math.ldexp(self._largest, frac))[1] + 2)

    @property
    def product(self) -> FxpType:
        """The type of e^x before ``convert``: the smallest ring that holds it."""
        return FxpType(self._bits, self.table_frac + self.factor_frac)

    @property
    def live(self) -> range:
        """The levels in which e^x is not 0."""
        last = self.grid.legal.stop
        return range(last - LIVE, last)

    @property
    def ends(self) -> tuple[float, float]:
        """From here on e^x is computed; below this it is 0; between it may be either.

        As real numbers.
        """
        grid = self.grid
        start = grid.base + (self.live.start << grid.cut)
        return start * grid.type.ulp, (start - (1 << grid.cut)) * grid.type.ulp

    @property
    def rounding(self) -> float:
        """How far tables of rounded numbers may be off, without ``convert``."""
        grid = self.grid
        widest = math.exp(math.ldexp(grid.type.ulp, grid.cut))
        of_table = math.ldexp(widest, -self.table_frac - 1)
        largest = math.exp(grid.high * grid.type.ulp)
        of_factor = math.ldexp(largest, -self.factor_frac - 1)
        return of_table * (1 + 2.0**-self.factor_frac) + of_factor

    @property
    def error(self) -> float:
        """How far a result may be off, in units of its last place."""
        return (self.rounding + math.exp(self.ends[0])) / self.target.ulp + 1


def exponential(
    party: Party,
    x: Shared,
    function: Exponential,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """e^x for every element of x. See the module's text."""
    return party.run_task(exponential_task(x, function, rounds, checked=checked))


def exponential_task(
    x: Shared, function: Exponential, rounds: Rounds = 2, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``exponential``."""
    first, second = x.first.reshape(-1), x.second.reshape(-1)

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            pair = first[part], second[part]
            return _steps(role, pair, function, rounds, checked)

        return instance

    conversion = Conversion(function.product, function.target)
    return in_parts(x.size, instance_of, lambda p: lifted(*p, conversion, x.shape))


def exponential_cost(
    count: int, function: Exponential, rounds: Rounds = 2, *, checked: bool = False
) -> Cost:
    """Of ``count`` values."""
    grid, ring = function.grid, function.product.bits
    conversion = Conversion(function.product, function.target)
    far = [FAR_CELLS for _ in grid.far_cells(function.far_words) if checked]
    words = [grid.word.bits] * grid.words
    sent = [*words, *far, *[ring] * _ENTRIES, 1, 1, ring, ring]
    widths = [*sent, *convert_widths(conversion, rounds, False)]
    return Cost.of(count, widths, 3 + convert_rounds(conversion, rounds))


@dataclass(frozen=True)
class _Dealt:
    """What P0 or P2 holds of what P1 dealt."""

    rho: Words
    """Its part of a random bit."""
    tables: list[Words]
    """Its summands of all entries."""


def _steps(
    role: Role, x: Pair, function: Exponential, rounds: Rounds, checked: bool
) -> PairSteps:
    grid, ring, count = function.grid, function.product.ring, x[0].size
    above_base = (1 << grid.cut) - grid.base
    summand = two_party_summand(role, x, grid.type.ring, above_base)
    cell = cell_index(summand, grid.cut, grid.levels)
    rest = cell_index(summand, 0, 1 << grid.cut)
    live, dealt = yield from _deal(role, x, cell, rest, function, checked)
    delta = yield from _open_bit(role, live, dealt)
    value = None
    if dealt is not None:
        entry = _chosen(dealt.tables, delta, cell)
        value = ring.reduce(entry * _factors(function)[rest])
    pair = yield from two_to_three(role, value, count, Group(ring))
    conversion = Conversion(function.product, function.target)
    if role.rank == P1:
        total = ring.reduce(pair[0] + pair[1])
    else:
        masks = pair[0] if role.rank == P0 else pair[1]
        total = ring.reduce(masks + ring.scalar(conversion.bias))
    return (yield from convert(role, total, conversion, rounds, False))


def _deal(
    role: Role,
    x: Pair,
    cell: Words,
    rest: Words,
    function: Exponential,
    checked: bool,
) -> Steps[tuple[Words | None, _Dealt | None]]:
    """Steps 1 and 4: shares of the bit z, and what P1 deals, at P0 and P2."""
    grid = function.grid
    blocks: list[Steps[Any]] = [
        shared_one_hot(role, cell, grid.levels, "levels"),
        _deal_tables(role, cell, rest, function),
    ]
    if checked:
        blocks.append(far_flags(role, x, grid, function.far_words))
    words, dealt, *far = yield from together(*blocks)
    if role.rank == P1:
        return None, None
    live = sum(1 << level for level in function.live)
    outside = sum(1 << v for v in range(grid.levels) if v not in grid.legal)
    found = selected_bits(words, [live, outside] if checked else [live])
    one = found.dtype.type(1)
    if checked:
        note_flags(role, np.concatenate([(found >> one).astype(np.uint8), *far]))
    return found & one, dealt


def _deal_tables(
    role: Role, cell: Words, rest: Words, function: Exponential
) -> Steps[_Dealt | None]:
    count, ring = cell.size, function.product.ring
    if role.rank == P2:
        inbox = yield Exchange(receive={P1: [Expected(count, ring.bits)] * _ENTRIES})
        return _Dealt(_random_bit(role, P1, count), inbox[P1])
    other = P1 if role.rank == P0 else P0
    masks = [
        role.masks_with(other).draw(f"entry {k}", count, ring) for k in range(_ENTRIES)
    ]
    if role.rank == P0:
        yield Exchange()
        return _Dealt(_random_bit(role, P1, count), masks)
    rho = _random_bit(role, P0, count) ^ _random_bit(role, P2, count)
    entries = _products(cell, rest, function)
    zero = ring.scalar(0)
    tables = [np.where(rho == bit, q, zero) for bit in (1, 0) for q in entries]
    fields = [
        Field(ring.reduce(entry - mask), ring.bits)
        for entry, mask in zip(tables, masks, strict=True)
    ]
    yield Exchange(send={P2: fields})
    return None


def _open_bit(role: Role, bit: Words | None, dealt: _Dealt | None) -> Steps[Words]:
    """Step 2: delta at P0 and P2."""
    if bit is None or dealt is None:
        yield Exchange()
        return np.zeros(0, _BIT.dtype)
    hidden = bit.astype(_BIT.dtype) ^ dealt.rho
    other = P2 if role.rank == P0 else P0
    inbox = yield Exchange(
        send={other: [Field(hidden, 1)]},
        receive={other: [Expected(hidden.size, 1)]},
    )
    return np.asarray(hidden ^ inbox[other][0])


def _random_bit(role: Role, other: Rank, count: int) -> Words:
    return role.masks_with(other).draw("live", count, _BIT)


def _products(cell: Words, rest: Words, function: Exponential) -> list[Words]:
    """q_j at P1, for every j modulo 4 that P0's and P2's summand may be."""
    table, first = _starts(function), function.live.start
    places = [(cell.astype(np.intp) + (j - first)) % LIVE for j in range(LIVE)]
    return [table[place, rest] for place in places]


def _chosen(tables: list[Words], delta: Words, cell: Words) -> Words:
    """Entry ``cell`` modulo 4 of the table that delta names."""
    which = delta.astype(np.intp) * LIVE + (cell & cell.dtype.type(LIVE - 1))
    return np.choose(which, tables)


@lru_cache(maxsize=64)
def _starts(function: Exponential) -> Words:
    """The exponential of a live cell's start and of what is left at P1: (4, 2^t)."""
    grid, ring = function.grid, function.product.ring
    start = [grid.base + (c - 1 << grid.cut) for c in function.live]
    x = (np.array(start)[:, None] + np.arange(1 << grid.cut)) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.table_frac)).astype("u8"))


@lru_cache(maxsize=64)
def _factors(function: Exponential) -> Words:
    """The exponential of what is left at P0 and P2: 2^t."""
    grid, ring = function.grid, function.product.ring
    x = np.arange(1 << grid.cut) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.factor_frac)).astype("u8"))
