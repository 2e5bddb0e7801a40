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
       XOR). The AND of their complements is the complement of the OR: pairs of words
       are put together until two are left, in log2(k) - 1 rounds of ``blocks.bits``. If
       rounds are to be few it is done by fours, in one round each with more bits
       (``blocks.conjunction`` modulo 2).
    4. The level of the maximum is the number of bits v > 0 that are set: all of them,
       less the sum over v of the AND of the last two bits, over Z_2^w
       (``blocks.conjunction``), in two rounds or in one.
    5. The result is (level << t) + base, at the type of x.
    6. If it is checked, P0 and P2 note levels that no x in its range has
       (``blocks.range_check``): bits of step 1 say so. Further out levels count around;
       what lies there is seen by cells far beyond the grid (``blocks.grid``).

Cost
    per element V bits, and 16 for each far word if it is checked; per row 2kV bits, and
    for steps 3 and 4 in two rounds 3(k - 2)V + w(3V - 1) bits, in one 10kV + w(6V - 4).
    8 rounds, 7 where rows are few; 5 if step 4 is in one.
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
    P2,
    Grid,
    Rounds,
    and_words,
    complement,
    conjunction_bits,
    far_flags,
    known_bits,
    level_summand,
    masks_of_p0_p2,
    note_flags,
    shared_one_hot,
    summed_conjunctions,
    together,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Pair,
    PairSteps,
    Party,
    Role,
    Steps,
    part_sizes,
    shares_in_parts,
)
from ditto.sharing import Shared

SUBSETS = 32
_SUBSET_RING = Ring(SUBSETS)
MOST_LEVELS = 1 << 8
"""Of a maximum: what a row costs grows with them."""
_ALONE = 7
"""Rounds of one part by itself: its last messages do not wait for all before them."""
_BIT = Ring(1)
_LAST = 2
"""Words whose AND is taken as integers."""
_ARITY = 4
"""Words that one round puts together, if rounds are to be few."""


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

    def finish(pair: Pair) -> Shared:
        a, b = (share.reshape(*outer, 1) for share in pair)
        return Shared(a, b, x.type)

    task = shares_in_parts(
        (first, second),
        lambda role, pair: _steps(role, pair, grid, rounds, checked),
        finish,
        weight=length,
    )
    return party.run_task(task)


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
    far = FAR_CELLS * len(grid.far_cells(grid.words_of_ring)) if checked else 0
    bits, arities = 0, _arities(rounds)
    for n in part_sizes(rows, length):
        bits += n * length * (levels + far) + n * levels * 2 * SUBSETS
        left = SUBSETS
        for arity in arities:
            left //= arity
            if rounds == 1:
                bits += conjunction_bits(n * levels * left, 1, arity, 1, rounds)
            else:
                bits += 3 * n * levels * left
        bits += conjunction_bits(n, levels - 1, _LAST, width, rounds)
    deepest = 2 + len(arities) + rounds
    few = rounds == 2 and len(part_sizes(rows, length)) == 1
    return Cost(bits, deepest - few)


def _arities(rounds: Rounds) -> list[int]:
    """How many words each round of step 3 puts together, until two are left."""
    found, left = [], SUBSETS
    while left > _LAST:
        wide = rounds == 1 and left >= _ARITY * _LAST
        found.append(_ARITY if wide else 2)
        left //= found[-1]
    return found


def _steps(
    role: Role, shares: Pair, grid: Grid, rounds: Rounds, checked: bool
) -> PairSteps:
    level = level_summand(role, shares, grid)
    if checked:
        words, far = yield from together(
            _thermometers(role, level, grid),
            far_flags(role, shares, grid, grid.words_of_ring),
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
    if rounds == 1:
        last = yield from _by_fours(role, complement(role.rank, (a, b)))
    else:
        last = yield from _by_pairs(role, complement(role.rank, (a, b)))
    return (yield from _count(role, last, grid, rounds))


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


def _by_pairs(role: Role, pair: Pair) -> Steps[Words]:
    """The ANDs of halves over axis 1: what is known of two bits, (R, 2, V)."""
    first, second = pair
    while first.shape[1] > _LAST:
        half = first.shape[1] // 2
        x = first[:, :half], second[:, :half]
        y = first[:, half:], second[:, half:]
        first, second = yield from and_words(role, x, y, f"and {half}")
    return _unpacked(known_bits(role, (first, second)))


def _by_fours(role: Role, pair: Pair) -> Steps[Words]:
    """The same in fewer rounds, of bits that are not packed."""
    bits = _unpacked(known_bits(role, pair))
    for k, arity in enumerate(_arities(1)):
        rows, words, levels = bits.shape
        groups = bits.reshape(rows, words // arity, arity, levels).swapaxes(2, 3)
        a, b = yield from summed_conjunctions(
            role.within(f"round {k}"), groups.reshape(-1, 1, arity), _BIT, 1
        )
        known = _BIT.reduce(known_bits(role, (_BIT.reduce(a), _BIT.reduce(b))))
        bits = known.reshape(rows, words // arity, levels)
    return bits


def _count(role: Role, last: Words, grid: Grid, rounds: Rounds) -> PairSteps:
    """Steps 4 and 5: from bits to the value on the grid."""
    ring = _sum_ring(grid)
    bits = last[:, :, 1:].swapaxes(1, 2)  # all values reach the lowest level
    a, b = yield from summed_conjunctions(role.within("count"), bits, ring, rounds)
    top = grid.base + (grid.levels - 1 << grid.cut)
    offsets = (top if role.rank == P0 else 0, top if role.rank == P2 else 0)
    first, second = (
        _placed(np.negative(count), grid, offset)
        for count, offset in zip((a, b), offsets, strict=True)
    )
    return first, second


def _sum_ring(grid: Grid) -> Ring:
    """Where levels are counted: the bits above those cut."""
    return Ring(grid.type.bits - grid.cut)


def _unpacked(words: Words) -> Words:
    """The bits of every level: (R, k, V) from (R, k, words)."""
    little = words.astype(words.dtype.newbyteorder("<"), copy=False)
    return np.unpackbits(little.view(np.uint8), axis=-1, bitorder="little")


def _placed(count: Words, grid: Grid, offset: int) -> Words:
    """A share of a level as one of a value, in the ring of x."""
    ring = grid.type.ring
    counted = _sum_ring(grid).reduce(count).astype(ring.dtype)
    return ring.reduce((counted << ring.dtype.type(grid.cut)) + ring.scalar(offset))
