"""exponential: e^x of many values, as a softmax wants it.

A sum of two numbers is a product of two exponentials, and each number is known to
somebody: P1 takes the exponential of its summand, P0 and P2 of theirs. What a sum
modulo a power of two makes of that is put right by a table of a few cells.

Notation: x has type (l, f) and low <= x < high as integers; cells are 2^t wide and
there are V = 2^b of them, of which the last n = 4 that x may lie in are live: below
them e^x counts as 0. The result has type (l', f'). It is computed over Z_2^w, where e^x
with frac g + h just fits: what P0 and P2 bring has frac g, what P1 brings frac h.

Steps
    0. The cell c of x is a sum modulo V of what P1 and what P0 and P2 know
       (``blocks.grid``), and so is x itself of that and of what is left of both
       summands: x = base + (c - 1) 2^t + u + v, with 0 <= u < 2^t at P1 and
       0 <= v < 2^t at P0 and P2. Nothing is lost: u + v may reach into the next cell.
    1. P0 and P2 get XOR shares of 1 << c (``blocks.one_hot``), so of the bits z_k that
       say whether c is live cell k: one of them is set, or none. In the same message P1
       deals random bits rho_k as masks of P0 and P1 and of P1 and P2, and over Z_2^w
       the n + 1 numbers e^u and rho_k e^u: P0 draws masks of P0 and P1 as its summands,
       P2 is sent the differences.
    2. P0 sends its z_k ^ rho_k to P2, P2 sends its to P0. Both know delta_k = z_k ^
       rho_k now and take rho_k e^u if it is 0, e^u - rho_k e^u if it is 1: z_k is rho_k
       there, or 1 - rho_k, so they hold summands of z_k e^u. Each they multiply by the
       exponential of the start of cell k and of v, and add up.
    3. They share it with P1 (``blocks.two_to_three``), but for the last d of the bits
       that ``convert`` cuts, which goes on to the type of the result (``recast``).
    4. If it is checked, one more column of the table says that no x in the range has
       the cell, and cells far beyond the grid are looked at (``blocks.grid``): P0 and
       P2 note both (``blocks.range_check``).

Cost
    per element V bits, and 16 for each far word if it is checked; 5w + 8; 2(w - d),
    d = g + h - f' - 2, and ``convert`` from w bits, k = g + h - f' + l' - w.
    3 rounds and those of ``convert``.

Security (semi-honest, one corrupted party)
    Step 1: P2 sees five numbers, each hidden by a mask of its own of P0 and P1, and the
    message of ``one_hot``. Step 2: P0 sees four bits, hidden by masks of P1 and P2; P2
    sees four bits, hidden by masks of P0 and P1 that hide nothing else it sees. So all
    delta_k are uniform. The messages of step 3 are those of blocks. Every message
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
from ditto.protocols.grid_function import MOST_BITS, GridFunction
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Role,
    Steps,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
)
from ditto.sharing import Rank

LIVE = 4
"""Cells in which e^x is not 0."""
_ENTRIES = LIVE + 1
"""What P1 deals: e^u, and that times every random bit."""
_MOST_CUT = 16
"""Both sides look exponentials up in tables of 2^t entries."""
_BITS = Ring(LIVE)


@dataclass(frozen=True)
class Exponential(GridFunction):
    """e^x for integers x on a grid, with results in ``target``."""

    grid: Grid
    target: FxpType
    table_frac: int
    """g: of what P0 and P2 bring, a table with a row for each live cell."""
    factor_frac: int
    """h: of what P1 brings."""
    far_words: int = 1

    def __post_init__(self) -> None:
        self.check_types("exponential")
        if self.grid.cut > _MOST_CUT:
            raise FixedPointTypeError(
                f"A cell of an exponential has at most 2^{_MOST_CUT} values, got "
                f"2^{self.grid.cut}."
            )
        if min(self.table_frac, self.factor_frac) < 0 or self._bits > MOST_BITS:
            raise FixedPointTypeError(
                f"An exponential up to {self._largest:.3g} with fracs "
                f"{self.table_frac} and {self.factor_frac} takes {self._bits} bits; "
                f"there are {MOST_BITS}."
            )
        Conversion(self.product, self.target)

    @property
    def sent(self) -> list[int]:
        """What P1 deals, delta, and what P1 is sent."""
        ring = self.product.bits
        to_p1 = ring - self.conversion.unseen
        return [*[ring] * _ENTRIES, LIVE, LIVE, to_p1, to_p1]

    def steps(self, role: Role, x: Pair, rounds: Rounds, checked: bool) -> PairSteps:
        """See the module's text."""
        return _steps(role, x, self, rounds, checked)

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
        before = (self.rounding + math.exp(self.ends[0])) / self.target.ulp
        return before + 1 + self.conversion.blur


@dataclass(frozen=True)
class _Dealt:
    """What P0 or P2 holds of what P1 dealt."""

    rho: Words
    """Its part of the random bits, one word of them for an element."""
    factor: Words
    """Its summand of e^u."""
    products: list[Words]
    """Its summands of that times every random bit."""


def _steps(
    role: Role, x: Pair, function: Exponential, rounds: Rounds, checked: bool
) -> PairSteps:
    grid, ring, count = function.grid, function.product.ring, x[0].size
    above_base = (1 << grid.cut) - grid.base
    summand = two_party_summand(role, x, grid.type.ring, above_base)
    cell = cell_index(summand, grid.cut, grid.levels)
    rest = cell_index(summand, 0, 1 << grid.cut)
    live, dealt = yield from _deal(role, x, cell, rest, function, checked)
    delta = yield from _open_bits(role, live, dealt)
    value = None
    if dealt is not None:
        value = ring.reduce(_weighted(dealt, delta, _starts(function)[:, rest]))
    conversion = function.conversion
    pair = yield from two_to_three(
        role, value, count, Group(ring), dropped=conversion.unseen
    )
    total = two_party_summand(role, pair, ring, conversion.bias)
    return (yield from convert(role, total, conversion, rounds, False))


def _deal(
    role: Role,
    x: Pair,
    cell: Words,
    rest: Words,
    function: Exponential,
    checked: bool,
) -> Steps[tuple[Words | None, _Dealt | None]]:
    """Steps 1 and 4: shares of the bits z, and what P1 deals, at P0 and P2."""
    grid = function.grid
    blocks: list[Steps[Any]] = [
        shared_one_hot(role, cell, grid.levels, "levels"),
        _deal_factors(role, rest, function),
    ]
    if checked:
        blocks.append(far_flags(role, x, grid, function.far_words))
    words, dealt, *far = yield from together(*blocks)
    if role.rank == P1:
        return None, None
    live = [1 << level for level in function.live]
    outside = sum(1 << v for v in range(grid.levels) if v not in grid.legal)
    found = selected_bits(words, [*live, outside] if checked else live)
    if checked:
        top = (found >> found.dtype.type(LIVE)).astype(np.uint8)
        note_flags(role, np.concatenate([top, *far]))
    return _BITS.reduce(found), dealt


def _deal_factors(
    role: Role, rest: Words, function: Exponential
) -> Steps[_Dealt | None]:
    count, ring = rest.size, function.product.ring
    if role.rank == P2:
        inbox = yield Exchange(receive={P1: [Expected(count, ring.bits)] * _ENTRIES})
        factor, *products = inbox[P1]
        return _Dealt(_random_bits(role, P1, count), factor, products)
    other = P1 if role.rank == P0 else P0
    masks = [
        role.masks_with(other).draw(f"entry {k}", count, ring) for k in range(_ENTRIES)
    ]
    if role.rank == P0:
        yield Exchange()
        return _Dealt(_random_bits(role, P1, count), masks[0], masks[1:])
    rho = _random_bits(role, P0, count) ^ _random_bits(role, P2, count)
    factor = _factors(function)[rest]
    entries = [factor, *(factor * bit for bit in _each_bit(rho, ring))]
    fields = [
        Field(ring.reduce(entry - mask), ring.bits)
        for entry, mask in zip(entries, masks, strict=True)
    ]
    yield Exchange(send={P2: fields})
    return None


def _open_bits(role: Role, bits: Words | None, dealt: _Dealt | None) -> Steps[Words]:
    """Step 2: all delta at P0 and P2."""
    if bits is None or dealt is None:
        yield Exchange()
        return np.zeros(0, _BITS.dtype)
    hidden = bits ^ dealt.rho
    other = P2 if role.rank == P0 else P0
    inbox = yield Exchange(
        send={other: [Field(hidden, LIVE)]},
        receive={other: [Expected(hidden.size, LIVE)]},
    )
    return np.asarray(hidden ^ inbox[other][0])


def _random_bits(role: Role, other: Rank, count: int) -> Words:
    return role.masks_with(other).draw("live", count, _BITS)


def _each_bit(words: Words, ring: Ring) -> list[Words]:
    one = words.dtype.type(1)
    return [
        (words >> words.dtype.type(k) & one).astype(ring.dtype) for k in range(LIVE)
    ]


def _weighted(dealt: _Dealt, delta: Words, starts: Words) -> Words:
    """The sum of all z_k e^u, each times what P0 and P2 bring for its cell."""
    total: Words = np.zeros_like(dealt.factor)
    bits = _each_bit(delta, Ring(8 * total.dtype.itemsize))
    for product, bit, start in zip(dealt.products, bits, starts, strict=True):
        chosen = np.where(bit, dealt.factor - product, product)
        total += chosen * start
    return total


@lru_cache(maxsize=64)
def _starts(function: Exponential) -> Words:
    """Of a live cell's start and of what is left at P0 and P2: (4, 2^t)."""
    grid, ring = function.grid, function.product.ring
    start = [grid.base + (c - 1 << grid.cut) for c in function.live]
    x = (np.array(start)[:, None] + np.arange(1 << grid.cut)) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.table_frac)).astype("u8"))


@lru_cache(maxsize=64)
def _factors(function: Exponential) -> Words:
    """The exponential of what is left at P1: 2^t."""
    grid, ring = function.grid, function.product.ring
    x = np.arange(1 << grid.cut) * grid.type.ulp
    return ring.reduce(np.rint(np.ldexp(np.exp(x), function.factor_frac)).astype("u8"))
