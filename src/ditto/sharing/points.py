"""Distributed point functions: a secret index as two keys, one for each of two parties.

Two parties that hold a table can pick a row of it without learning which. The owner
of the index splits it into two keys. Each party expands its key into an additive
share, over Z_2^bits, of the vector of ``depth`` elements that is one at the index and
zero elsewhere. A key is far shorter than the vector.

Notation: a block is 128 bits and holds 128/bits elements, so the vector takes
n = ceil(depth * bits / 128) leaves of a binary tree of h = ceil(log2(n)) levels. The
parties are sides A (0) and B (1). At every node each side has a seed s of 127 bits and
a control bit t, kept as one block: its lowest bit is t, and is cleared before the seed
is used. G_left, G_right and G_leaf each map a seed to a block.

Steps
    1. Split. The roots are drawn at random, with t_A = 0 and t_B = 1. The tree is
       walked down to the leaf of the index. The invariant: on the path the control
       bits of the two sides differ, at every other node the two blocks are the same.
       Each level has one correction, known to both sides, which a side applies to the
       children of its nodes with t = 1. The correction's seed is the XOR of the sides'
       seeds at the child that leaves the path, which makes those equal; its two control
       bits, left and right, keep the rest of the invariant.
    2. At the leaf of the index the last correction, in the group Z_2^bits, is
       c = (-1)^t_B * (e - G_leaf(s_A) + G_leaf(s_B)), with e the leaf's part of the
       vector.
    3. Expand. A side walks the whole tree level by level, without the nodes that lead
       only to elements beyond the vector. Its share of a leaf is
       (-1)^side * (G_leaf(s) + t * c). Off the path the shares cancel; at the leaf of
       the index (t_A - t_B) * c leaves e.

Cost
    A key has 48 + 17h bytes: salt, root and last correction of 16 bytes each, and for
    each level 16 bytes of seed and one byte of control bits. No messages besides the
    keys. A point takes 4h + 2 AES blocks to split. To expand, each side takes one block
    a leaf and two a node above the leaves: at most 3n + 2h.

Security (one of the two sides corrupted; the owner of the index is honest)
    Side A holds its own key only. Its root is uniform. Each correction is the XOR (the
    last one: the difference) of what A's and B's seeds on the path generate, and B's
    root is uniform and unknown to A. So B's part of the first correction is
    pseudorandom and hides A's; B's next seed on the path is pseudorandom too, and A has
    seen nothing else that depends on it; and so on down to the last correction. So
    A's key looks like a uniform string of its format whatever the index is, and what A
    expands is a function of that string. For B the same holds. Both keys together
    reveal the index, so they go to two parties that do not collude, each over a private
    link.
    G is AES_k(s) ^ s (Matyas-Meyer-Oseas) under three AES keys k derived from a salt
    that is random and public. With AES as an ideal cipher, q AES calls tell T unknown
    seeds (h + 1 a point) from random with an advantage of the order of
    T * (q + T) / 2^127. Each call of ``split_points`` draws its own salt, so T counts
    the points of one call, and AES calls made for one salt, or before it was drawn,
    help against no other.
    A dishonest owner can make keys of the right format whose expansions add up to some
    other vector. Here the format is checked, not that the vector is one-hot.

Source
    Boyle, Gilboa, Ishai, "Function Secret Sharing: Improvements and Extensions" (CCS
    2016; eprint 2018/707), the point function for two parties with early termination;
    Guo, Katz, Wang, Yu, "Efficient and Secure Multiparty Computation from Fixed-Key
    Block Ciphers" (S&P 2020) for hashing with AES under a public key.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ditto.errors import FixedPointTypeError, MessageError
from ditto.fixedpoint import Ring, Words
from ditto.native import aes
from ditto.sharing.packing import Bytes
from ditto.sharing.point_trees import (
    BLOCK_BYTES,
    CONTROL,
    Blocks,
    Corrections,
    Generators,
    Numbers,
    correct_levels,
    expand_levels,
    generate,
    generator_keys,
    take_controls,
    where_controlled,
)

SALT_BYTES = 16
_SLICE = 1 << 16
"""Leaves expanded at once, so that memory stays bounded and near the cache's size."""


@dataclass(frozen=True)
class _Tree:
    """The shape of the tree over one vector, and the format of its keys."""

    depth: int
    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise FixedPointTypeError(
                f"Point functions have elements of 32 or 64 bits, got bits={self.bits}."
            )
        if self.depth < 1:
            raise ValueError(
                f"A vector has one element or more, got depth={self.depth}."
            )

    @property
    def lanes(self) -> int:
        """The elements of one leaf."""
        return 8 * BLOCK_BYTES // self.bits

    @property
    def leaves(self) -> int:
        return -(-self.depth // self.lanes)

    @property
    def levels(self) -> int:
        """The levels below the root."""
        return (self.leaves - 1).bit_length()

    @property
    def format(self) -> np.dtype[np.void]:
        """One key: every field, and nothing between them."""
        return np.dtype(
            [
                ("salt", "u1", (BLOCK_BYTES,)),
                ("root", "<u8", (2,)),
                ("last", "<u8", (2,)),
                ("seeds", "<u8", (self.levels, 2)),
                ("controls", "u1", (self.levels,)),
            ]
        )


def point_bytes(depth: int, bits: int) -> int:
    """The bytes of one key for vectors of ``depth`` elements of ``bits`` bits."""
    return _Tree(depth, bits).format.itemsize


def split_points(
    indices: npt.NDArray[np.integer], *, depth: int, bits: int
) -> tuple[Bytes, Bytes]:
    """Side A's and side B's keys for N secret indices, each below ``depth``.

    Both have the shape (N, ``point_bytes``). They go to two different parties: who
    holds both knows the indices.
    """
    tree = _Tree(depth, bits)
    index = _checked(indices, tree)
    salt = os.urandom(SALT_BYTES)
    drawn = np.frombuffer(os.urandom(2 * index.size * BLOCK_BYTES), np.uint64)
    roots = drawn.reshape(2, index.size, 2)
    corrections = correct_points(indices, roots, salt, depth=depth, bits=bits)

    keys = np.zeros((2, index.size), tree.format)
    keys["salt"] = np.frombuffer(salt, np.uint8)
    keys["root"] = roots
    keys["root"][..., 0] &= ~CONTROL
    keys["seeds"] = corrections.seeds
    keys["seeds"][..., 0] &= ~CONTROL
    left = corrections.seeds[..., 0] & CONTROL
    keys["controls"] = left | corrections.rights << CONTROL
    keys["last"] = corrections.last

    a, b = keys.view(np.uint8).reshape(2, index.size, tree.format.itemsize)
    # Copies, so that neither array has the other side's keys in the memory behind it.
    return a.copy(), b.copy()


def correct_points(
    indices: npt.NDArray[np.integer],
    roots: Blocks,
    salt: bytes,
    *,
    depth: int,
    bits: int,
) -> Corrections:
    """The corrections for secret indices, from the roots (2, N, 2) of both sides.

    For a dealer that shares a stream of masks with each side, so that no root is sent.
    The lowest bit of a root is ignored.
    """
    tree = _Tree(depth, bits)
    index = _checked(indices, tree)
    leaf, lane = np.divmod(index, np.uint64(tree.lanes))
    generators = Generators.salted(salt)
    seeds, rights, blocks = correct_levels(leaf, roots, generators, tree.levels)
    controls = take_controls(blocks)
    values = generate(generators.leaf, blocks).view(Ring(bits).dtype)
    last = values[1] - values[0]
    last += np.arange(tree.lanes, dtype=np.uint64) == lane[:, None]
    last = np.where(controls[1, :, None].astype(np.bool_), -last, last)
    return Corrections(seeds, rights, last.view(np.uint64))


def tree_levels(depth: int, bits: int) -> int:
    """The corrections that a point has before the last one."""
    return _Tree(depth, bits).levels


def expand_points(keys: Bytes, *, depth: int, bits: int, side: int) -> Words:
    """A side's share of the N one-hot vectors, of shape (N, ``depth``).

    ``side`` is 0 for the holder of A's keys and 1 for the holder of B's; the shares of
    the two add up to the vectors. All keys come from one call of ``split_points``.
    """
    tree = _Tree(depth, bits)
    if side not in (0, 1):
        raise ValueError(f"A side is 0 or 1, got {side}.")
    records = _parsed(keys, tree)
    if not records.size:
        return np.empty((0, depth), Ring(bits).dtype)
    seeds: Blocks = records["seeds"].astype(np.uint64)
    controls = records["controls"].astype(np.uint64)
    seeds[..., 0] |= controls & CONTROL
    corrections = Corrections(
        seeds, controls >> CONTROL, records["last"].astype(np.uint64)
    )
    roots: Blocks = records["root"].astype(np.uint64)
    salt = records["salt"][0].tobytes()
    parts = expand_corrected(
        roots, corrections, salt, depth=depth, bits=bits, side=side
    )
    shares = [share for _, share in parts]
    return shares[0] if len(shares) == 1 else np.concatenate(shares)


def expand_corrected(
    roots: Blocks,
    corrections: Corrections,
    salt: bytes,
    *,
    depth: int,
    bits: int,
    side: int,
) -> Iterator[tuple[slice, Words]]:
    """A side's share of the vectors, from its roots (N, 2), some points at a time."""
    tree = _Tree(depth, bits)
    step = max(1, _SLICE // tree.leaves)
    points = _native_points(roots, corrections, salt, tree, side)
    if points is not None:
        share: Words = np.empty((len(roots), depth), Ring(bits).dtype)
        points.expand(depth, share)
        yield slice(0, len(roots)), share
        return
    generators = Generators.salted(salt)
    for start in range(0, len(roots), step):
        part = slice(start, min(start + step, len(roots)))
        found = Corrections(
            corrections.seeds[part], corrections.rights[part], corrections.last[part]
        )
        share = _expand(roots[part], found, tree, generators, side)
        yield part, share[:, :depth]


def _native_points(
    roots: Blocks, corrections: Corrections, salt: bytes, tree: _Tree, side: int
) -> aes.Points | None:
    """The same by the C library, where there is one."""
    schedules = [aes.schedule(key) for key in generator_keys(salt)]
    left, right, leaf, *_ = schedules
    if left is None or right is None or leaf is None:
        return None
    fixes = corrections.seeds, corrections.rights, corrections.last
    shape = {"leaves": tree.leaves, "bits": tree.bits, "side": side}
    return aes.Points((left, right, leaf), roots, fixes, **shape)


def _expand(
    roots: Blocks,
    corrections: Corrections,
    tree: _Tree,
    generators: Generators,
    side: int,
) -> Words:
    """The share with its last leaf whole: (N, leaves * lanes)."""
    blocks = expand_levels(roots, corrections, tree.leaves, generators, side)
    controls = take_controls(blocks)
    word = Ring(tree.bits).dtype
    share: Words = generate(generators.leaf, blocks).view(word)
    share += where_controlled(controls, corrections.last[:, None]).view(word)
    if side == 1:
        np.negative(share, out=share)
    return share.reshape(len(roots), tree.leaves * tree.lanes)


def _checked(indices: npt.NDArray[np.integer], tree: _Tree) -> Numbers:
    """The indices, flat. An error does not name one: they are secret."""
    flat = np.asarray(indices).reshape(-1)
    if not np.issubdtype(flat.dtype, np.integer):
        raise ValueError(f"Indices are integers, got an array of {flat.dtype}.")
    if flat.size and not (flat.min() >= 0 and flat.max() < tree.depth):
        raise ValueError(f"Every index lies in [0, {tree.depth}), but not all here do.")
    return flat.astype(np.uint64)


def _parsed(keys: Bytes, tree: _Tree) -> npt.NDArray[np.void]:
    """Keys from outside as records; refuses what ``split_points`` cannot have made."""
    size = tree.format.itemsize
    if keys.dtype != np.uint8 or keys.ndim != 2 or keys.shape[1] != size:
        raise MessageError(
            f"Keys for {tree.depth} elements of {tree.bits} bits are rows of {size} "
            f"bytes, got {keys.dtype} of shape {keys.shape}."
        )
    if not keys.size:
        return np.empty(0, tree.format)
    records = np.ascontiguousarray(keys).view(tree.format)[:, 0]
    if np.any(records["salt"] != records["salt"][0]):
        raise MessageError(
            "Keys expanded together have one salt, got several. Expand the keys of "
            "each call of split_points by themselves."
        )
    seeds = (records["root"][:, 0], records["seeds"][:, :, 0])
    if any(np.any(s & CONTROL) for s in seeds) or np.any(records["controls"] > 3):
        raise MessageError("A key has a bit set that its format leaves clear.")
    return records
