"""Point functions with a payload: right at the index, zero elsewhere, and hidden."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from ditto.sharing.payloads import (
    LAST_WORDS,
    correct_payloads,
    payload_levels,
    products_at_payloads,
)

DRAWS, DEPTH = 1 << 14, 16
REFUSE_BELOW = 1e-10
"""Fewer than 1,500 p-values are computed in this file."""


@pytest.mark.usefixtures("each_cipher")
@pytest.mark.parametrize("depth", [2, 8, 64])
def test_shares_add_up_to_the_payload_at_the_index(depth: int) -> None:
    """Every table of one column in its turn: so the whole vector is seen."""
    rng = np.random.default_rng(depth)
    count = 5
    indices = rng.integers(0, depth, count).astype(np.uint32)
    payloads = rng.integers(0, 2**64, (count, 3), np.uint64)
    roots = rng.integers(0, 2**64, (2, count, 2), np.uint64)
    salt = rng.bytes(16)
    fixes = correct_payloads(indices, payloads, roots, salt, depth=depth)
    assert fixes.seeds.shape == (count, payload_levels(depth), 2)
    columns = np.repeat(np.eye(depth, dtype=np.uint64), 3, axis=0)
    words, turns = (0, 1, 2) * depth, np.zeros(count, np.uint32)
    a, b = (
        products_at_payloads(
            roots[k], fixes, salt, columns, words, turns, depth=depth, side=k
        )
        for k in (0, 1)
    )
    expected = np.zeros((count, depth, 3), np.uint64)
    expected[np.arange(count), indices] = payloads
    np.testing.assert_array_equal((a + b).reshape(expected.shape), expected)


def _uniform(words: np.ndarray) -> bool:
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    return all(
        stats.chisquare(np.bincount(column, minlength=256)).pvalue > REFUSE_BELOW
        for column in octets.T
    )


@pytest.mark.parametrize("index", [10, 11])
@pytest.mark.parametrize("payload", [(0, 0, 0), (1, 5, 25)])
def test_corrections_tell_nothing_of_the_payload(
    payload: tuple[int, ...], index: int
) -> None:
    """The last one is uniform, word by word and less any other word: neither what the
    payload is nor in which element of its leaf."""
    rng = np.random.default_rng(7)
    roots = rng.integers(0, 2**64, (2, DRAWS, 2), np.uint64)
    payloads = np.broadcast_to(np.array(payload, np.uint64), (DRAWS, 3))
    indices = np.full(DRAWS, index, np.uint32)
    last = correct_payloads(indices, payloads, roots, bytes(16), depth=DEPTH).last
    assert last.shape == (DRAWS, LAST_WORDS)
    assert all(_uniform(word) for word in last.T)
    for j, k in combinations(range(LAST_WORDS), 2):
        assert _uniform(last[:, j] - last[:, k])
        assert _uniform(last[:, j] + last[:, k])
