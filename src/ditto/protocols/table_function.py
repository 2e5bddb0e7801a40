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
       P1 knows, w = (u, v, v^2). With masks k0, k2, h0, h2 of P0 and P2 and
       k = k0 + k2, P0 sends m0 - k0 and z0 - h0 to P1, z0 its summand of the bracket
       plus k times its part of w; P2 likewise. P1 computes z1 = (m - k) w. Now
       z0 + z1 + z2 = y: h0 + h2 is known to P0 and P2, the rest to P1, and ``convert``
       goes on to the type of the result (``recast``).
    4. Where the range is wide, steps 1 to 3 are taken at once with narrow cells for the
       lower part and with wide ones. The wide table's bit says that it serves, and the
       result is the narrow y plus the bit times the difference, one product.

Cost
    2 * (129h + 128) bits for keys, 3l for u, v and v^2, 10l for step 3 with the bit,
    per element, and 256 for the salt of all; ``convert``. 2 rounds and those of
    ``convert``. With two widths all of this twice, in the same rounds, and a product
    more.

Security (semi-honest, one corrupted party)
    P0 and P2 see corrections, which are pseudorandom to who knows only one root
    (``points``). P2 sees the message of ``blocks.two_party``, hidden by masks of P0 and
    P1. In step 3 P1 sees ten numbers, hidden by as many masks that it does not know;
    h0 + h2 is a sum of masks, so it is independent of the data. The rest is ``convert``
    and ``multiply``. The table is public; which row is used nobody learns. Nothing
    depends on whether x is in its range: beyond it the result is wrong, not revealing.

Source
    docs/explanation/protocols.md; Boyle, Gilboa, Ishai, "Function Secret Sharing"
    (CCS 2016) for evaluating a secretly shifted table, with P1 as the dealer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    P2,
    Group,
    Rounds,
    cell_index,
    masks_of_p0_p2,
    note_flags,
    split_of_p1,
    together,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.linear import add, subtract
from ditto.protocols.multiply import multiply, product_cost
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
    PairInstance,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    in_parts,
    part_sizes,
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
    expand_corrected,
    tree_levels,
)

_COLUMNS = 4
_SLICE = 1 << 15
"""Elements of the table that are rotated at once."""
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
    last = function.scales[-1]
    found = party.run_tasks(
        [
            _value_task(x, scale, rounds, checked=checked and scale == last)
            for scale in function.scales
        ]
    )
    if len(found) == 1:
        return found[0].value
    fine, coarse = found
    gap = multiply(party, coarse.serves, subtract(coarse.value, fine.value))
    return add(fine.value, gap)


def table_function_cost(
    count: int, function: TableFunction, rounds: Rounds = 2
) -> Cost:
    """Of ``count`` values."""
    bits, depth = 0, 0
    for scale in function.scales:
        levels, conversion = tree_levels(scale.cells, BITS), scale.conversion
        sent = 3 * _KNOWN + 4  # splits, factors, y and the bit
        widths = [*[BITS] * sent, *convert_widths(conversion, rounds, False)]
        for n in part_sizes(count, scale.cells):
            keys = 128 * n * (levels + 1) + 8 * packed_size(n * levels, 1)
            bits += 2 * (keys + 8 * SALT_BYTES)
            bits += 8 * sum(packed_size(n, width) for width in widths if width)
        depth = max(depth, 2 + convert_rounds(conversion, rounds))
    if len(function.scales) == 1:
        return Cost(bits, depth)
    chosen = product_cost(count, function.target)
    return Cost(bits + chosen.bits, depth + chosen.rounds)


@dataclass(frozen=True)
class _Found:
    """What one table says of every element."""

    value: Shared
    serves: Shared
    """Whether the table serves for it: one or zero."""


def _value_task(
    x: Shared, scale: Scale, rounds: Rounds, *, checked: bool
) -> Task[_Found]:
    """Steps 0 to 3."""
    first, second = x.first.reshape(-1), x.second.reshape(-1)

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            return _steps(role, (first[part], second[part]), scale, rounds, checked)

        return instance

    def finish(pair: Pair) -> _Found:
        a, b = (share.reshape(*x.shape, 2) for share in pair)
        types = (scale.function.target, FxpType(BITS, 0))
        return _Found(*(Shared(a[..., k], b[..., k], t) for k, t in enumerate(types)))

    return in_parts(x.size, instance_of, finish, weight=scale.cells)


def _steps(
    role: Role, shares: Pair, scale: Scale, rounds: Rounds, checked: bool
) -> PairSteps:
    """Shares of y and of the bit for every element, side by side, flat."""
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
        factors, pair = yield from together(
            _send_factors(None, count, ring),
            two_to_three(role, None, 2 * count, group),
        )
        products = (factors[0] + factors[1]) * known
        total = pair[0][:count] + pair[1][:count]
        total += products.reshape(_KNOWN, count).sum(0, dtype=ring.dtype)
    else:
        if checked:
            note_flags(role, rows[:, _COLUMNS])
        c0, c1, c2, serves = (np.ascontiguousarray(rows[:, k]) for k in range(_COLUMNS))
        drawn = masks_of_p0_p2(role)
        k0, k2 = (
            drawn.draw(name, _KNOWN * count, ring)
            for name in ("factors 0", "factors 2")
        )
        bracket = c0 + c1 * near + c2 * rough * rough
        masked = ((k0 + k2) * split[0]).reshape(_KNOWN, count)
        bracket += masked.sum(0, dtype=ring.dtype)
        factor = np.concatenate([c1, c2 * rough * ring.scalar(2), c2])
        hidden = factor - (k0 if role.rank == P0 else k2)
        _, pair = yield from together(
            _send_factors(hidden, count, ring),
            two_to_three(role, np.concatenate([bracket, serves]), 2 * count, group),
        )
        masks = pair[0] if role.rank == P0 else pair[1]
        total = masks[:count] + ring.scalar(scale.conversion.bias)
    y = yield from convert(role, total, scale.conversion, rounds, False)
    a, b = (
        np.stack([value, bit[count:]], axis=1).reshape(-1)
        for value, bit in zip(y, pair, strict=True)
    )
    return a, b


def _send_factors(hidden: Words | None, count: int, ring: Ring) -> PairSteps:
    """At P1 both halves of the factors without their masks."""
    if hidden is not None:
        yield Exchange(send={P1: [Field(hidden, ring.bits)]})
        return hidden, hidden
    expected = [Expected(_KNOWN * count, ring.bits)]
    inbox = yield Exchange(receive={P0: expected, P2: expected})
    return inbox[P0][0], inbox[P2][0]


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
    rows = np.empty((count, _COLUMNS + 1), np.uint32)
    table = doubled_table(scale)
    side = 0 if role.rank == P0 else 1
    for part, vectors in expand_corrected(
        roots, corrections, salt, depth=scale.cells, bits=BITS, side=side
    ):
        rows[part] = _rows(vectors, table, cell[part])
    return rows


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
