"""What an outsider deals tells no party anything."""

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from ditto.client.shares import share_input, share_question
from ditto.client.signature import Encoding, InputSignature, Signature
from ditto.errors import PlanError
from ditto.fixedpoint import FxpType
from ditto.plan import InputRole
from ditto.sharing import deal, deal_bits, deal_indices
from ditto.sharing.points import expand_points

COUNT = 1 << 14
REFUSE_BELOW = 1e-10
"""Fewer than 1000 p-values are computed in this file."""
KIND = FxpType(32, 12)
SECRETS = (0, 3 << 12)

Pairs = list[tuple[np.ndarray, np.ndarray]]
"""The two shares of each party."""


def deal_numbers(secret: int) -> Pairs:
    dealt = deal(KIND.ring.reduce(np.full(COUNT, secret)), KIND)
    return [(held.first, held.second) for held in dealt]


def deal_truths(secret: int) -> Pairs:
    dealt = deal_bits(np.full(8 * COUNT, bool(secret)))
    return [(held.first, held.second) for held in dealt]


def deal_as_client(secret: int) -> Pairs:
    encoding = Encoding(7, KIND)
    spec = InputSignature("x", InputRole.SECRET, (COUNT,), "float32", (encoding,))
    dealt = share_input(spec, np.full(COUNT, secret * KIND.ulp, np.float32))
    return [(arrays["first7"], arrays["second7"]) for arrays in dealt]


DEALERS: dict[str, Callable[[int], Pairs]] = {
    "numbers": deal_numbers,
    "bits": deal_truths,
    "a client's input": deal_as_client,
}


def uniform(values: np.ndarray) -> bool:
    """Every byte of the elements."""
    columns = np.ascontiguousarray(values).view(np.uint8).reshape(values.size, -1)
    counts = [np.bincount(column, minlength=256) for column in columns.T]
    return all(stats.chisquare(each).pvalue > REFUSE_BELOW for each in counts)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dealer", DEALERS)
def test_shares_of_a_constant_are_uniform_at_every_party(
    dealer: str, secret: int
) -> None:
    for first, second in DEALERS[dealer](secret):
        for seen in (first, second, first + second, first - second, first ^ second):
            assert uniform(seen)


@pytest.mark.parametrize("dealer", DEALERS)
def test_two_deals_have_nothing_in_common(dealer: str) -> None:
    once, again = (DEALERS[dealer](SECRETS[1]) for _ in range(2))
    for (a, b), (c, d) in zip(once, again, strict=True):
        for now, before in product((c, d), (a, b)):
            assert uniform(now - before)
            assert uniform(now ^ before)


# Indices

DEPTH = 30
INDICES = np.array([0, 5, 5, 29])


def one_hot(indices: np.ndarray) -> np.ndarray:
    return (np.arange(DEPTH) == indices[:, None]).astype(np.uint32)


def expansions(layer: np.ndarray) -> list[np.ndarray]:
    """Whichever side a party takes it for."""
    return [expand_points(layer, depth=DEPTH, bits=32, side=side) for side in (0, 1)]


def test_no_party_can_put_its_keys_together() -> None:
    for held in deal_indices(INDICES, depth=DEPTH):
        shares = [expansions(layer) for layer in held.keys]
        hot = one_hot(INDICES)
        for mine in (share for sides in shares for share in sides):
            assert np.count_nonzero(mine) > hot.size / 2
        for left, right in combinations(shares, 2):
            for a, b in product(left, right):
                for put_together in (a + b, a - b, a ^ b):
                    assert np.count_nonzero(put_together) > hot.size / 2


def test_two_parties_could() -> None:
    """So the test above looks at the right thing."""
    (p0,), (p1, _), _ = (held.keys for held in deal_indices(INDICES, depth=DEPTH))
    assert np.array_equal(expansions(p0)[0] + expansions(p1)[1], one_hot(INDICES))


def test_both_splits_are_drawn_independently() -> None:
    (one,), (others, second), (same, third) = (
        held.keys for held in deal_indices(INDICES, depth=DEPTH)
    )
    assert np.array_equal(others, same)
    salt, root, rest = slice(0, 16), slice(16, 32), slice(32, None)
    for field in (salt, root, rest):
        for first, other in product((one, others), (second, third)):
            assert not (first[:, field] == other[:, field]).all(axis=1).any()
    roots = np.concatenate([keys[:, root] for keys in (one, others, second, third)])
    assert len(np.unique(roots, axis=0)) == 4 * INDICES.size


def test_two_deals_of_indices_differ() -> None:
    once, again = (deal_indices(INDICES, depth=DEPTH) for _ in range(2))
    for before, now in zip(once, again, strict=True):
        for a, b in product(before.keys, now.keys):
            assert not (a[:, 16:32] == b[:, 16:32]).all(axis=1).any()
            assert not np.array_equal(a[:, :16], b[:, :16])


# Public inputs


def test_a_client_shows_nothing_that_it_did_not_agree_to_show() -> None:
    public = InputSignature(
        "x", InputRole.PUBLIC, (2,), "float32", (Encoding(0, None),)
    )
    signature = Signature("digest", (public,), (), None)
    with pytest.raises(PlanError, match="would make x public"):
        share_question(signature, [np.ones(2, np.float32)], public=())
    dealt = share_question(signature, [np.ones(2, np.float32)], public=(0,))
    assert [list(arrays) for arrays in dealt] == [["public0"]] * 3
