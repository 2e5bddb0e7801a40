"""Point functions with a payload: a few secret words at a secret place.

As in ``points`` the owner of an index splits it into two keys, and each of two parties
expands its key to an additive share of a vector. Here every element of the vector is
three words of 64 bits, all zero but for those at the index, which are the owner's
payload. So of a public table the parties get shares of an entry at a secret place, and
of its products with words that the owner alone knows.

Steps
    1. Split. The trees, their corrections and their invariant are those of ``points``.
       A leaf is two elements next to each other, so the tree has a level less than they
       have bits. G_leaf, G_second and G_third of a leaf's seed are its six words: a
       block for each word of the payload, with that of the first element and that of
       the second. The last correction of six words is
       c = (-1)^t_B * (v - G(s_A) + G(s_B)), over Z_2^64, word by word, where v is the
       payload in one of the two elements and zero in the other.
    2. Expand. A side's share of a leaf is (-1)^side * (G(s) + t * c), likewise. It is
       multiplied by the table at once, and kept nowhere.

Cost
    For each level 129 bits, and 384 for the last correction; a root where the sides do
    not have it. A point takes 4h + 6 AES blocks to split, h the levels. To expand, each
    side takes three blocks a leaf and two a node above the leaves: five for two
    elements, where leaves of one element would take eight.

Security (one of the two sides corrupted; the owner is honest)
    The argument of ``points``: what one side has is pseudorandom whatever index and
    payload are. The last correction is hidden by what the other side's seed at the leaf
    generates, which nothing before it depends on; its three blocks are AES under three
    keys. So it does not tell which of the two elements has the payload, either.

Source
    Boyle, Gilboa, Ishai, "Function Secret Sharing: Improvements and Extensions" (CCS
    2016; eprint 2018/707): a point function for any group of payloads, and leaves that
    are several elements.
"""

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Words
from ditto.native import aes
from ditto.sharing.point_trees import (
    Blocks,
    Corrections,
    Generators,
    Numbers,
    correct_levels,
    expand_levels,
    generate,
    generator_keys,
    take_controls,
)

PAYLOAD_WORDS = 3
_ELEMENTS = 2
"""Of a leaf."""
LAST_WORDS = _ELEMENTS * PAYLOAD_WORDS
"""Of a last correction."""
_AT_ONCE = 1 << 15
"""Elements of vectors that are held at once, without the C library."""


def payload_levels(depth: int) -> int:
    """The corrections that a point of a vector has before the last one."""
    return (depth // _ELEMENTS - 1).bit_length()


def correct_payloads(
    indices: Words, payloads: Numbers, roots: Blocks, salt: bytes, *, depth: int
) -> Corrections:
    """The corrections for secret indices below ``depth``, which is even, and payloads
    (N, 3), from the roots (2, N, 2) of both sides.

    The lowest bit of a root is ignored; the last corrections are (N, 6).
    """
    generators, index = Generators.salted(salt), indices.astype(np.uint64)
    leaf, element = index // _ELEMENTS, index % _ELEMENTS
    seeds, rights, blocks = correct_levels(
        leaf, roots, generators, payload_levels(depth)
    )
    controls = take_controls(blocks)
    values = _leaves(generators, blocks)
    wanted = np.zeros(values.shape[1:], np.uint64)
    wanted[np.arange(index.size), :, element.astype(np.int64)] = payloads
    last = wanted - values[0] + values[1]
    last = np.where(controls[1, :, None, None].astype(np.bool_), -last, last)
    return Corrections(seeds, rights, last.reshape(-1, LAST_WORDS))


def products_at_payloads(
    roots: Blocks,
    corrections: Corrections,
    salt: bytes,
    table: Numbers,
    words: tuple[int, ...],
    turns: Words,
    *,
    depth: int,
    side: int,
) -> Numbers:
    """A side's share of what N points pick from a table, times their payloads, (N, K).

    The table (K, columns) is read from ``turns``, a number for each point: a point i
    picks column i + turn, modulo the depth, and zero where there is none. So only what
    may pick a column is expanded. Turns are of a party's share, and the work is the
    same for all. The depth is a power of two. Row k is multiplied by word ``words[k]``
    of the payload.
    """
    count, columns = len(roots), table.shape[1]
    out = np.empty((count, len(table)), np.uint64)
    schedules = [aes.schedule(key) for key in generator_keys(salt)]
    if all(schedule is not None for schedule in schedules):
        fixes = corrections.seeds, corrections.rights, corrections.last
        shape = {"leaves": depth // _ELEMENTS, "bits": 64, "side": side}
        known = tuple(s for s in schedules if s is not None)
        points = aes.Points(known, roots, fixes, **shape)
        points.products(table, words, turns.astype(np.uint32), depth, out)
        return out
    generators = Generators.salted(salt)
    whole = np.pad(table, ((0, 0), (0, depth - columns)))
    doubled = np.concatenate([whole, whole], axis=1)
    rotated = np.lib.stride_tricks.sliding_window_view(doubled, depth, axis=1)
    for start in range(0, count, step := max(1, _AT_ONCE // depth)):
        part = slice(start, start + step)
        some = Corrections(
            corrections.seeds[part], corrections.rights[part], corrections.last[part]
        )
        blocks = expand_levels(roots[part], some, depth // _ELEMENTS, generators, side)
        controls = take_controls(blocks)
        leaves = _leaves(generators, blocks)
        last = some.last.reshape(-1, 1, PAYLOAD_WORDS, _ELEMENTS)
        leaves += controls[..., None, None] * last
        shares = leaves.swapaxes(2, 3).reshape(len(some.last), depth, PAYLOAD_WORDS)
        if side == 1:
            np.negative(shares, out=shares)
        picked = rotated[:, turns[part].astype(np.int64)]
        out[part] = np.einsum("knv,nvk->nk", picked, shares[..., list(words)])
    return out


def _leaves(generators: Generators, seeds: Blocks) -> npt.NDArray[np.uint64]:
    """The words that seeds generate, in two last axes: a word of the payload, and an
    element of the leaf."""
    ciphers = (generators.leaf, generators.second, generators.third)
    return np.stack([generate(cipher, seeds) for cipher in ciphers], axis=-2)
