"""curve: a smooth function of few values, from a table of parabolas.

The reciprocal of a row's sum and the inverse root of its variance are wanted for one
value a row, so bytes matter little and rounds much. The range of x is cut into cells,
and on each the function is a parabola. Which cell x lies in stays secret.

Notation: x has type (l, f) and low <= x < high as integers; a cell is 2^t wide; there
are V = 2^b cells; h = ceil(log2(V * l / 128)).

Steps
    0. a = x0 - low + 2^t at P0 and P2, s = x1 + x2 at P1. The cell is
       i = (a >> t) + (s >> t) mod V: that of x, or the one before. So the parabola of
       cell i is fitted on two cells, around their middle x_i = low + i * 2^t. What x
       lies off the middle is d = (a mod 2^t) + (s mod 2^t) - 2^t, without any carry;
       both summands leave out the bits that no parabola needs. P1 reshares its own.
    1. P1 splits s >> t mod V into the keys of a point function (``points``) for P0 and
       P2. The roots are masks it shares with each; the corrections go to both.
    2. P0 and P2 expand their keys to shares of the vector that is one at s >> t. Its
       product with the table, turned by a >> t, is a share of row i of the table: the
       coefficients c0, c1, c2, and a bit for step 5.
    3. P0 and P2 each send their shares of the row to P1, hidden by masks of P0 and P2:
       replicated shares.
    4. y = c0 + d * (c1 + d * c2), two products with a recast (``multiply``).
    5. Where the range is wide, steps 1 to 4 are taken at once with narrow cells for the
       lower part and with wide ones. The wide table's bit says that it serves, and the
       result is the narrow y plus the bit times the difference, one product.

Cost
    2 * (129h + 128) bits for keys, l for d and 8l for the row, an element, and 256 for
    the salt of all; two products with a recast. 2 rounds and those of the products.
    With two widths all of this twice, in the same rounds, and a product more.

Security (semi-honest, one corrupted party)
    P0 and P2 see corrections, which are pseudorandom to who knows only one root
    (``points``); P2 also sees P1's part of d, less a mask of P0 and P1. P1 sees step 3,
    hidden by masks it does not know. The rest is ``multiply``. The table is public;
    which row is used nobody learns. Nothing depends on whether x is in its range:
    beyond it the result is wrong, not revealing.

Source
    docs/explanation/protocols.md; Boyle, Gilboa, Ishai, "Function Secret Sharing"
    (CCS 2016) for evaluating a secretly shifted table, with P1 as the dealer.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.cost import Cost
from ditto.protocols.linear import add, subtract
from ditto.protocols.maximum import place
from ditto.protocols.multiply import (
    multiply,
    multiplying,
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
    Task,
    in_parts,
    part_sizes,
)
from ditto.protocols.recast import (
    P0,
    P1,
    P2,
    Rounds,
    masks_beside_p1,
    summand_of,
)
from ditto.sharing import Shared, packed_size
from ditto.sharing.points import (
    SALT_BYTES,
    Corrections,
    correct_points,
    expand_corrected,
    tree_levels,
)

Function = Literal["reciprocal", "rsqrt"]

MOST_CELLS = 1 << 14
_COLUMNS = 4
_SLICE = 1 << 15
"""Elements of the table that are turned at once."""
_OFFSET_BITS = 14
"""Bits of d: the rest of the ring is the coefficients'."""
_BITS = 32
_BYTE, _WORD = Ring(8), Ring(64)
CELLS_TO_POLE = 8
"""Cells between a function's pole and its range, at least: precision follows."""


@dataclass(frozen=True)
class Curve:
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
                f"There is no curve {self.function!r} from {self.source} to "
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
                f"A curve from {self.source} cannot start at {self.low} and end at "
                f"{self.high}: its integers lie below {limit}, and start "
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

    def value(self, x: Any) -> Any:
        """The function of integers x, by operations that all machines round alike."""
        y = self.factor * (x * self.source.ulp) + self.summand
        return 1 / (y if self.function == "reciprocal" else np.sqrt(y))


@dataclass(frozen=True)
class Scale:
    """One table: cells of one width from the curve's ``low`` to ``end``.

    Those before ``start`` are never used.
    """

    curve: Curve
    start: int
    end: int

    @property
    def _above_pole(self) -> float:
        return self.start - self.curve.pole

    @property
    def cut(self) -> int:
        """t: cells are at most an eighth of the way to the pole wide."""
        return math.frexp(self._above_pole / CELLS_TO_POLE)[1] - 1

    @property
    def cells(self) -> int:
        """V: a power of two, so that cells count around."""
        due = ((self.end - self.curve.low - 1) >> self.cut) + 2
        return max(8, 1 << (due - 1).bit_length())

    @property
    def drop(self) -> int:
        """The bits of x that d leaves out."""
        return max(0, self.cut - _OFFSET_BITS)

    @property
    def offset(self) -> FxpType:
        """The type of d."""
        return FxpType(_BITS, self.curve.source.frac - self.drop)

    @property
    def types(self) -> tuple[FxpType, FxpType, FxpType]:
        """Of c0, c1 and c2: as fine as the products leave room for."""
        frac, target = self.offset.frac, self.curve.target
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
        step = math.ldexp(1.0, self.cut - self.curve.source.frac)
        _, c1, c2 = self.types
        reach = 1 / (self._above_pole / (1 << self.cut) - 1)
        share = 0.25 if self.curve.function == "reciprocal" else 5 / 64
        fit = share * reach**3 * self._largest(0)
        rounding = step * (step * c2.ulp / 2 + 1.5 * c1.ulp)
        rounding += 2.0 * self._largest(1) * self.offset.ulp
        return (fit + rounding) / self.curve.target.ulp + 1.5

    def _largest(self, derivative: int) -> float:
        """The largest coefficient: that of a value a little below the first."""
        near = self._above_pole * (1 - 1 / CELLS_TO_POLE)
        return self.curve.largest(derivative, self.curve.pole + near)


def curve(party: Party, x: Shared, shape: Curve, rounds: Rounds = 2) -> Shared:
    """The function of every element of x. See the module's text."""
    found = party.take_together([_finding(x, scale) for scale in shape.scales])
    bent = party.take_together(
        [multiplying(row.c2, row.offset, row.c1.type, rounds) for row in found]
    )
    raised = party.take_together(
        [
            multiplying(add(row.c1, u), row.offset, shape.target, rounds)
            for row, u in zip(found, bent, strict=True)
        ]
    )
    values = [add(row.c0, v) for row, v in zip(found, raised, strict=True)]
    if len(values) == 1:
        return values[0]
    fine, coarse = values
    gap = multiply(party, found[1].serves, subtract(coarse, fine))
    return add(fine, gap)


def curve_cost(count: int, shape: Curve, rounds: Rounds = 2) -> Cost:
    """Of ``count`` values."""
    bits, depth = 0, 0
    for scale in shape.scales:
        levels = tree_levels(scale.cells, _BITS)
        for n in part_sizes(count, scale.cells):
            keys = 128 * n * (levels + 1) + 8 * packed_size(n * levels, 1)
            bits += 2 * (keys + 8 * SALT_BYTES) + (2 * _COLUMNS + 1) * _BITS * n
        _, c1, c2 = scale.types
        products = [
            product_cost(count, product_type(c, scale.offset), to, rounds)
            for c, to in ((c2, c1), (c1, shape.target))
        ]
        bits += sum(p.bits for p in products)
        depth = max(depth, 2 + sum(p.rounds for p in products))
    if len(shape.scales) == 1:
        return Cost(bits, depth)
    chosen = product_cost(count, shape.target)
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


def _finding(x: Shared, scale: Scale) -> Task[_Row]:
    """Steps 1 to 3."""
    first, second = x.first.reshape(-1), x.second.reshape(-1)
    kinds = (scale.offset, *scale.types, FxpType(_BITS, 0))

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            return _find_row(role, first[part], second[part], scale)

        return instance

    def finish(pair: Pair) -> _Row:
        a, b = (share.reshape(*x.shape, 1 + _COLUMNS) for share in pair)
        return _Row(
            *(Shared(a[..., k], b[..., k], kind) for k, kind in enumerate(kinds))
        )

    return in_parts(x.size, instance_of, finish, weight=scale.cells)


def _find_row(role: Role, first: Words, second: Words, scale: Scale) -> PairSteps:
    """Steps 1 to 3: shares of d and a row of the table for every element, flat."""
    ring, count = scale.curve.source.ring, first.size
    above_low = (1 << scale.cut) - scale.curve.low
    summand = summand_of(role, (first, second), ring, above_low)
    if role.rank == P1:
        return (yield from _deal(role, summand, scale))
    cell = place(summand, scale.cut, scale.cells)
    side = 0 if role.rank == P0 else 1
    dealer = role.masks_with(P1)
    roots = dealer.draw("roots", 2 * count, _WORD).reshape(count, 2)
    due = _expected(count, scale)
    if role.rank == P0:
        other_offset = dealer.draw("offset", count, ring)
        inbox = yield Exchange(receive={P1: due})
        fields = inbox[P1]
    else:
        inbox = yield Exchange(receive={P1: [*due, Expected(count, _BITS)]})
        *fields, other_offset = inbox[P1]
    corrections, salt = _received(fields, count, scale)
    found = np.empty((count, _COLUMNS), np.uint32)
    table = _turnable(scale)
    for part, vectors in expand_corrected(
        roots, corrections, salt, depth=scale.cells, bits=_BITS, side=side
    ):
        found[part] = _rows(vectors, table, cell[part])
    shared = masks_beside_p1(role)
    k0, k2 = (shared.draw(name, found.size, ring) for name in ("k0", "k2"))
    mine = ring.reduce(found.reshape(-1) - (k0 if role.rank == P0 else k2))
    yield Exchange(send={P1: [Field(mine, _BITS)]})
    centre = ring.scalar(1 << (scale.cut - scale.drop))
    both = _joined(ring.reduce(_offset(summand, scale) - centre), k0 + k2)
    own = _joined(other_offset, mine)
    return (both, own) if role.rank == P0 else (own, both)


def _deal(role: Role, summand: Words, scale: Scale) -> PairSteps:
    """What P1 does."""
    count, ring = summand.size, scale.curve.source.ring
    salt = role.own.draw("salt", SALT_BYTES, _BYTE)
    roots = np.stack(
        [
            masks.draw("roots", 2 * count, _WORD).reshape(count, 2)
            for masks in (role.masks_with(P0), role.masks_with(P2))
        ]
    )
    cell = place(summand, scale.cut, scale.cells)
    found = correct_points(cell, roots, salt.tobytes(), depth=scale.cells, bits=_BITS)
    d1 = role.previous.draw("offset", count, ring)
    d2 = ring.reduce(_offset(summand, scale) - d1)
    fields = [
        Field(salt, 8),
        Field(found.seeds.reshape(-1), 64),
        Field(found.rights.reshape(-1), 1),
        Field(found.last.reshape(-1), 64),
    ]
    yield Exchange(send={P0: fields, P2: [*fields, Field(d2, _BITS)]})
    due = [Expected(count * _COLUMNS, _BITS)]
    inbox = yield Exchange(receive={P0: due, P2: due})
    (from0,), (from2,) = inbox[P0], inbox[P2]
    return _joined(d1, from0), _joined(d2, from2)


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
    wide: Any = np.uint64
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
    """Each vector times the table turned by its cell: (N, columns)."""
    out = np.empty((len(vectors), _COLUMNS), np.uint32)
    length = vectors.shape[1]
    turned = np.lib.stride_tricks.sliding_window_view(table, length, axis=1)
    step = max(1, _SLICE // length)
    for start in range(0, len(vectors), step):
        part = slice(start, start + step)
        rows = turned[:, cell[part].astype(np.int64)]
        out[part] = np.einsum("knv,nv->nk", rows, vectors[part])
    return out


@lru_cache(maxsize=64)
def _turnable(scale: Scale) -> npt.NDArray[np.uint32]:
    """The table twice in a row: (columns, 2V), integers of the ring."""
    line = scale.curve
    middles = line.low + (np.arange(scale.cells, dtype=np.int64) << scale.cut)
    serves = middles - (1 << scale.cut) >= scale.start
    # cells that are never used get what the first of the others has
    x = np.maximum(middles, scale.start).astype(np.float64)
    reach = math.ldexp(math.sqrt(0.75), scale.cut)  # to Chebyshev's nodes
    real = reach * line.source.ulp
    here, left, right = (line.value(x + d) for d in (0.0, -reach, reach))
    coefficients = (
        here,
        (right - left) / (2 * real),
        (right + left - 2 * here) / (2 * real * real),
    )
    columns = [
        np.rint(np.ldexp(c, kind.frac)).astype(np.int64)
        for c, kind in zip(coefficients, scale.types, strict=True)
    ]
    table = np.stack([*columns, serves]).astype(np.uint32)
    return np.concatenate([table, table], axis=1)
