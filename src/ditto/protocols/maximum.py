"""coarse_max: the maximum of every row, to the next step of a coarse grid.

Softmax does not change when one number is subtracted from a whole row, so a number near
the maximum serves as well as the maximum, and values that are coarse have few levels:
the maximum is found level by level instead of pair by pair, in a number of rounds that
does not depend on the length of a row.

Notation: x has type (l, f) and low <= x < high as integers; t bits are cut off; the
grid has V = 2^b levels; a row has n elements; w = l - t.

Steps
    0. a = x0 - low + 2^t at P0 and P2, s = x1 + x2 at P1. The level of an element is
       c = (a >> t) + (s >> t) mod V: the floor of (x - low) / 2^t + 1, or one less.
    1. P1 writes 1 << (s >> t), a word of V bits, and sends it to P2 hidden by a mask of
       P0 and P1. P0, with the mask, and P2 turn their words by a >> t places: XOR
       shares of 1 << c. The XOR of all bits from v upwards is 1 if c >= v and 0 if not:
       they replace bit v by it, which is linear, so local.
    2. A bit of the row's result is the OR of the bits of its elements. P0 and P2 take k
       = 32 random subsets of every row, known to both and not to P1, and XOR the words
       in each: if all bits are 0 so are their sums, and if one is 1, then with a chance
       of 1 - 2^-k a sum is 1.
    3. P0 sends its k words of every row to P1, and so does P2, hidden by two masks of
       P0 and P2: replicated shares of the words. The AND of their complements, in
       log2(k) rounds of ``and_bits``, is the complement of the OR.
    4. The level of the maximum is the number of bits v > 0 that are set. Bit v is
       S_v ^ K_v with S known to P1 and K to P0 and P2, so the sum over v is
       S + K - 2 * sum S_v K_v over Z_2^w: P1 reshares its S, and the product is shared
       as in ``recast``, for a vector instead of one bit, in two rounds or in one.
    5. The result is (level << t) + low, at the type of x.

Cost
    an element V bits; a row 2kV + 3(k - 1)V bits, and in two rounds w(V + 2) bits, in
    one w(2V + 1). 7 rounds and those of step 4; 8 where rows are few.
    Result minus maximum lies in (-2^t, 2^t]. A row in which one bit is lost in step 2,
    with a chance of 2^-32 for each of its distinct sets, is lower by a step for each.

Security (semi-honest, one corrupted party)
    P2 sees in step 1 a word hidden by a mask of P0 and P1. P1 sees in step 3 words
    hidden by two independent masks of P0 and P2. Step 3 goes on as ``and_bits``. Step 4
    is the product of ``recast``: P2 sees S - rho (or S + p and the sum of K*p, hidden
    by r1) and a share of S under a mask; P1 sees two sums hidden by masks of P0 and P2,
    or nothing; P0 sees, in one round, S + q and a sum hidden by r2. Every mask is fresh
    and unknown to who sees what it hides. The subsets of step 2 hide nothing; that P1
    does not know them is not needed. Nothing depends on whether x is in its range.

Source
    docs/explanation/protocols.md. One-hot words turned by a public offset are the
    tables of Ishai et al., "On the Power of Correlated Randomness" (TCC 2013), with P1
    as the dealer; random subsets for OR are Razborov's (1987).
"""

from dataclasses import dataclass

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
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
from ditto.sharing import Rank, Shared, packed_size

SUBSETS = 32
_SUBSET_RING = Ring(SUBSETS)
MOST_LEVELS = 1 << 8
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
    def levels(self) -> int:
        """V: a power of two, so that levels count around."""
        due = ((self.high - self.low - 1) >> self.cut) + 2
        return max(8, 1 << (due - 1).bit_length())

    @property
    def word(self) -> Ring:
        """What a row of bits, one for each level, is held in; wide ones in several."""
        return Ring(min(self.levels, 64))

    @property
    def words(self) -> int:
        """How many."""
        return self.levels // self.word.bits

    @property
    def sum_ring(self) -> Ring:
        """Where levels are counted: the bits above those cut."""
        return Ring(self.type.bits - self.cut)


def coarse_max(party: Party, x: Shared, grid: Grid, rounds: Rounds = 2) -> Shared:
    """The maximum over the last axis, kept as an axis of size one."""
    *outer, length = x.shape
    first, second = (s.reshape(-1, length) for s in (x.first, x.second))

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            return _steps(role, first[part], second[part], grid, rounds)

        return instance

    def finish(pair: Pair) -> Shared:
        a, b = (share.reshape(*outer, 1) for share in pair)
        return Shared(a, b, x.type)

    return party.take(in_parts(len(first), instance_of, finish, weight=length))


def coarse_max_cost(rows: int, length: int, grid: Grid, rounds: Rounds = 2) -> Cost:
    """Of ``rows`` rows of ``length`` elements."""
    levels, width = grid.levels, grid.sum_ring.bits
    vectors, numbers = (1, 3) if rounds == 2 else (2, 3)
    bits = 0
    for n in part_sizes(rows, length):
        bits += n * length * levels
        bits += n * levels * (2 * SUBSETS + 3 * (SUBSETS - 1))
        bits += 8 * vectors * packed_size(n * (levels - 1), width)
        bits += 8 * numbers * packed_size(n, width)
    deepest = 2 + (SUBSETS - 1).bit_length() + rounds
    return Cost(bits, deepest if len(part_sizes(rows, length)) > 1 else _ALONE)


def _steps(
    role: Role, first: Words, second: Words, grid: Grid, rounds: Rounds
) -> PairSteps:
    above_low = (1 << grid.cut) - grid.low
    summand = summand_of(role, (first, second), grid.type.ring, above_low)
    words = yield from _thermometers(role, place(summand, grid.cut, grid.levels), grid)
    sums = None if words is None else _subset_sums(role, words)
    pair = yield from _replicate(role, sums, len(first), grid)
    none = yield from _all_clear(role, pair)
    return (yield from _count(role, none, grid, rounds))


def place(summand: Words, cut: int, count: int) -> Words:
    """A summand without its last bits, modulo a power of two: part of a place."""
    shifted = summand >> summand.dtype.type(cut)
    return np.asarray(shifted & shifted.dtype.type(count - 1))


def _thermometers(role: Role, level: Words, grid: Grid) -> Steps[Words | None]:
    """Step 1: at P0 and P2 words (R, n, words) in which bit v says whether c >= v."""
    word, size = grid.word, level.size * grid.words
    if role.rank == P1:
        mask = role.previous.draw("levels", size, word)
        hidden = _one_hot(level, grid).reshape(-1) ^ mask
        yield Exchange(send={P2: [Field(hidden, word.bits)]})
        return None
    if role.rank == P0:
        share = role.next.draw("levels", size, word)
        yield Exchange()
    else:
        inbox = yield Exchange(receive={P1: [Expected(size, word.bits)]})
        (share,) = inbox[P1]
    turned = _turned(share.reshape(*level.shape, grid.words), level, grid)
    return _from_the_top(turned, grid)


def _one_hot(level: Words, grid: Grid) -> Words:
    dtype, width = grid.word.dtype, grid.word.bits
    bits = dtype.type(1) << (level & level.dtype.type(width - 1)).astype(dtype)
    if grid.words == 1:
        return np.asarray(bits[..., None])
    which = level // level.dtype.type(width)
    places = np.arange(grid.words, dtype=which.dtype)
    held = np.where(which[..., None] == places, bits[..., None], dtype.type(0))
    return np.asarray(held)


def _turned(share: Words, level: Words, grid: Grid) -> Words:
    """Every word turned left by its level, as one ring of all its bits."""
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
    shared = masks_beside_p1(role)
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


def _replicate(role: Role, sums: Words | None, rows: int, grid: Grid) -> Steps[Pair]:
    """Step 3: from XOR shares of P0 and P2 to replicated shares."""
    shape = (rows, SUBSETS, grid.words)
    size = int(np.prod(shape))
    if sums is None:
        due = [Expected(size, grid.word.bits)]
        inbox = yield Exchange(receive={P0: due, P2: due})
        (from0,), (from2,) = inbox[P0], inbox[P2]
        return from0.reshape(shape), from2.reshape(shape)
    shared = masks_beside_p1(role)
    k0, k2 = (shared.draw(name, size, grid.word) for name in ("k0", "k2"))
    mine = sums.reshape(-1) ^ (k0 if role.rank == P0 else k2)
    yield Exchange(send={P1: [Field(mine, grid.word.bits)]})
    both, own = (k0 ^ k2).reshape(shape), mine.reshape(shape)
    return (both, own) if role.rank == P0 else (own, both)


def _all_clear(role: Role, pair: Pair) -> Steps[Pair]:
    """The AND over axis 1 of the complements, by halves: shares of (R, words)."""
    first, second = _complement(role.rank, *pair)
    ring = Ring(8 * first.dtype.itemsize)
    while first.shape[1] > 1:
        half = first.shape[1] // 2
        x1, y1 = first[:, :half], first[:, half:]
        x2, y2 = second[:, :half], second[:, half:]
        z = (x1 & (y1 ^ y2)) ^ (x2 & y1)
        ahead = role.next.draw(f"and {half}", z.size, ring).reshape(z.shape)
        behind = role.previous.draw(f"and {half}", z.size, ring).reshape(z.shape)
        first = z ^ ahead ^ behind
        inbox = yield Exchange(
            send={role.rank.previous: [Field(first, ring.bits)]},
            receive={role.rank.next: [Expected(z.size, ring.bits)]},
        )
        second = inbox[role.rank.next][0].reshape(z.shape)
    return first[:, 0], second[:, 0]


def _complement(rank: Rank, first: Words, second: Words) -> Pair:
    return (~first if rank == P0 else first), (~second if rank == P2 else second)


def _count(role: Role, none: Pair, grid: Grid, rounds: Rounds) -> PairSteps:
    """Steps 4 and 5: from bits to the value on the grid."""
    first, second = _complement(role.rank, *none)
    known = {P0: first, P1: first ^ second, P2: second}[role.rank]
    count = _count_in_two if rounds == 2 else _count_in_one
    pair = yield from count(role, _bits(known, grid.sum_ring), grid.sum_ring)
    offsets = (grid.low if role.rank == P0 else 0, grid.low if role.rank == P2 else 0)
    a, b = (_placed(s, grid, low) for s, low in zip(pair, offsets, strict=True))
    return a, b


def _count_in_two(role: Role, bits: Words, ring: Ring) -> PairSteps:
    """``bits`` are S at P1 and K at P0 and P2, (R, V - 1)."""
    rows, width = len(bits), ring.bits
    total = bits.sum(axis=1, dtype=ring.dtype)
    if role.rank == P1:
        rho = role.previous.draw("rho", bits.size, ring)
        s1 = role.previous.draw("s1", rows, ring)
        s2 = total - s1
        inbox = yield Exchange(
            send={P2: [Field(bits.reshape(-1) - rho, width), Field(s2, width)]},
            receive={P0: [Expected(rows, width)]},
        )
        (d0,) = inbox[P0]
        inbox = yield Exchange(receive={P2: [Expected(rows, width)]})
        (d2,) = inbox[P2]
        return s1 - d0 - d0, s2 - d2 - d2
    shared = masks_beside_p1(role)
    m0, m2 = shared.draw("m0", rows, ring), shared.draw("m2", rows, ring)
    own = total - (m0 + m2) - (m0 + m2)
    if role.rank == P0:
        d0 = _dot(bits, role.next.draw("rho", bits.size, ring)) - m0
        s1 = role.next.draw("s1", rows, ring)
        yield Exchange(send={P1: [Field(d0, width)]})
        return own, s1 - d0 - d0
    inbox = yield Exchange(
        receive={P1: [Expected(n, width) for n in (bits.size, rows)]}
    )
    masked, s2 = inbox[P1]
    d2 = _dot(bits, masked) - m2
    yield Exchange(send={P1: [Field(d2, width)]})
    return s2 - d2 - d2, own


def _count_in_one(role: Role, bits: Words, ring: Ring) -> PairSteps:
    """As ``_count_in_two``."""
    rows, width = len(bits), ring.bits
    total = bits.sum(axis=1, dtype=ring.dtype)
    if role.rank == P1:
        p = role.previous.draw("p", bits.size, ring)
        q = role.next.draw("q", bits.size, ring)
        r1, s1 = (role.previous.draw(name, rows, ring) for name in ("r1", "s1"))
        r2 = role.next.draw("r2", rows, ring)
        flat, s2 = bits.reshape(-1), total - s1
        yield Exchange(
            send={
                P0: [Field(flat + q, width)],
                P2: [Field(flat + p, width), Field(s2, width)],
            }
        )
        return s1 - r1 - r1, s2 - r2 - r2
    if role.rank == P0:
        p = role.next.draw("p", bits.size, ring)
        r1, s1 = (role.next.draw(name, rows, ring) for name in ("r1", "s1"))
        inbox = yield Exchange(
            send={P2: [Field(_dot(bits, p) + r1, width)]},
            receive={P1: [Expected(bits.size, width)], P2: [Expected(rows, width)]},
        )
        (masked,), (correction,) = inbox[P1], inbox[P2]
        product = _dot(bits, masked) - correction - r1
        return total - product - product, s1 - r1 - r1
    q = role.previous.draw("q", bits.size, ring)
    r2 = role.previous.draw("r2", rows, ring)
    inbox = yield Exchange(
        send={P0: [Field(_dot(bits, q) + r2, width)]},
        receive={
            P1: [Expected(n, width) for n in (bits.size, rows)],
            P0: [Expected(rows, width)],
        },
    )
    (masked, s2), (correction,) = inbox[P1], inbox[P0]
    product = _dot(bits, masked) - correction - r2
    return s2 - r2 - r2, total - product - product


def _dot(bits: Words, vector: Words) -> Words:
    """The sum of the vector where a bit is set, for every row."""
    held = vector.astype(bits.dtype, copy=False).reshape(bits.shape)
    return np.asarray(np.multiply(bits, held).sum(axis=1, dtype=bits.dtype))


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
