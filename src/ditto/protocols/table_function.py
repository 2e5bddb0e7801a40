"""table_function: a smooth function of few values, from a table of parabolas.

The reciprocal of a row's sum and the inverse root of its variance are wanted for one
value per row, so bytes matter little and rounds much. The range of x is cut into cells,
and on each the function is a parabola. Which cell x lies in stays secret.

Notation: x has type (l, f) and low <= x < high as integers; a cell is 2^t wide; there
are V = 2^b cells; h = ceil(log2(V * l / 128)).

Steps
    0. a = x0 - low + 2^t at P0 and P2, s = x1 + x2 at P1. The cell is
       i = (a >> t) + (s >> t) mod V: that of x, or the one before. So the parabola of
       cell i is fitted on two cells, around their middle x_i = low + i * 2^t. What x
       lies off the middle is d = (a mod 2^t) + (s mod 2^t) - 2^t, without any carry;
       both summands leave out the bits that no parabola needs. They become replicated
       shares of d (``blocks.two_party``), in the messages of step 1.
    1. P1 splits s >> t mod V into the keys of a point function (``points``) for P0 and
       P2. The roots are masks it shares with each; the corrections go to both.
    2. P0 and P2 expand their keys to shares of the vector that is one at s >> t. Its
       product with the table, rotated by a >> t, is a share of row i of the table: the
       coefficients c0, c1, c2, and a bit for step 5. If it is checked, a last column
       says whether the cell is one that no x in the range has; the lowest bits of both
       shares of it are noted (``blocks.range_check``).
    3. The shares of the row at P0 and P2 become replicated ones
       (``blocks.two_to_three``).
    4. y = c0 + d * (c1 + d * c2), two products with a recast (``multiply``).
    5. Where the range is wide, steps 1 to 4 are taken at once with narrow cells for the
       lower part and with wide ones. The wide table's bit says that it serves, and the
       result is the narrow y plus the bit times the difference, one product.

Cost
    2 * (129h + 128) bits for keys, l for d and 8l for the row, per element, and 256 for
    the salt of all; two products with a recast. 2 rounds and those of the products.
    With two widths all of this twice, in the same rounds, and a product more.

Security (semi-honest, one corrupted party)
    P0 and P2 see corrections, which are pseudorandom to who knows only one root
    (``points``). What else they and P1 see are the messages of the blocks of steps 0
    and 3, hidden by masks that their receivers do not know. The rest is ``multiply``.
    The table is public; which row is used nobody learns. Nothing depends on whether x
    is in its range: beyond it the result is wrong, not revealing.

Source
    docs/explanation/protocols.md; Boyle, Gilboa, Ishai, "Function Secret Sharing"
    (CCS 2016) for evaluating a secretly shifted table, with P1 as the dealer.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    P2,
    Group,
    Rounds,
    cell_index,
    note_flags,
    replicate_two_party,
    together,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.linear import add, subtract
from ditto.protocols.multiply import (
    multiply,
    multiply_task,
    product_cost,
    product_type,
)
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
    part_sizes,
)
from ditto.sharing import Rank, Shared, packed_size
from ditto.sharing.points import (
    SALT_BYTES,
    Corrections,
    correct_points,
    expand_corrected,
    tree_levels,
)

Number = TypeVar("Number", np.float64, npt.NDArray[np.float64])
Function = Literal["reciprocal", "rsqrt"]

MOST_CELLS = 1 << 14
_COLUMNS = 4
_SLICE = 1 << 15
"""Elements of the table that are rotated at once."""
_OFFSET_BITS = 14
"""Bits of d: the rest of the ring is the coefficients'."""
_BITS = 32
_BYTE, _WORD = Ring(8), Ring(64)
CELLS_TO_POLE = 8
"""Cells between a function's pole and its range, at least: precision follows."""


@dataclass(frozen=True)
class TableFunction:
    """f(factor * x + summand) for integers x of ``source``, with results in ``target``.

    x lies between ``low`` and ``high``, where factor * x + summand is positive. Where
    ``high`` is many times ``low``, cells of two widths take fewer than cells of one.
    """

    function: Function
    source: FxpType
    target: FxpType
    low: int
    high: int
    factor: float = 1.0
    summand: float = 0.0
    widths: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        rings = (self.source.bits, self.target.bits)
        if rings != (_BITS, _BITS) or self.function not in ("reciprocal", "rsqrt"):
            raise FixedPointTypeError(
                f"There is no table function {self.function!r} from {self.source} to "
                f"{self.target}."
            )
        limit = self.source.limit
        sound = -limit <= self.low < self.high <= limit and 0 < self.factor < math.inf
        if (
            not sound
            or self.low - self.pole < CELLS_TO_POLE
            or self.widths not in (1, 2)
        ):
            raise FixedPointTypeError(
                f"A table function from {self.source} cannot start at {self.low} and "
                f"end at {self.high}: its integers lie below {limit}, and start "
                f"{CELLS_TO_POLE} or more above the function's pole."
            )
        if max(scale.cells for scale in self.scales) > MOST_CELLS:
            raise FixedPointTypeError(
                f"A range from {self.low} to {self.high} takes too many cells; there "
                f"are at most {MOST_CELLS}."
            )
        if not self.value(np.float64(self.low)) < self.target.max_value:
            raise FixedPointTypeError(
                f"The {self.function} of {self.low} does not fit {self.target}."
            )

    @property
    def pole(self) -> float:
        """Where f would be infinite."""
        return -math.ldexp(self.summand / self.factor, self.source.frac)

    @property
    def scales(self) -> tuple["Scale", ...]:
        """The tables; the second, if there is one, serves from its ``start`` on."""
        if self.widths == 1:
            return (Scale(self, self.low, self.high),)
        below, above = self.low - self.pole, self.high - self.pole
        wide = Scale(self, round(self.pole + math.sqrt(below * above)), self.high)
        end = min(self.high, wide.start + (2 << wide.cut))
        return Scale(self, self.low, end), wide

    @property
    def error(self) -> float:
        """The largest error, in units of the result's last place."""
        return max(scale.error for scale in self.scales)

    def largest(self, derivative: int, x: float) -> float:
        """The size of a coefficient at x, which is above the pole."""
        y = math.ldexp(self.factor * (x - self.pole), -self.source.frac)
        scale = self.factor**derivative
        if self.function == "reciprocal":
            return float(scale * y ** -(derivative + 1))
        return float(scale * (1.0, 0.5, 0.375)[derivative] * y ** -(derivative + 0.5))

    def value(self, x: Number) -> Number:
        """The function of integers x, by operations that all machines round alike."""
        y = self.factor * (x * self.source.ulp) + self.summand
        value: Number = 1 / (y if self.function == "reciprocal" else np.sqrt(y))
        return value


@dataclass(frozen=True)
class Scale:
    """One table: cells of one width from the function's ``low`` to ``end``.

    Those before ``start`` are never used.
    """

    function: TableFunction
    start: int
    end: int

    @property
    def _above_pole(self) -> float:
        return self.start - self.function.pole

    @property
    def cut(self) -> int:
        """t: cells are at most an eighth of the way to the pole wide."""
        return math.frexp(self._above_pole / CELLS_TO_POLE)[1] - 1

    @property
    def needed(self) -> int:
        """Cells that values in the range are found in."""
        return ((self.end - self.function.low - 1) >> self.cut) + 2

    @property
    def cells(self) -> int:
        """V: a power of two, so that cells count around."""
        return max(8, 1 << (self.needed - 1).bit_length())

    @property
    def drop(self) -> int:
        """The bits of x that d leaves out."""
        return max(0, self.cut - _OFFSET_BITS)

    @property
    def offset(self) -> FxpType:
        """The type of d."""
        return FxpType(_BITS, self.function.source.frac - self.drop)

    @property
    def types(self) -> tuple[FxpType, FxpType, FxpType]:
        """Of c0, c1 and c2: as fine as the products leave room for."""
        frac, target = self.offset.frac, self.function.target
        slope, bend = (self._largest(k) for k in (1, 2))
        room = _BITS - 2 - (self.cut - self.drop)
        c1 = room - math.frexp(1.25 * slope)[1]
        c1 = min(c1, target.frac - frac + _BITS - 4)
        c2 = room - math.frexp(bend)[1]
        c2 = min(c2, c1 - frac + _BITS - 4)
        return target, FxpType(_BITS, c1), FxpType(_BITS, c2)

    @property
    def error(self) -> float:
        """The largest error, in units of the result's last place."""
        step = math.ldexp(1.0, self.cut - self.function.source.frac)
        _, c1, c2 = self.types
        reach = 1 / (self._above_pole / (1 << self.cut) - 1)
        share = 0.25 if self.function.function == "reciprocal" else 5 / 64
        fit = share * reach**3 * self._largest(0)
        rounding = step * (step * c2.ulp / 2 + 1.5 * c1.ulp)
        rounding += 2.0 * self._largest(1) * self.offset.ulp
        return (fit + rounding) / self.function.target.ulp + 1.5

    def _largest(self, derivative: int) -> float:
        """The largest coefficient: that of a value a little below the first."""
        near = self._above_pole * (1 - 1 / CELLS_TO_POLE)
        return self.function.largest(derivative, self.function.pole + near)


def table_function(
    party: Party,
    x: Shared,
    function: TableFunction,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The function of every element of x. See the module's text."""
    last = function.scales[-1]
    rows = party.run_tasks(
        [
            _row_task(x, scale, checked=checked and scale == last)
            for scale in function.scales
        ]
    )
    slopes = party.run_tasks(
        [multiply_task(row.c2, row.offset, row.c1.type, rounds) for row in rows]
    )
    rises = party.run_tasks(
        [
            multiply_task(add(row.c1, slope), row.offset, function.target, rounds)
            for row, slope in zip(rows, slopes, strict=True)
        ]
    )
    values = [add(row.c0, rise) for row, rise in zip(rows, rises, strict=True)]
    if len(values) == 1:
        return values[0]
    fine, coarse = values
    gap = multiply(party, rows[1].serves, subtract(coarse, fine))
    return add(fine, gap)


def table_function_cost(
    count: int, function: TableFunction, rounds: Rounds = 2
) -> Cost:
    """Of ``count`` values."""
    bits, depth = 0, 0
    for scale in function.scales:
        levels = tree_levels(scale.cells, _BITS)
        for n in part_sizes(count, scale.cells):
            keys = 128 * n * (levels + 1) + 8 * packed_size(n * levels, 1)
            bits += 2 * (keys + 8 * SALT_BYTES) + (2 * _COLUMNS + 1) * _BITS * n
        _, c1, c2 = scale.types
        products = [
            product_cost(count, product_type(c, scale.offset), to, rounds)
            for c, to in ((c2, c1), (c1, function.target))
        ]
        bits += sum(p.bits for p in products)
        depth = max(depth, 2 + sum(p.rounds for p in products))
    if len(function.scales) == 1:
        return Cost(bits, depth)
    chosen = product_cost(count, function.target)
    return Cost(bits + chosen.bits, depth + chosen.rounds)


@dataclass(frozen=True)
class _Row:
    """Where every element lies in its cell, and its row of the table."""

    offset: Shared
    c0: Shared
    c1: Shared
    c2: Shared
    serves: Shared
    """Whether the table serves for it: one or zero."""


def _row_task(x: Shared, scale: Scale, *, checked: bool) -> Task[_Row]:
    """Steps 1 to 3."""
    first, second = x.first.reshape(-1), x.second.reshape(-1)
    types = (scale.offset, *scale.types, FxpType(_BITS, 0))

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            return _find_row(role, (first[part], second[part]), scale, checked)

        return instance

    def finish(pair: Pair) -> _Row:
        a, b = (share.reshape(*x.shape, 1 + _COLUMNS) for share in pair)
        return _Row(*(Shared(a[..., k], b[..., k], fxp) for k, fxp in enumerate(types)))

    return in_parts(x.size, instance_of, finish, weight=scale.cells)


def _find_row(role: Role, shares: Pair, scale: Scale, checked: bool) -> PairSteps:
    """Steps 0 to 3: shares of d and a row of the table for every element, flat."""
    ring = scale.function.source.ring
    above_low = (1 << scale.cut) - scale.function.low
    summand = two_party_summand(role, shares, ring, above_low)
    offset = _offset(summand, scale)
    if role.rank != P1:
        centre = ring.scalar(1 << (scale.cut - scale.drop))
        offset = ring.reduce(offset - centre)
    rows, offsets = yield from together(
        _look_up(role, cell_index(summand, scale.cut, scale.cells), scale, checked),
        replicate_two_party(role, offset, ring),
    )
    a, b = map(_joined, offsets, rows)
    return a, b


def _look_up(role: Role, cell: Words, scale: Scale, checked: bool) -> PairSteps:
    """Steps 1 to 3: shares of the row of the table in which the two cells meet."""
    share = None
    if role.rank == P1:
        yield from _deal(role, cell, scale)
    else:
        rows = yield from _expand(role, cell, scale)
        share = np.ascontiguousarray(rows[:, :_COLUMNS]).reshape(-1)
        if checked:
            note_flags(role, rows[:, _COLUMNS])
    group = Group(scale.function.source.ring)
    return (yield from two_to_three(role, share, cell.size * _COLUMNS, group))


def _deal(role: Role, cell: Words, scale: Scale) -> Steps[None]:
    """Step 1 at P1."""
    salt = role.own.draw("salt", SALT_BYTES, _BYTE)
    roots = np.stack([_roots(role, other, cell.size) for other in (P0, P2)])
    keys = correct_points(cell, roots, salt.tobytes(), depth=scale.cells, bits=_BITS)
    fields = [
        Field(salt, 8),
        Field(keys.seeds.reshape(-1), 64),
        Field(keys.rights.reshape(-1), 1),
        Field(keys.last.reshape(-1), 64),
    ]
    yield Exchange(send={P0: fields, P2: fields})


def _expand(role: Role, cell: Words, scale: Scale) -> Steps[Words]:
    """Steps 1 and 2 at P0 and P2: a share of the row for every element."""
    count = cell.size
    roots = _roots(role, P1, count)
    inbox = yield Exchange(receive={P1: _expected(count, scale)})
    corrections, salt = _received(inbox[P1], count, scale)
    rows = np.empty((count, _COLUMNS + 1), np.uint32)
    table = _doubled_table(scale)
    side = 0 if role.rank == P0 else 1
    for part, vectors in expand_corrected(
        roots, corrections, salt, depth=scale.cells, bits=_BITS, side=side
    ):
        rows[part] = _rows(vectors, table, cell[part])
    return rows


def _roots(role: Role, other: Rank, count: int) -> Words:
    """What P1 and another role start a key of every element from."""
    return role.masks_with(other).draw("roots", 2 * count, _WORD).reshape(count, 2)


def _joined(offset: Words, row: Words) -> Words:
    """d and the coefficients of every element, flat."""
    columns = row.reshape(offset.size, _COLUMNS)
    return np.concatenate([offset[:, None], columns], axis=1).reshape(-1)


def _expected(count: int, scale: Scale) -> list[Expected]:
    depth = tree_levels(scale.cells, _BITS)
    return [
        Expected(SALT_BYTES, 8),
        Expected(2 * count * depth, 64),
        Expected(count * depth, 1),
        Expected(2 * count, 64),
    ]


def _received(
    fields: list[Words], count: int, scale: Scale
) -> tuple[Corrections, bytes]:
    depth = tree_levels(scale.cells, _BITS)
    salt, seeds, rights, last = fields
    wide = np.uint64
    return (
        Corrections(
            seeds.reshape(count, depth, 2).astype(wide),
            rights.reshape(count, depth).astype(wide),
            last.reshape(count, 2).astype(wide),
        ),
        salt.tobytes(),
    )


def _offset(summand: Words, scale: Scale) -> Words:
    low = summand & summand.dtype.type((1 << scale.cut) - 1)
    return np.asarray(low >> low.dtype.type(scale.drop))


def _rows(
    vectors: Words, table: npt.NDArray[np.uint32], cell: Words
) -> npt.NDArray[np.uint32]:
    """Each vector times the table rotated by its cell: (N, columns)."""
    out = np.empty((len(vectors), len(table)), np.uint32)
    length = vectors.shape[1]
    rotated = np.lib.stride_tricks.sliding_window_view(table, length, axis=1)
    step = max(1, _SLICE // length)
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        rows = rotated[:, cell[part].astype(np.int64)]
        out[part] = np.einsum("knv,nv->nk", rows, vectors[part])
    return out


@lru_cache(maxsize=64)
def _doubled_table(scale: Scale) -> npt.NDArray[np.uint32]:
    """The table twice in a row: (columns + 1, 2V), integers of the ring."""
    function = scale.function
    middles = function.low + (np.arange(scale.cells, dtype=np.int64) << scale.cut)
    serves = middles - (1 << scale.cut) >= scale.start
    # cells that are never used get what the first of the others has
    x = np.maximum(middles, scale.start).astype(np.float64)
    reach = math.ldexp(math.sqrt(0.75), scale.cut)  # to Chebyshev's nodes
    real = reach * function.source.ulp
    here, left, right = (function.value(x + d) for d in (0.0, -reach, reach))
    coefficients = (
        here,
        (right - left) / (2 * real),
        (right + left - 2 * here) / (2 * real * real),
    )
    columns = [
        np.rint(np.ldexp(c, fxp.frac)).astype(np.int64)
        for c, fxp in zip(coefficients, scale.types, strict=True)
    ]
    outside = np.arange(scale.cells) >= scale.needed
    table = np.stack([*columns, serves, outside]).astype(np.uint32)
    return np.concatenate([table, table], axis=1)
