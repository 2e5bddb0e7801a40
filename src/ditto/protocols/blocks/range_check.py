"""range_check: whether values stayed in their range, folded into one word.

A value that leaves the range its protocol works for gives a wrong result that looks
like any other. The parties can see that without seeing the value: what tells is a bit
that P0 and P2 hold as an XOR of two. Nobody looks at these bits; each of the two folds
its own into a word of 40 bits, and the client, who is sent all three parties' words
with the answer, sees whether their XOR is zero.

Steps
    overflow: of a + s = X over Z_2^l, with a at P0 and P2 and s at P1, legal means that
    the top bit of X is 0. c = (a >> (l-2)) + (s >> (l-2)) mod 4 are the top two bits of
    X, or one less, so c = 2 only if X is not legal. P1 sends three bits, which of 0, 1
    and 2 its own top bits are, split between P0 and P2 (``two_party``); whether they
    are 3 is the XOR of the others' complement. The flag, [c = 2], is the bit at place
    2 - (a >> (l-2)) mod 4: each picks it from its share. Local.
    fold: with a string R of n + 40 random bits of P0 and P2, the word of n flags is the
    XOR of bits j to j + 39 of R over all j whose flag is set: a product with a Toeplitz
    matrix, and linear, so both compute it on their shares.

Cost
    3 bits per element in a round that P1 sends to P2 in anyway; the fold costs nothing,
    nor do flags that P0 and P2 hold already.

Security (semi-honest, one corrupted party)
    Only P2 sees a message: three bits under a mask of P0 and P1. The parties learn
    nothing of the flags, whose shares are uniform to each. The client learns the XOR of
    the words, hidden by a zero sharing (``range_word``): 0 if no flag is set, and else
    a word that is uniform to it, as R is. A client that works with P0 or P2 knows
    R and may learn which value was out of its range.

Source
    docs/explanation/protocols.md; Toeplitz hashing by Krawczyk (CRYPTO 1994).
"""

from collections.abc import Iterable

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.native import flags as native
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.two_party import P0, P1, masks_of_p0_p2, split_of_p1
from ditto.protocols.party import Role, Steps
from ditto.sharing import Masks
from ditto.sharing.packing import Bytes

CHECK_WIDTH = 3
"""Bits that ``check_overflow`` sends for an element."""
VERDICT_BITS = 40
"""A value out of its range goes unnoticed by the fold with a chance of 2^-40."""
_BYTE = Ring(8)
_BYTES = Group(_BYTE, xor=True)
_ALL = np.uint8(255)


def check_overflow(role: Role, summand: Words, bits: int) -> Steps[None]:
    """Note whether a + s left its range: ``summand`` is s at P1, a at P0 and P2."""
    size = -(-summand.size // 8)
    words = _top_planes(summand, bits) if role.rank == P1 else None
    held = yield from split_of_p1(role, words, 3 * size, _BYTES, "range")
    if role.rank != P1:
        flags = _picked(summand, bits, held[0], invert=role.rank == P0)
        fold(role, flags, masks_of_p0_p2(role))


def _top_planes(summand: Words, bits: int) -> Bytes:
    """Which elements' top two bits are 0, 1 and 2, side by side."""
    if native.there():
        return native.top_planes(summand, bits)
    return planes(_top(summand, bits), (0, 1, 2))


def _picked(summand: Words, bits: int, held: Bytes, *, invert: bool) -> Bytes:
    """The flags' shares: from a share of the planes, and what a knows of the place."""
    if native.there():
        return native.pick_planes(summand, bits, held, invert=invert)
    zero, one, two = held.reshape(3, -1)
    three = zero ^ one ^ two
    if invert:
        three ^= _ALL
    picks = planes(_top(summand, bits), (2, 1, 0, 3)).reshape(4, -1)
    flags = (zero & picks[0]) ^ (one & picks[1]) ^ (two & picks[2])
    return np.asarray(flags ^ (three & picks[3]))


def _top(summand: Words, bits: int) -> Bytes:
    return (summand >> summand.dtype.type(bits - 2)).astype(np.uint8)


def planes(top: Words, cases: Iterable[int]) -> Bytes:
    """For each case the elements that are equal to it, as bits, side by side."""
    return np.concatenate([np.packbits(top == np.uint8(case)) for case in cases])


def note_flags(role: Role, shares: Words) -> None:
    """Note flags that P0 and P2 hold XOR shares of, as the lowest bits of elements."""
    flags = np.packbits((shares & shares.dtype.type(1)).astype(np.bool_))
    fold(role, flags, masks_of_p0_p2(role))


def fold(role: Role, flags: Bytes, masks: Masks) -> None:
    """Add packed XOR shares of flags to the party's word, once for a role.

    ``masks`` are those of the two roles that hold shares.
    """
    count = -(-flags.size // 8)
    padded = np.zeros(8 * count, np.uint8)
    padded[: flags.size] = flags
    random = masks.draw("fold", padded.size + 8, _BYTE)
    role.note(_word(padded, random))


def _word(flags: Bytes, random: Words) -> int:
    """The parity of what the flags and 40 windows of a string have in common."""
    if native.there():
        return native.fold(flags, random)
    ours, word = flags.view(np.uint64), 0
    for shift in range(8):
        moved = _moved(random, shift)
        for start in range(VERDICT_BITS // 8):
            part = moved[start : start + flags.size].view(np.uint64)
            both = int(np.bitwise_xor.reduce(ours & part))
            word = 2 * word + both.bit_count() % 2
    return word


def _moved(string: Words, shift: int) -> Words:
    """A string of bits without its first ones; the last byte is not used."""
    if not shift:
        return string
    left = string[:-1] << np.uint8(shift)
    return np.asarray(left | (string[1:] >> np.uint8(8 - shift)))
