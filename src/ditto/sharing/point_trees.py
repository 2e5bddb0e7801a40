"""Binary trees of seeds, which the keys of point functions walk down (``points``).

At every node each of two sides has a block: a seed of 127 bits and, as its lowest bit,
a control bit. What is done at the leaves is for ``points`` and ``payloads`` to say.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import (
    Cipher,
    CipherContext,
    algorithms,
    modes,
)

from ditto.sharing.prf import derive_key

Numbers = npt.NDArray[np.uint64]
Blocks = npt.NDArray[np.uint64]
"""Blocks of 128 bits as pairs of words, low word first: the last axis is 2."""

BLOCK_BYTES = 16
CONTROL = np.uint64(1)
_LABELS = ("left", "right", "leaf", "second", "third")


@dataclass(frozen=True, eq=False)
class Generators:
    """G_left, G_right and G_leaf under one salt, and two more for longer leaves."""

    left: CipherContext
    right: CipherContext
    leaf: CipherContext
    second: CipherContext
    third: CipherContext

    @classmethod
    def salted(cls, salt: bytes) -> "Generators":
        """The generators of a salt."""
        return cls(*(_cipher(key) for key in generator_keys(salt)))


@dataclass(frozen=True, eq=False)
class Corrections:
    """What both sides of N points know beside their own roots."""

    seeds: Blocks
    """(N, levels, 2); the lowest bit of a seed is the left control bit."""
    rights: Numbers
    """(N, levels): the right control bits."""
    last: Blocks
    """(N, 2), or (N, 6) of payloads."""


def correct_levels(
    leaf: Numbers, roots: Blocks, generators: Generators, levels: int
) -> tuple[Blocks, Numbers, Blocks]:
    """The corrections of all levels, seeds and right control bits, on the paths to
    leaves; and the nodes of both sides there, (2, N, 2)."""
    blocks = roots.copy()
    take_controls(blocks)
    blocks[1, :, 0] |= CONTROL
    seeds = np.empty((leaf.size, levels, 2), np.uint64)
    rights = np.empty((leaf.size, levels), np.uint64)
    for level in range(levels):
        turn = leaf >> np.uint64(levels - 1 - level) & CONTROL
        goes_right = turn.astype(np.bool_)
        controls = take_controls(blocks)
        left = generate(generators.left, blocks)
        right = generate(generators.right, blocks)
        gap_left, gap_right = left[0] ^ left[1], right[0] ^ right[1]
        fix_left = take_controls(gap_left) ^ turn ^ CONTROL
        fix_right = take_controls(gap_right) ^ turn
        seed = np.where(goes_right[:, None], gap_left, gap_right)
        seeds[:, level] = seed
        seeds[:, level, 0] |= fix_left
        rights[:, level] = fix_right

        correction = seed
        correction[:, 0] |= np.where(goes_right, fix_right, fix_left)
        blocks = np.where(goes_right[:, None], right, left)
        blocks ^= where_controlled(controls, correction)
    return seeds, rights, blocks


def expand_levels(
    roots: Blocks,
    corrections: Corrections,
    leaves: int,
    generators: Generators,
    side: int,
) -> Blocks:
    """The nodes of a side above the leaves of every point, (N, leaves, 2)."""
    levels = corrections.rights.shape[1]
    blocks = roots[:, None].copy()
    take_controls(blocks)
    blocks[..., 0] |= np.uint64(side)
    for level in range(levels):
        seeds = corrections.seeds[:, level].copy()
        fixes = (take_controls(seeds), corrections.rights[:, level])
        controls = take_controls(blocks)
        kept = -(-leaves >> (levels - level - 1))
        children = np.empty((len(roots), kept, 2), np.uint64)
        for turn, cipher in enumerate((generators.left, generators.right)):
            # The seed's lowest bit is clear: it takes the control bit's correction.
            correction = seeds.copy()
            correction[:, 0] |= fixes[turn]
            made = generate(cipher, blocks)
            made ^= where_controlled(controls, correction[:, None])
            # The right child of the last node may lie beyond the vector.
            children[:, turn::2] = made[:, : (kept + 1 - turn) // 2]
        blocks = children
    return blocks


def generator_keys(salt: bytes) -> list[bytes]:
    """Of G_left, G_right, G_leaf and the two others."""
    return [derive_key(salt, session=b"", label=f"points {each}") for each in _LABELS]


def _cipher(key: bytes) -> CipherContext:
    # ECB is AES on each block by itself, which is what G is made of; nothing is
    # encrypted with it.
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305


def generate(cipher: CipherContext, seeds: Blocks) -> Blocks:
    """G of every seed: AES_k(s) ^ s."""
    # update_into asks for a block of room beyond what it writes.
    buffer = np.empty(seeds.nbytes + BLOCK_BYTES, np.uint8)
    cipher.update_into(seeds.reshape(-1).view(np.uint8).data, buffer.data)
    made = buffer[: seeds.nbytes].view(np.uint64).reshape(seeds.shape)
    made ^= seeds
    return made


def take_controls(blocks: Blocks) -> Numbers:
    """The control bits; clears them in ``blocks``, which are seeds afterwards."""
    low = blocks[..., 0]
    controls = low & CONTROL
    low &= ~CONTROL
    return controls


def where_controlled(controls: Numbers, corrections: Blocks) -> Blocks:
    """A point's correction at its nodes with control bit 1, zero at the others."""
    masks = np.negative(controls)
    out = np.empty((*controls.shape, 2), np.uint64)
    # Word by word: an inner loop over the pair would run at a fraction of the speed.
    for i in range(2):
        np.bitwise_and(masks, corrections[..., i], out=out[..., i])
    return out
