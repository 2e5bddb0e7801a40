"""Words of V bits of which one is set, at a place that no party knows.

The place is the sum modulo V, a power of two, of what P1 knows and of what P0 and P2
know: the cell that a value lies in, or the one before (``two_party``).

Steps
    1. P1 writes 1 << its summand, a word of V bits, and splits it between P0 and P2
       (``two_party``, with XOR).
    2. They rotate their words by their summand: XOR shares of 1 << place. What is
       linear in its bits is local from here on: any bit of a public table's entry at
       the place is the XOR of the bits where the table has a one (``selected_bits``).

Cost
    V bits per element, one round.

Security
    Only P2 sees a message, that of ``two_party``: uniform and independent of all else
    it knows. Step 2 is local.

Source
    docs/explanation/protocols.md. One-hot words rotated by a public offset are the
    tables of Ishai et al., "On the Power of Correlated Randomness" (TCC 2013), with P1
    as the dealer.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import RINGS, Ring, Words
from ditto.native import tables as native
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.two_party import P1, split_of_p1
from ditto.protocols.party import Role, Steps

_COLUMNS = 4
"""Of a table whose entries are added up: they fit one vector of the processor."""


def word_ring(count: int) -> Ring:
    """What ``count`` bits are held in; more than 64 in several words."""
    return RINGS[min(count, 64) - 1]


def shared_one_hot(
    role: Role, summand: Words, count: int, purpose: str
) -> Steps[Words | None]:
    """At P0 and P2 shares of the words of every element: (*shape, words)."""
    ring = word_ring(count)
    words = count // ring.bits
    value = one_hot(summand, count).reshape(-1) if role.rank == P1 else None
    group = Group(ring, xor=True)
    shares = yield from split_of_p1(role, value, summand.size * words, group, purpose)
    if role.rank == P1:
        return None
    (share,) = shares
    return rotated(share.reshape(*summand.shape, words), summand, count)


def selected_bits(words: Words, columns: Sequence[int]) -> Words:
    """Shares of a table's entries, from shares of one-hot words (N, words).

    Bit j of an entry has a column: the places at which it is set, as a number of V
    bits. Words of as many bits as there are columns, or more.
    """
    width, entries = 8 * words.dtype.itemsize, RINGS[max(8, len(columns)) - 1]
    found: Words = np.zeros(len(words), entries.dtype)
    for j, column in enumerate(columns):
        parts = [column >> width * i & (1 << width) - 1 for i in range(words.shape[1])]
        kept = np.zeros(len(words), words.dtype)
        for i, part in enumerate(parts):
            if part:
                kept ^= words[:, i] & words.dtype.type(part)
        odd = np.bitwise_count(kept) & np.uint8(1)
        found |= odd.astype(entries.dtype) << entries.dtype.type(j)
    return found


def byte_sums(table: npt.NDArray[np.int64]) -> Words:
    """What ``summed_entries`` adds up, of a table of (up to 4 columns, V): for each
    byte of a word and each of its values four numbers modulo 2^32."""
    columns, count = table.shape
    padded = np.zeros((_COLUMNS, count), np.int64)
    padded[:columns] = table
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    sums = padded.reshape(_COLUMNS, count // 8, 8) @ bits.T
    return np.ascontiguousarray(np.moveaxis(sums, 0, -1)).astype(np.uint32)


def summed_entries(words: Words, sums: Words) -> Words:
    """The sums of a table's entries where words (N, words) have ones, modulo 2^32:
    (4, N), for a table's ``byte_sums``."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    if native.there():
        return native.summed(octets, sums)
    total = np.zeros((len(words), _COLUMNS), np.uint32)
    for k, each in enumerate(sums):
        total += each[octets[:, k]]
    return np.ascontiguousarray(total.T)


def one_hot(place: Words, count: int) -> Words:
    """1 << place, words of ``count`` bits: (*shape, words)."""
    ring = word_ring(count)
    dtype, width = ring.dtype, ring.bits
    bits = dtype.type(1) << (place & place.dtype.type(width - 1)).astype(dtype)
    if count == width:
        return np.asarray(bits[..., None])
    which = place // place.dtype.type(width)
    places = np.arange(count // width, dtype=which.dtype)
    words = np.where(which[..., None] == places, bits[..., None], dtype.type(0))
    return np.asarray(words)


def rotated(share: Words, by: Words, count: int) -> Words:
    """Every word rotated left by its number, as one ring of all its bits."""
    ring = word_ring(count)
    dtype, width = ring.dtype, ring.bits
    low = (by & by.dtype.type(width - 1)).astype(dtype)
    one, back = dtype.type(1), dtype.type(width - 1) - low
    parts = [np.ascontiguousarray(share[..., i]) for i in range(count // width)]
    step, which = 1, by // by.dtype.type(width)
    while step < len(parts):  # whole words, by the bits of how many
        turns = which & by.dtype.type(step) != 0
        parts = [np.where(turns, parts[i - step], p) for i, p in enumerate(parts)]
        step *= 2
    rotated = np.empty((len(parts), *by.shape), dtype)
    for i, part in enumerate(parts):
        rotated[i] = (part << low) | (parts[i - 1] >> one >> back)
    return np.moveaxis(rotated, 0, -1)
