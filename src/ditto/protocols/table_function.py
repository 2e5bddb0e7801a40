"""table_function: a smooth function of few values, from a table of parabolas.

The reciprocal of a row's sum and the inverse root of its variance are wanted for one
value per row, so bytes matter little and rounds much. The range of x is cut into cells,
and on each the function is a parabola. Which cell x lies in stays secret.

Notation: x has type (l, f) and low <= x < high as integers; a cell is 2^t wide; there
are V = 2^h cells; y has type (l', f'), with l' = 32.

Steps
    0. a = x0 - low + 2^t at P0 and P2, s = x1 + x2 at P1. The cell is
       i = (a >> t) + (s >> t) mod V: that of x, or the one before. So the parabola of
       cell i is fitted on two cells, around their middle x_i = low + i * 2^t. What x
       lies off the middle is d = (a mod 2^t) + (s mod 2^t) - 2^t, without any carry:
       d = p + u with p at P0 and P2 and u at P1, which leave out the bits that no
       parabola needs.
    1. P1 splits s >> t mod V, with 1, u and u^2 as what stands there, into the keys of
       a point function with a payload (``payloads``) for P0 and P2. The roots are
       masks it shares with each; the corrections go to both.
    2. P0 and P2 expand their keys to shares of the vector of (1, u, u^2) at s >> t. Its
       products with the table, rotated by a >> t, are shares of the coefficients
       c0, c1, c2 of row i, of c1 u, c2 u and c2 u^2, and of a bit for step 3. So they
       have shares of y = (c0 + c1 p + c2 p^2) + (c1 + 2 c2 p) u + c2 u^2, over Z_2^64
       and with 32 more fraction bits. Each shifts its share where it is, into the ring
       of the result, and all become replicated shares (``blocks.replicate``). If it is
       checked, a last column says whether the cell is one that x in the range may have;
       the lowest bits of both shares of that it is not are noted
       (``blocks.range_check``). Of other cells the table is zero, and they are not
       expanded.
    3. Where the range is wide, steps 1 and 2 are taken at once with narrow cells for
       the lower part and with wide ones. The wide table's bit says that it serves, and
       the result is the narrow y plus the bit times the difference, one product
       (``blocks.replicate``).

Cost
    2 * (129h + 255) bits for keys and 3l' for y, per element, and 256 for the salt of
    all. Two rounds. With two widths the keys twice, 3l' for the difference and for the
    bit each, and 3l' in a third round.

Security (semi-honest, one corrupted party)
    P0 and P2 see corrections, which are pseudorandom to who knows only one root
    (``payloads``). What they expand is theirs, and what they make of it is local, as is
    the shift. The rest is ``blocks.replicate``. The table is public; which row is used
    nobody learns. Nothing depends on whether x is in its range: beyond it the result is
    wrong, zero for the most part, not revealing.

Source
    docs/explanation/protocols.md; Boyle, Gilboa, Ishai, "Function Secret Sharing"
    (CCS 2016) for evaluating a secretly shifted table, with P1 as the dealer.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    P2,
    Group,
    cell_index,
    note_flags,
    replicate,
    together,
    two_party_summand,
)
from ditto.protocols.cost import Cost
from ditto.protocols.parabolas import (
    BITS,
    FACTORS,
    Scale,
    TableFunction,
    table_of,
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
from ditto.protocols.recast import shifted_share
from ditto.sharing import Rank, Shared, packed_size
from ditto.sharing.payloads import (
    LAST_WORDS,
    correct_payloads,
    payload_levels,
    products_at_payloads,
)
from ditto.sharing.point_trees import Corrections
from ditto.sharing.points import SALT_BYTES

_INSIDE, _SERVES = 6, 7
"""The rows of a table that are no coefficients."""
_BYTE, _WORD = Ring(8), Ring(64)


def table_function(
    party: Party, x: Shared, function: TableFunction, *, checked: bool = False
) -> Shared:
    """The function of every element of x. See the module's text."""
    return party.run_task(table_function_task(x, function, checked=checked))


def table_function_task(
    x: Shared, function: TableFunction, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``table_function``."""

    def finish(pair: Pair) -> Shared:
        a, b = (share.reshape(x.shape) for share in pair)
        return Shared(a, b, function.target)

    return shares_in_parts(
        x.flat,
        lambda role, pair: _steps(role, pair, function, checked),
        finish,
        weight=_most_cells(function),
    )


def table_function_cost(count: int, function: TableFunction) -> Cost:
    """Of ``count`` values."""
    wide = len(function.scales) == 2
    bits = 0
    for n in part_sizes(count, _most_cells(function)):
        for scale in function.scales:
            levels = payload_levels(scale.cells)
            words = 2 * n * levels + LAST_WORDS * n
            keys = 64 * words + 8 * packed_size(n * levels, 1)
            bits += 2 * (keys + 8 * SALT_BYTES)
        bits += 3 * 8 * packed_size((3 if wide else 1) * n, BITS)
        bits += 3 * 8 * packed_size(n, BITS) if wide else 0
    return Cost(bits, 3 if wide else 2)


def _most_cells(function: TableFunction) -> int:
    return max(scale.cells for scale in function.scales)


def _steps(
    role: Role, shares: Pair, function: TableFunction, checked: bool
) -> PairSteps:
    """All tables at once, and step 3."""
    *_, last = function.scales
    found = yield from together(
        *(
            _value(
                role.within(f"table {k}"),
                shares,
                scale,
                noted=checked and scale == last,
                chosen=len(function.scales) == 2,
            )
            for k, scale in enumerate(function.scales)
        )
    )
    ring = function.target.ring
    group = Group(ring)
    (fine, _), (coarse, serves) = found[0], found[-1]
    if len(found) == 1:
        return (yield from replicate(role, fine, group, "value"))
    z = np.concatenate([fine, ring.reduce(coarse - fine), serves])
    pair = yield from replicate(role, z, group, "value")
    (y0, gap0, bit0), (y1, gap1, bit1) = (share.reshape(3, -1) for share in pair)
    product = bit0 * (gap0 + gap1) + bit1 * gap0
    more = yield from replicate(role, product, group, "choice")
    first, second = (y + m for y, m in zip((y0, y1), more, strict=True))
    return first, second


def _value(
    role: Role, shares: Pair, scale: Scale, *, noted: bool, chosen: bool
) -> Steps[tuple[Words, Words]]:
    """Steps 0 to 2: summands of what one table says of every element, and of whether it
    serves for it: one or zero."""
    source, target = scale.function.source, scale.function.target.ring
    above_low = (1 << scale.cut) - scale.function.low
    summand = two_party_summand(role, shares, source.ring, above_low)
    cell = cell_index(summand, scale.cut, scale.cells)
    offset = _offset(summand, scale)
    if role.rank == P1:
        payload = np.stack([np.ones_like(offset), offset, offset * offset], axis=1)
        yield from _deal(role, cell, payload, scale)
        nothing = np.zeros(cell.size, target.dtype)
        return nothing, nothing
    rows = _SERVES + 1 if chosen else _INSIDE + 1 if noted else _INSIDE
    found = yield from _expand(role, cell, scale, rows)
    if noted:
        all_cells = _WORD.scalar(role.rank == P0)
        note_flags(role, (all_cells - found[_INSIDE]).astype(target.dtype))
    p = offset - _WORD.scalar(1 << (scale.cut - scale.drop))
    c0, c1, c2, c1_u, c2_u, c2_uu = found[:_INSIDE]
    y = c0 + p * (c1 + p * c2 + 2 * c2_u) + c1_u + c2_uu
    serves = found[_SERVES] if chosen else np.zeros_like(y)
    return shifted_share(y, scale.conversion), target.reduce(serves)


def _deal(role: Role, cell: Words, payload: Words, scale: Scale) -> Steps[None]:
    """Step 1 at P1."""
    salt = role.own.draw("salt", SALT_BYTES, _BYTE)
    roots = np.stack([_roots(role, other, cell.size) for other in (P0, P2)])
    keys = correct_payloads(cell, payload, roots, salt.tobytes(), depth=scale.cells)
    fields = [
        Field(salt, 8),
        Field(keys.seeds.reshape(-1), 64),
        Field(keys.rights.reshape(-1), 1),
        Field(keys.last.reshape(-1), 64),
    ]
    yield Exchange(send={P0: fields, P2: fields})


def _expand(role: Role, cell: Words, scale: Scale, rows: int) -> Steps[Words]:
    """Step 2 at P0 and P2: a share of the first rows of the table, for every element
    and times what P1 put into the keys, (rows, N)."""
    count = cell.size
    roots = _roots(role, P1, count)
    inbox = yield Exchange(receive={P1: _expected(count, scale)})
    corrections, salt = _received(inbox[P1], count, scale)
    found = products_at_payloads(
        roots,
        corrections,
        salt,
        table_of(scale)[:rows],
        FACTORS[:rows],
        cell,
        depth=scale.cells,
        side=0 if role.rank == P0 else 1,
    )
    return np.ascontiguousarray(found.T)


def _roots(role: Role, other: Rank, count: int) -> Words:
    """What P1 and another role start a key of every element from."""
    return role.masks_with(other).draw("roots", 2 * count, _WORD).reshape(count, 2)


def _expected(count: int, scale: Scale) -> list[Expected]:
    depth = payload_levels(scale.cells)
    return [
        Expected(SALT_BYTES, 8),
        Expected(2 * count * depth, 64),
        Expected(count * depth, 1),
        Expected(LAST_WORDS * count, 64),
    ]


def _received(
    fields: list[Words], count: int, scale: Scale
) -> tuple[Corrections, bytes]:
    depth = payload_levels(scale.cells)
    salt, seeds, rights, last = fields
    wide = np.uint64
    return (
        Corrections(
            seeds.reshape(count, depth, 2).astype(wide),
            rights.reshape(count, depth).astype(wide),
            last.reshape(count, LAST_WORDS).astype(wide),
        ),
        salt.tobytes(),
    )


def _offset(summand: Words, scale: Scale) -> Words:
    """What lies beyond the start of a cell, as a number of 64 bits."""
    low = summand & summand.dtype.type((1 << scale.cut) - 1)
    return (low >> low.dtype.type(scale.drop)).astype(np.uint64)
