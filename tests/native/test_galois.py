"""What the C library computes in a Galois ring is what numpy computes."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ditto.audit import rows
from ditto.audit.galois import GaloisRing
from ditto.audit.relations import (
    COUNTS,
    ELEMENTS_AFTER,
    ELEMENTS_BEFORE,
    FLAGS,
    SINGLE,
    Kind,
)
from ditto.audit.rows import RowWeights
from ditto.native import galois as native

T = TypeVar("T")
pytestmark = pytest.mark.skipif(
    not native.there(32, 48), reason="built without a C compiler"
)
DEGREES = st.sampled_from([2, 5, 8, 16, 17, 33, 48, 63, 64])
SEEDS = st.integers(0, 2**32)
ROWS = st.sampled_from([0, 1, 2, 127, 128, 129, 300])
KINDS = st.sampled_from([COUNTS, ELEMENTS_BEFORE, ELEMENTS_AFTER, FLAGS])


def without_library(compute: Callable[[], T]) -> T:
    """What is computed without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "there", lambda *_: False)
        return compute()


def assert_same(compute: Callable[[], np.ndarray]) -> None:
    found, expected = compute(), without_library(compute)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert (found == expected).all()


def words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 1 << 32, shape, np.uint32)


def weights_of(rng: np.random.Generator, count: int, galois: GaloisRing) -> RowWeights:
    drawn = rng.integers(0, 2, (count, galois.degree), np.uint8)
    packed = np.packbits(drawn, axis=1)
    short = native.coin_bytes(galois.degree) - packed.shape[1]
    shifts = rng.integers(0, 32, count, np.uint8)
    weights = RowWeights(np.pad(packed, [(0, 0), (0, short)]), shifts)
    assert (
        weights.elements(galois) == drawn << shifts[:, None].astype(np.uint32)
    ).all()
    return weights


@given(DEGREES, ROWS, st.integers(1, 9), SEEDS)
@settings(deadline=None)
def test_sums_and_products(degree: int, count: int, columns: int, seed: int) -> None:
    rng, galois = np.random.default_rng(seed), GaloisRing(32, degree)
    weights = weights_of(rng, count, galois)
    across = weights_of(rng, columns, galois)
    x, y = words(rng, count, degree), words(rng, count, degree)
    some = words(rng, count, columns)
    wide = words(rng, count, 2 * columns)
    assert_same(lambda: weights.sums(some, galois))
    across = RowWeights(across.coins, 0 * across.shifts)  # coins alone
    assert_same(lambda: across.combined(some, galois))
    assert_same(lambda: across.combined(wide[:, :columns], galois))
    assert_same(lambda: across.combined(wide[:, ::2], galois))
    assert_same(lambda: weights.times(x, galois))
    assert_same(lambda: galois.times(x, y))


def rows_of(
    rng: np.random.Generator, kind: Kind, count: int, places: int, galois: GaloisRing
) -> tuple[rows.Rows, rows.Rows]:
    """Both sides."""
    weights = weights_of(rng, count, galois)
    of_claims = words(rng, places, kind.claims, galois.degree)

    def known(codes: np.ndarray | None, size: int) -> np.ndarray:
        if codes is None:
            return words(rng, count, places * size)
        return rng.integers(0, len(codes), (count, places), np.uint8)

    sizes = kind.between.shape[1:]
    u, v = (
        rows.Rows(kind, is_u, known(codes, size), weights, of_claims)
        for is_u, codes, size in zip(
            (True, False), (kind.u, kind.v), sizes, strict=True
        )
    )
    return u, v


@given(KINDS, DEGREES, ROWS.filter(bool), st.integers(2, 5), SEEDS)
@settings(deadline=None, max_examples=50)
def test_rows_of_recasts(
    kind: Kind, degree: int, count: int, places: int, seed: int
) -> None:
    rng, galois = np.random.default_rng(seed), GaloisRing(32, degree)
    u, v = rows_of(rng, kind, count, places, galois)
    first = places * kind.size
    powers = words(rng, first + 1, degree)
    assert_same(lambda: u.folded(powers, galois))
    assert_same(lambda: v.folded(powers, galois))
    assert_same(lambda: rows.products(u, v, galois, first))


@pytest.mark.parametrize(
    "kind", [COUNTS, ELEMENTS_BEFORE, ELEMENTS_AFTER, FLAGS, SINGLE]
)
def test_the_coefficients_are_those_of_the_product(kind: Kind) -> None:
    """Whoever computes them: h(r) is the sum of f(r) g(r) of all rows, and the sum of
    all claims is among its coefficients."""
    rng, galois, places = np.random.default_rng(4), GaloisRing(32, 5), 3
    u, v = rows_of(rng, kind, 20, places, galois)
    first = places * kind.size
    powers = galois.powers(words(rng, 5), 2 * first - 1)
    h = rows.products(u, v, galois, first)
    f, g = (x.folded(powers[: first + 1], galois) for x in (u, v))
    r_times_h = galois.times(galois.dot(h, powers), powers[1])
    assert (galois.dot(f, g) == r_times_h).all()
    left, right = (x.words(galois).reshape(20, places, -1) for x in (u, v))
    claims = np.einsum(
        "rja,cab,rjb->rjc", left, kind.between.astype(np.uint32), right
    ).astype(np.uint32)
    summed = u.weights.sums(claims.reshape(20, -1), galois)
    assert (h[first - 1] == galois.dot(summed, u.of_claims.reshape(-1, 5))).all()


def test_no_cell_leads_out_of_a_table() -> None:
    cells = np.array([[0, 8]], np.uint8)
    weights = np.zeros((1, 2), np.uint8), np.zeros(1, np.uint8)
    with pytest.raises(ValueError, match="A cell is 8, there are 8 values"):
        native.pairs(cells, cells, (8, 8), weights, 16)
    with pytest.raises(ValueError, match="A cell is 8"):
        native.picked(np.zeros((1, 2, 2), np.uint32), cells, 3, weights, 16)
    with pytest.raises(ValueError, match="A cell is 8"):
        native.looked_up(np.zeros((2, 8, 16), np.uint32), cells)
    with pytest.raises(ValueError, match="2 rows have as many coins"):
        native.sums(np.zeros((2, 1), np.uint32), weights, 16)
