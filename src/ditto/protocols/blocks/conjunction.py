"""The AND of several bits, as an integer, in one product.

Bit i is S_i ^ K_i, with S_i known to P1 and K_i to P0 and P2: as replicated shares of
bits are. As integers S ^ K = S (1 - 2K) + K, so the product of n such bits is the sum,
over all sets A of them, of the product of the S_i in A, which P1 knows, and of the
1 - 2 K_i in A and the K_i not in A, which P0 and P2 know.

Steps
    For the empty set P0 and P2 add what they know to share 0. The rest is the product
    of two vectors of 2^n - 1 elements over Z_2^k (``product``), or of m times as many
    if the ANDs of m groups of bits are added up.

Cost
    that of ``product``: in two rounds k (2^n + 1) bits, in one 2k 2^n, for one group.

Security
    That of ``product``: what both sides bring to it they know.

Source
    docs/explanation/protocols.md.
"""

import numpy as np

from ditto.fixedpoint import Ring, Words
from ditto.native import flags as native
from ditto.protocols.blocks.product import Rounds, product_fields, two_party_product
from ditto.protocols.blocks.two_party import P0, P1, P2
from ditto.protocols.party import Pair, PairSteps, Role
from ditto.sharing import packed_size


def known_bits(role: Role, pair: Pair) -> Words:
    """Of XOR shares what a role knows: S at P1, K at P0 and P2."""
    first, second = pair
    return {P0: first, P1: first ^ second, P2: second}[role.rank]


def summed_conjunctions(
    role: Role, bits: Words, ring: Ring, rounds: Rounds
) -> PairSteps:
    """Shares of N sums: ``bits`` (N, m, n) are S at P1 and K at P0 and P2.

    They are right modulo 2^k, and may have more bits than k.
    """
    rest, terms = _terms(bits.astype(ring.dtype), is_p1=role.rank == P1)
    count = len(bits)
    flat = np.ascontiguousarray(terms).reshape(count, -1)
    first, second = yield from two_party_product(role.within("and"), flat, ring, rounds)
    own = np.asarray(rest.sum(axis=1, dtype=ring.dtype))
    if role.rank == P0:
        first = first + own
    elif role.rank == P2:
        second = second + own
    return first, second


def conjunction_bits(count: int, groups: int, size: int, k: int, rounds: Rounds) -> int:
    """What ``count`` sums of ``groups`` ANDs of ``size`` bits send."""
    vectors, results = product_fields(rounds)
    terms = count * groups * ((1 << size) - 1)
    return 8 * (vectors * packed_size(terms, k) + results * packed_size(count, k))


def _terms(bits: Words, *, is_p1: bool) -> tuple[Words, Words]:
    """For the empty set (N, m), and for all others (N, m, 2^n - 1).

    Bit by bit: sets without it have K and nothing of S, those with it 1 - 2K and S.
    """
    if native.there():
        return native.terms(bits, is_p1=is_p1)
    one = bits.dtype.type(1)
    found = np.ones((*bits.shape[:-1], 1), bits.dtype)
    for i in range(bits.shape[-1]):
        bit = bits[..., i : i + 1]
        outside, inside = (one, bit) if is_p1 else (bit, one - bit - bit)
        found = np.concatenate([found * outside, found * inside], axis=-1)
    return found[..., 0], found[..., 1:]
