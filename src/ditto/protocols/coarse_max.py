"""coarse_max: the maximum of every row, to the next step of a coarse grid.

Softmax does not change when one number is subtracted from a whole row, so a number near
the maximum serves as well as the maximum, and values that are coarse have few levels:
the maximum is found level by level instead of pair by pair, in a number of rounds that
does not depend on the length of a row.

Notation: x has type (l, f) and low <= x < high as integers; t bits are cut off; the
grid has V = 2^b levels and starts at base (``blocks.grid``); a row has n elements;
w = l - t.

Steps
    0. The level c of an element is a sum modulo V of what P1 and what P0 and P2 know
       (``blocks.grid``): the floor of (x - base) / 2^t + 1, or one less.
    1. P0 and P2 get XOR shares of 1 << c (``blocks.one_hot``). The XOR of all bits from
       v upwards is 1 if c >= v and 0 if not: they replace bit v by it, which is linear,
       so local.
    2. A bit of the row's result is the OR of the bits of its elements. P0 and P2 take k
       = 32 random subsets of every row, known to both and not to P1, and XOR the words
       in each: if all bits are 0 so are their sums, and if one is 1, then with a chance
       of 1 - 2^-k a sum is 1.
    3. The k words of every row become replicated shares (``blocks.two_to_three``, with
       XOR). The AND of their complements, in log2(k) rounds of ``blocks.bits``, is the
       complement of the OR.
    4. The level of the maximum is the number of bits v > 0 that are set. Bit v is
       S_v ^ K_v with S known to P1 and K to P0 and P2, so the sum over v is
       S + K - 2 * sum S_v K_v over Z_2^w: the sum of the S and the K becomes replicated
       shares (``blocks.two_party``), and so does the product of the vectors
       (``blocks.product``), in two rounds or in one.
    5. The result is (level << t) + base, at the type of x.
    6. If it is checked, P0 and P2 note levels that no x in its range has
       (``blocks.range_check``): bits of step 1 say so. Further out levels count around;
       what lies there is seen by cells far beyond the grid (``blocks.grid``).

Cost
    per element V bits, or V + 16 if it is checked; per row 2kV + 3(k - 1)V bits, and in
    two rounds w(V + 2) bits, in one w(2V + 1). 7 rounds and those of step 4; 8 where
    rows are few.
    Result minus maximum lies in (-2^t, 2^t]. With a chance of 2^-32 for each distinct
    set of elements of a row that reach a level, step 2 misses these levels: where one
    element leads alone, its whole lead. 12 layers of 12 heads and 128 tokens have
    18,432 rows, so that happens in 4 of a million requests; exp then leaves its range,
    which is noted there if it is checked.

Security (semi-honest, one corrupted party)
    All messages are those of the blocks of steps 1, 3, 4 and 6, each with masks of its
    own: uniform and independent of all else their receivers know. The rest is local.
    The subsets of step 2 hide nothing; that P1 does not know them is not needed.
    Nothing depends on whether x is in its range.

Source
    docs/explanation/protocols.md; random subsets for OR are Razborov's (1987).
"""

from math import prod

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks import (
    FAR_CELLS,
    P0,
    P1,
    P2,
    Grid,
    Rounds,
    and_words,
    complement,
    far_flags,
    level_summand,
    masks_of_p0_p2,
    note_flags,
    product_fields,
    replicate_two_party,
    shared_one_hot,
    together,
    two_party_product,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Pair,
    PairInstance,
    PairSteps,
    Party,
    Role,
    Steps,
    in_parts,
    part_sizes,
)
from ditto.sharing import Shared, packed_size

SUBSETS = 32
_SUBSET_RING = Ring(SUBSETS)
MOST_LEVELS = 1 << 8
"""Of a maximum: what a row costs grows with them."""
_ALONE = 8
"""Rounds of one part by itself: its last messages do not wait for all before them."""


def coarse_max(
    party: Party,
    x: Shared,
    grid: Grid,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The maximum over the last axis, kept as an axis of size one."""
    check_levels(grid)
    *outer, length = x.shape
    first, second = (s.reshape(-1, length) for s in (x.first, x.second))

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            return _steps(role, (first[part], second[part]), grid, rounds, checked)

        return instance

    def finish(pair: Pair) -> Shared:
        a, b = (share.reshape(*outer, 1) for share in pair)
        return Shared(a, b, x.type)

    return party.run_task(in_parts(len(first), instance_of, finish, weight=length))


def check_levels(grid: Grid) -> None:
    """Refuse a grid that no maximum is found on."""
    if grid.levels > MOST_LEVELS:
        raise FixedPointTypeError(
            f"A maximum is found on at most {MOST_LEVELS} levels, got {grid.levels}. "
            f"Cut more bits."
        )


def coarse_max_cost(
    rows: int, length: int, grid: Grid, rounds: Rounds = 2, *, checked: bool = False
) -> Cost:
    """Of ``rows`` rows of ``length`` elements."""
    levels, width = grid.levels, _sum_ring(grid).bits
    far = FAR_CELLS if checked and grid.far_cut is not None else 0
    vectors, results = product_fields(rounds)
    bits = 0
    for n in part_sizes(rows, length):
        bits += n * length * (levels + far)
        bits += n * levels * (2 * SUBSETS + 3 * (SUBSETS - 1))
        bits += 8 * vectors * packed_size(n * (levels - 1), width)
        bits += 8 * (results + 1) * packed_size(n, width)
    deepest = 2 + (SUBSETS - 1).bit_length() + rounds
    return Cost(bits, deepest if len(part_sizes(rows, length)) > 1 else _ALONE)


def _steps(
    role: Role, shares: Pair, grid: Grid, rounds: Rounds, checked: bool
) -> PairSteps:
    level = level_summand(role, shares, grid)
    if checked:
        words, far = yield from together(
            _thermometers(role, level, grid), far_flags(role, shares, grid)
        )
        if words is not None and far is not None:
            near = _level_flags(role, words, grid)
            note_flags(role, np.concatenate([near, far]))
    else:
        words = yield from _thermometers(role, level, grid)
    sums = None if words is None else _subset_sums(role, words).reshape(-1)
    shape = (len(level), SUBSETS, grid.words)
    pair = yield from two_to_three(role, sums, prod(shape), grid.group)
    a, b = (share.reshape(shape) for share in pair)
    none = yield from _all_clear(role, (a, b))
    return (yield from _count(role, none, grid, rounds))


def _thermometers(role: Role, level: Words, grid: Grid) -> Steps[Words | None]:
    """Step 1: at P0 and P2 words (R, n, words) in which bit v says whether c >= v."""
    words = yield from shared_one_hot(role, level, grid.levels, "levels")
    return None if words is None else _from_the_top(words, grid)


def _level_flags(role: Role, words: Words, grid: Grid) -> Words:
    """Shares of whether a level is none of those in the range, as lowest bits."""

    def reached(level: int) -> Words:
        word, bit = divmod(level, grid.word.bits)
        flat: Words = words[..., word].reshape(-1)
        return (flat >> flat.dtype.type(bit)).astype(np.uint8)

    first, end = grid.legal.start, grid.legal.stop
    flags: Words = np.zeros(words[..., 0].size, np.uint8)
    if first > 0:
        flags = flags ^ reached(first) ^ np.uint8(role.rank == P0)
    if end < grid.levels:
        flags = flags ^ reached(end)
    return flags


def _from_the_top(words: Words, grid: Grid) -> Words:
    """Bit v becomes the XOR of all bits from v upwards."""
    dtype, step = grid.word.dtype, 1
    while step < grid.word.bits:
        words = words ^ (words >> dtype.type(step))
        step *= 2
    for i in range(grid.words - 2, -1, -1):
        carry = words[..., i + 1] & dtype.type(1)
        words[..., i] ^= np.negative(carry)
    return words


def _subset_sums(role: Role, words: Words) -> Words:
    """Step 2: the sums of random subsets of every row, (R, k, words)."""
    rows, length, _ = words.shape
    shared = masks_of_p0_p2(role)
    subsets = shared.draw("subsets", rows * length, _SUBSET_RING).reshape(rows, length)
    sums = np.empty((rows, SUBSETS, words.shape[2]), words.dtype)
    one = np.uint32(1)
    for i in range(words.shape[2]):
        column = np.ascontiguousarray(words[..., i])
        for k in range(SUBSETS):
            inside = np.negative(((subsets >> np.uint32(k)) & one).astype(words.dtype))
            np.bitwise_and(column, inside, out=inside)
            sums[:, k, i] = np.bitwise_xor.reduce(inside, axis=1)
    return sums


def _all_clear(role: Role, pair: Pair) -> Steps[Pair]:
    """The AND over axis 1 of the complements, by halves: shares of (R, words)."""
    first, second = complement(role.rank, pair)
    while first.shape[1] > 1:
        half = first.shape[1] // 2
        x = first[:, :half], second[:, :half]
        y = first[:, half:], second[:, half:]
        first, second = yield from and_words(role, x, y, f"and {half}")
    return first[:, 0], second[:, 0]


def _count(role: Role, none: Pair, grid: Grid, rounds: Rounds) -> PairSteps:
    """Steps 4 and 5: from bits to the value on the grid."""
    first, second = complement(role.rank, none)
    known = {P0: first, P1: first ^ second, P2: second}[role.rank]
    ring = _sum_ring(grid)
    bits = _bits(known, ring)  # S at P1 and K at P0 and P2: (R, V - 1)
    totals = bits.sum(axis=1, dtype=ring.dtype)
    products, sums = yield from together(
        two_party_product(role, bits, ring, rounds),
        replicate_two_party(role, totals, ring),
    )
    base = grid.base
    offsets = (base if role.rank == P0 else 0, base if role.rank == P2 else 0)
    a, b = (
        _placed(total - product - product, grid, offset)
        for total, product, offset in zip(sums, products, offsets, strict=True)
    )
    return a, b


def _sum_ring(grid: Grid) -> Ring:
    """Where levels are counted: the bits above those cut."""
    return Ring(grid.type.bits - grid.cut)


def _bits(words: Words, ring: Ring) -> Words:
    """The bits of every level but the lowest, which all values reach: (R, V - 1)."""
    little = words.astype(words.dtype.newbyteorder("<"), copy=False)
    flat = np.unpackbits(little.view(np.uint8), axis=1, bitorder="little")
    return flat[:, 1:].astype(ring.dtype)


def _placed(count: Words, grid: Grid, offset: int) -> Words:
    """A share of a level as one of a value, in the ring of x."""
    ring = grid.type.ring
    counted = _sum_ring(grid).reduce(count).astype(ring.dtype)
    return ring.reduce((counted << ring.dtype.type(grid.cut)) + ring.scalar(offset))
