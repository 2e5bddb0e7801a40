"""coarse_max: the maximum of every row, to the next step of a coarse grid.

Softmax does not change when one number is subtracted from a whole row, so a number near
the maximum serves as well as the maximum, and values that are coarse have few levels:
the maximum is found level by level instead of pair by pair, in a number of rounds that
does not depend on the length of a row.

Notation: x has type (l, f) and low <= x < high as integers; t bits are cut off; the
grid has V = 2^b levels; a row has n elements; w = l - t. Levels that the range does not
need lie below and above it alike, so the grid starts at base <= low.

Steps
    0. a = x0 - base + 2^t at P0 and P2, s = x1 + x2 at P1. The level of an element is
       c = (a >> t) + (s >> t) mod V: the floor of (x - base) / 2^t + 1, or one less.
    1. P1 writes 1 << (s >> t), a word of V bits, and splits it between P0 and P2
       (``blocks.two_party``, with XOR). They rotate their words by a >> t places: XOR
       shares of 1 << c. The XOR of all bits from v upwards is 1 if c >= v and 0 if not:
       they replace bit v by it, which is linear, so local.
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
       (``blocks.range_check``): bits of step 1 say so. Further out levels count around.
       So P1 also splits a word of 16 bits that says where s lies among as many cells,
       each an eighth of the grid: those that the grid does not meet are noted too.

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
    docs/explanation/protocols.md. One-hot words rotated by a public offset are the
    tables of Ishai et al., "On the Power of Correlated Randomness" (TCC 2013), with P1
    as the dealer; random subsets for OR are Razborov's (1987).
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    P2,
    Group,
    Rounds,
    and_words,
    cell_index,
    complement,
    masks_of_p0_p2,
    note_flags,
    product_fields,
    replicate_two_party,
    split_of_p1,
    together,
    two_party_product,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.party import (
    Exchange,
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
FAR_CELLS, CELLS_OF_GRID = 16, 8
"""Cells by which values far beyond a grid are seen, and how many make up the grid."""
_FAR_RING = Ring(FAR_CELLS)
_FAR = Group(_FAR_RING, xor=True)
_FAR_OUTSIDE = np.uint16(sum(1 << c for c in range(CELLS_OF_GRID + 1, FAR_CELLS)))
"""Cells that values on the grid are never found in."""
_ALONE = 8
"""Rounds of one part by itself: its last messages do not wait for all before them."""


@dataclass(frozen=True)
class Grid:
    """Where values lie, and how coarsely they are compared: integers of ``type``."""

    type: FxpType
    low: int
    high: int
    cut: int

    def __post_init__(self) -> None:
        limit, span = self.type.limit, self.high - self.low
        if not (-limit <= self.low < self.high <= limit and 0 <= self.cut < 30):
            raise FixedPointTypeError(
                f"Values of {self.type} cannot lie between {self.low} and {self.high}, "
                f"or not be compared without their last {self.cut} bits."
            )
        if self.levels > MOST_LEVELS:
            raise FixedPointTypeError(
                f"A range of {span} in steps of {1 << self.cut} has more than "
                f"{MOST_LEVELS} levels. Cut more bits."
            )

    @property
    def _needed(self) -> int:
        """Levels that values in the range have."""
        return ((self.high - self.low - 1) >> self.cut) + 2

    @property
    def levels(self) -> int:
        """V: a power of two, so that levels count around."""
        return max(8, 1 << (self._needed - 1).bit_length())

    @property
    def legal(self) -> range:
        """The levels that values in the range have."""
        first = (self.levels - self._needed) // 2
        return range(first, first + self._needed)

    @property
    def base(self) -> int:
        """Where the grid starts: values from here on have level 1, or 0."""
        return self.low - (self.legal.start << self.cut)

    @property
    def far_cut(self) -> int | None:
        """log2 of a far cell's width; None if the ring has no room beyond the grid."""
        width = self.cut + (self.levels // CELLS_OF_GRID - 1).bit_length()
        return width if 1 << self.type.bits - width >= FAR_CELLS else None

    @property
    def word(self) -> Ring:
        """What a row of bits, one for each level, is held in; wide ones in several."""
        return Ring(min(self.levels, 64))

    @property
    def words(self) -> int:
        """How many."""
        return self.levels // self.word.bits

    @property
    def group(self) -> Group:
        """How shares of those words add up."""
        return Group(self.word, xor=True)

    @property
    def sum_ring(self) -> Ring:
        """Where levels are counted: the bits above those cut."""
        return Ring(self.type.bits - self.cut)


def coarse_max(
    party: Party,
    x: Shared,
    grid: Grid,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """The maximum over the last axis, kept as an axis of size one."""
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


def coarse_max_cost(
    rows: int, length: int, grid: Grid, rounds: Rounds = 2, *, checked: bool = False
) -> Cost:
    """Of ``rows`` rows of ``length`` elements."""
    levels, width = grid.levels, grid.sum_ring.bits
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
    above_base = (1 << grid.cut) - grid.base
    summand = two_party_summand(role, shares, grid.type.ring, above_base)
    level = cell_index(summand, grid.cut, grid.levels)
    if checked:
        words, far = yield from together(
            _thermometers(role, level, grid), _far_flags(role, shares, grid)
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
    size = level.size * grid.words
    one_hot = _one_hot(level, grid).reshape(-1) if role.rank == P1 else None
    shares = yield from split_of_p1(role, one_hot, size, grid.group, "levels")
    if role.rank == P1:
        return None
    (share,) = shares
    rotated = _rotated(share.reshape(*level.shape, grid.words), level, grid)
    return _from_the_top(rotated, grid)


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


def _far_flags(role: Role, shares: Pair, grid: Grid) -> Steps[Words | None]:
    """Shares of whether x lies far beyond the grid, as lowest bits, at P0 and P2."""
    cut, size = grid.far_cut, shares[0].size
    if cut is None:
        yield Exchange()
        return None if role.rank == P1 else np.zeros(0, np.uint8)
    summand = two_party_summand(
        role, shares, grid.type.ring, (1 << cut) - grid.base
    ).reshape(-1)
    cell = cell_index(summand, cut, FAR_CELLS).astype(np.uint16)
    one_hot = np.uint16(1) << cell if role.rank == P1 else None
    held = yield from split_of_p1(role, one_hot, size, _FAR, "far")
    if role.rank == P1:
        return None
    (share,) = held
    back = (np.uint16(FAR_CELLS) - cell) & np.uint16(FAR_CELLS - 1)
    outside = ((share << cell) | (share >> back)) & _FAR_OUTSIDE
    for step in (8, 4, 2, 1):
        outside = outside ^ (outside >> np.uint16(step))
    return outside.astype(np.uint8)


def _one_hot(level: Words, grid: Grid) -> Words:
    dtype, width = grid.word.dtype, grid.word.bits
    bits = dtype.type(1) << (level & level.dtype.type(width - 1)).astype(dtype)
    if grid.words == 1:
        return np.asarray(bits[..., None])
    which = level // level.dtype.type(width)
    places = np.arange(grid.words, dtype=which.dtype)
    words = np.where(which[..., None] == places, bits[..., None], dtype.type(0))
    return np.asarray(words)


def _rotated(share: Words, level: Words, grid: Grid) -> Words:
    """Every word rotated left by its level, as one ring of all its bits."""
    dtype, width = grid.word.dtype, grid.word.bits
    low = (level & level.dtype.type(width - 1)).astype(dtype)[..., None]
    back = (dtype.type(width) - low) & dtype.type(width - 1)
    if grid.words == 1:
        return np.asarray((share << low) | (share >> back))
    which = (level // level.dtype.type(width)).astype(np.int64)[..., None]
    places = (np.arange(grid.words) - which) % grid.words
    here = np.take_along_axis(share, places, -1)
    below = np.take_along_axis(share, (places - 1) % grid.words, -1)
    spilt = np.where(low > 0, below >> back, dtype.type(0))
    return np.asarray((here << low) | spilt)


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
    ring = grid.sum_ring
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


def _bits(words: Words, ring: Ring) -> Words:
    """The bits of every level but the lowest, which all values reach: (R, V - 1)."""
    little = words.astype(words.dtype.newbyteorder("<"), copy=False)
    flat = np.unpackbits(little.view(np.uint8), axis=1, bitorder="little")
    return flat[:, 1:].astype(ring.dtype)


def _placed(count: Words, grid: Grid, offset: int) -> Words:
    """A share of a level as one of a value, in the ring of x."""
    ring = grid.type.ring
    counted = grid.sum_ring.reduce(count).astype(ring.dtype)
    return ring.reduce((counted << ring.dtype.type(grid.cut)) + ring.scalar(offset))
