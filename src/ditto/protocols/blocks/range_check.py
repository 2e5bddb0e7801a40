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

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.two_party import P0, P1, masks_of_p0_p2, split_of_p1
from ditto.protocols.party import Role, Steps
from ditto.sharing.packing import Bytes

CHECK_WIDTH = 3
"""Bits that ``check_overflow`` sends for an element."""
VERDICT_BITS = 40
"""A value out of its range goes unnoticed by the fold with a chance of 2^-40."""
_BYTES = Group(Ring(8), xor=True)
_ALL = np.uint8(255)


def check_overflow(role: Role, summand: Words, bits: int) -> Steps[None]:
    """Note whether a + s left its range: ``summand`` is s at P1, a at P0 and P2."""
    top = (summand >> summand.dtype.type(bits - 2)).astype(np.uint8)
    size = -(-top.size // 8)
    planes = _planes(top, (0, 1, 2)) if role.rank == P1 else None
    held = yield from split_of_p1(role, planes, 3 * size, _BYTES, "range")
    if role.rank == P1:
        return
    zero, one, two = held[0].reshape(3, size)
    three = zero ^ one ^ two
    if role.rank == P0:
        three ^= _ALL
    picks = _planes(top, (2, 1, 0, 3)).reshape(4, size)
    flags = (zero & picks[0]) ^ (one & picks[1]) ^ (two & picks[2])
    fold(role, flags ^ (three & picks[3]))


def _planes(top: Words, cases: tuple[int, ...]) -> Bytes:
    """For each case the elements that are equal to it, as bits, side by side."""
    return np.concatenate([np.packbits(top == np.uint8(case)) for case in cases])


def note_flags(role: Role, shares: Words) -> None:
    """Note flags that P0 and P2 hold XOR shares of, as the lowest bits of elements."""
    fold(role, np.packbits((shares & shares.dtype.type(1)).astype(np.bool_)))


def fold(role: Role, flags: Bytes) -> None:
    """Add packed shares of flags, of P0 or P2, to the party's word, once for a role."""
    masks = masks_of_p0_p2(role)
    count = -(-flags.size // 8)
    padded = np.zeros(8 * count, np.uint8)
    padded[: flags.size] = flags
    ours = padded.view(np.uint64)
    random = masks.draw("fold", padded.size + 8, Ring(8))
    word = 0
    for shift in range(8):
        moved = _moved(random, shift)
        for start in range(VERDICT_BITS // 8):
            part = moved[start : start + padded.size].view(np.uint64)
            both = int(np.bitwise_xor.reduce(ours & part))
            word = 2 * word + both.bit_count() % 2
    role.note(word)


def _moved(string: Words, shift: int) -> Words:
    """A string of bits without its first ones; the last byte is not used."""
    if not shift:
        return string
    left = string[:-1] << np.uint8(shift)
    return np.asarray(left | (string[1:] >> np.uint8(8 - shift)))
