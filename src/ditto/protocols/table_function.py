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
       lies off the middle is d = (a mod 2^t) + (s mod 2^t) - 2^t, without any carry:
       d = p + u with p at P0 and P2 and u at P1, which leave out the bits that no
       parabola needs. Its square needs fewer bits still: r = q + v likewise.
    1. P1 splits s >> t mod V into the keys of a point function (``points``) for P0 and
       P2. The roots are masks it shares with each; the corrections go to both. In the
       same message it splits u, v and v^2 between P0 and P2 (``blocks.two_party``).
    2. P0 and P2 expand their keys to shares of the vector that is one at s >> t. Its
       product with the table, rotated by a >> t, is a share of row i of the table: the
       coefficients c0, c1, c2, and a bit for step 4. If it is checked, a last column
       says whether the cell is one that no x in the range has; the lowest bits of both
       shares of it are noted (``blocks.range_check``).
    3. y = c0 + c1 d + c2 r^2 = (c0 + c1 p + c2 q^2) + c1 u + 2 c2 q v + c2 v^2. P0 and
       P2 hold summands of the bracket and of the factors m = (c1, 2 c2 q, c2) of what
       P1 knows, w = (u, v, v^2), which they hold parts of: so y is a sum of what is
       known to P0 and P2 and of what is known to P1 (``blocks.known_product``), and
       ``convert`` goes on to the type of the result (``recast``). In the same messages
       the bit for step 4 becomes replicated shares (``blocks.two_to_three``).
    4. Where the range is wide, steps 1 to 3 are taken at once with narrow cells for the
       lower part and with wide ones. The wide table's bit says that it serves, and the
       result is the narrow y plus the bit times the difference, one product
       (``blocks.replicate``).

Cost
    2 * (129h + 128) bits for keys, 3l for u, v and v^2, 10l for step 3 with the bit,
    per element, and 256 for the salt of all; ``convert``. 2 rounds and those of
    ``convert``. With two widths all of this twice, in the same rounds, and a product
    more.

Security (semi-honest, one corrupted party)
    P0 and P2 see corrections, which are pseudorandom to who knows only one root
    (``points``). P2 sees the message of ``blocks.two_party``, hidden by masks of P0 and
    P1. The messages of step 3 are those of blocks, and what P0 and P2 know of y is a
    sum of masks, so it is independent of the data. The rest is ``convert`` and
    ``blocks.replicate``. The table is public; which row is used nobody learns. Nothing
    depends on whether x is in its range: beyond it the result is wrong, not revealing.

Source
    docs/explanation/protocols.md; Boyle, Gilboa, Ishai, "Function Secret Sharing"
    (CCS 2016) for evaluating a secretly shifted table, with P1 as the dealer.
"""

from typing import Any

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    P2,
    Group,
    Rounds,
    beside,
    cell_index,
    idle,
    known_product,
    note_flags,
    replicate,
    split_of_p1,
    together,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.parabolas import (
    BITS,
    Scale,
    TableFunction,
    doubled_table,
)
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    part_sizes,
    shares_in_parts,
)
from ditto.protocols.recast import (
    convert,
    convert_rounds,
    convert_widths,
)
from ditto.sharing import Rank, Shared, packed_size
from ditto.sharing.points import (
    SALT_BYTES,
    Corrections,
    correct_points,
    rows_at_points,
    tree_levels,
)

_COLUMNS = 4
_KNOWN = 3
"""What P1 multiplies by itself: u, v and v^2."""
_BYTE, _WORD = Ring(8), Ring(64)


def table_function(
    party: Party,
    x: Shared,
    function: TableFunction,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The function of every element of x. See the module's text."""
    return party.run_task(table_function_task(x, function, rounds, checked=checked))


def table_function_task(
    x: Shared, function: TableFunction, rounds: Rounds = 2, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``table_function``."""

    def finish(pair: Pair) -> Shared:
        a, b = (share.reshape(x.shape) for share in pair)
        return Shared(a, b, function.target)

    return shares_in_parts(
        x.flat,
        lambda role, pair: _steps(role, pair, function, rounds, checked),
        finish,
        weight=_most_cells(function),
    )


def table_function_cost(
    count: int, function: TableFunction, rounds: Rounds = 2
) -> Cost:
    """Of ``count`` values."""
    bits = 0
    for scale in function.scales:
        levels, conversion = tree_levels(scale.cells, BITS), scale.conversion
        sent = 3 * _KNOWN + 4  # splits, factors, y and the bit
        widths = [*[BITS] * sent, *convert_widths(conversion, rounds, False)]
        for n in part_sizes(count, _most_cells(function)):
            keys = 128 * n * (levels + 1) + 8 * packed_size(n * levels, 1)
            bits += 2 * (keys + 8 * SALT_BYTES)
            bits += 8 * sum(packed_size(n, width) for width in widths if width)
    depth = _depth(function, rounds)
    if len(function.scales) == 1:
        return Cost(bits, depth)
    for n in part_sizes(count, _most_cells(function)):
        bits += 3 * 8 * packed_size(n, BITS)
    return Cost(bits, depth + 1)


def _depth(function: TableFunction, rounds: Rounds) -> int:
    """Rounds of steps 1 to 3."""
    depths = (convert_rounds(scale.conversion, rounds) for scale in function.scales)
    return 2 + max(depths)


def _most_cells(function: TableFunction) -> int:
    return max(scale.cells for scale in function.scales)


def _steps(
    role: Role, shares: Pair, function: TableFunction, rounds: Rounds, checked: bool
) -> PairSteps:
    """All tables at once, and step 4."""
    *_, last = function.scales
    tables = together(
        *(
            _value(
                role.within(f"table {k}"),
                shares,
                scale,
                rounds,
                checked and scale == last,
            )
            for k, scale in enumerate(function.scales)
        )
    )
    found = yield from beside(tables, idle(_depth(function, rounds)))
    (fine, _), (coarse, bits) = found[0], found[-1]
    if len(found) == 1:
        return fine
    ring = function.target.ring
    a, b = (wide - narrow for wide, narrow in zip(coarse, fine, strict=True))
    gap = yield from replicate(role, bits[0] * (a + b) + bits[1] * a, Group(ring))
    first, second = (y + more for y, more in zip(fine, gap, strict=True))
    return first, second


def _value(
    role: Role, shares: Pair, scale: Scale, rounds: Rounds, checked: bool
) -> Steps[tuple[Pair, Pair]]:
    """Steps 0 to 3: shares of what one table says of every element, and of whether it
    serves for it: one or zero."""
    ring = scale.function.source.ring
    above_low = (1 << scale.cut) - scale.function.low
    summand = two_party_summand(role, shares, ring, above_low)
    cell, count = cell_index(summand, scale.cut, scale.cells), summand.size
    near = _offset(summand, scale)
    rough = near >> near.dtype.type(scale.rough)
    group, known = Group(ring), None
    if role.rank == P1:
        known = np.concatenate([near, rough, rough * rough])
    else:
        centre = 1 << (scale.cut - scale.drop)
        middle = (centre >> scale.rough) - (1 if scale.rough else 0)
        near, rough = near - ring.scalar(centre), rough - ring.scalar(middle)
    look_up = (
        _deal(role, cell, scale) if known is not None else _expand(role, cell, scale)
    )
    blocks: list[Steps[Any]] = [
        look_up,
        split_of_p1(role, known, _KNOWN * count, group, "offset"),
    ]
    rows, split = yield from together(*blocks)
    if known is not None:
        factors, rest, bit = None, None, None
        parts = known.reshape(_KNOWN, count)
    else:
        if checked:
            note_flags(role, rows[:, _COLUMNS])
        c0, c1, c2, bit = (np.ascontiguousarray(rows[:, k]) for k in range(_COLUMNS))
        factors = np.stack([c1, c2 * rough * ring.scalar(2), c2])
        rest = c0 + c1 * near + c2 * rough * rough
        parts = split[0].reshape(_KNOWN, count)
    last: list[Steps[Any]] = [
        known_product(role, parts, factors, rest, ring),
        two_to_three(role, bit, count, group, "serves"),
    ]
    (pair, own), serves = yield from together(*last)
    total = two_party_summand(role, pair, ring, scale.conversion.bias) + own
    y = yield from convert(role, total, scale.conversion, rounds, False)
    return y, serves


def _deal(role: Role, cell: Words, scale: Scale) -> Steps[None]:
    """Step 1 at P1."""
    salt = role.own.draw("salt", SALT_BYTES, _BYTE)
    roots = np.stack([_roots(role, other, cell.size) for other in (P0, P2)])
    keys = correct_points(cell, roots, salt.tobytes(), depth=scale.cells, bits=BITS)
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
    side = 0 if role.rank == P0 else 1
    table = doubled_table(scale)
    return rows_at_points(roots, corrections, salt, table, cell, side=side)


def _roots(role: Role, other: Rank, count: int) -> Words:
    """What P1 and another role start a key of every element from."""
    return role.masks_with(other).draw("roots", 2 * count, _WORD).reshape(count, 2)


def _expected(count: int, scale: Scale) -> list[Expected]:
    depth = tree_levels(scale.cells, BITS)
    return [
        Expected(SALT_BYTES, 8),
        Expected(2 * count * depth, 64),
        Expected(count * depth, 1),
        Expected(2 * count, 64),
    ]


def _received(
    fields: list[Words], count: int, scale: Scale
) -> tuple[Corrections, bytes]:
    depth = tree_levels(scale.cells, BITS)
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
