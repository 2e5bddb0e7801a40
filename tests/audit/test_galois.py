"""The Galois ring against polynomials that are multiplied by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ditto.audit.galois import GaloisRing, modulus
from ditto.audit.soundness import (
    DEGREE,
    MOST_FOLDS,
    SOUNDNESS_BITS,
    degree_for,
    roots,
)

KINDS = [(32, 5), (32, DEGREE), (64, 7), (32, 8)]


def by_hand(ring: GaloisRing, x: list[int], y: list[int]) -> list[int]:
    """x * y with Python's integers."""
    d, size = ring.degree, 1 << ring.bits
    product = [0] * (2 * d - 1)
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            product[i + j] += a * b
    *lower, _ = modulus(d)
    for i in range(2 * d - 2, d - 1, -1):
        top, product[i] = product[i], 0
        for exponent in lower:
            product[i - d + exponent] -= top
    return [value % size for value in product[:d]]


def random_elements(ring: GaloisRing, seed: int, *shape: int) -> np.ndarray:
    high = 1 << ring.bits
    rng = np.random.default_rng(seed)
    return rng.integers(0, high, (*shape, ring.degree), ring.dtype)


@pytest.mark.parametrize(("bits", "degree"), KINDS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_products_are_those_of_polynomials(bits: int, degree: int, seed: int) -> None:
    ring = GaloisRing(bits, degree)
    x, y = random_elements(ring, seed, 3), random_elements(ring, seed + 1, 3)
    expected = [
        by_hand(ring, a.tolist(), b.tolist()) for a, b in zip(x, y, strict=True)
    ]
    assert ring.times(x, y).tolist() == expected
    assert (x[0] @ ring.matrix(y[0])).tolist() == expected[0]
    total = [sum(column) % (1 << bits) for column in zip(*expected, strict=True)]
    assert ring.dot(x, y).tolist() == total


@pytest.mark.parametrize(("bits", "degree"), KINDS)
def test_powers_and_embedded_words(bits: int, degree: int) -> None:
    ring = GaloisRing(bits, degree)
    x = random_elements(ring, 1)
    powers = ring.powers(x, 4)
    assert powers[0].tolist() == [1] + [0] * (degree - 1)
    assert powers[3].tolist() == ring.times(ring.times(x, x), x).tolist()
    words = np.array([3, 2**bits - 1], ring.dtype)
    assert (ring.times(ring.embed(words), x) == words[:, None] * x).all()


@pytest.mark.parametrize("degree", [5, 8, 12])
def test_differences_of_coins_are_units(degree: int) -> None:
    """Modulo 2: no two polynomials that are not zero have the product zero."""
    ring = GaloisRing(32, degree)
    numbers = np.arange(1, 1 << degree, dtype=np.uint64)
    bits = (numbers[:, None] >> np.arange(degree, dtype=np.uint64)) & np.uint64(1)
    coins = ring.from_bits(bits.astype(np.uint8))
    for coin in coins[:: max(1, len(coins) // 50)]:
        assert ((ring.times(coins, coin) % 2).any(axis=1)).all()


def test_polynomials_that_are_known_to_be_irreducible() -> None:
    assert modulus(2) == (0, 1, 2)
    assert modulus(47) == (0, 5, 47)
    assert modulus(48) == (0, 1, 2, 17, 48)
    products = {multiplied(a, b) for a in range(2, 32) for b in range(2, 256)}
    for degree in (5, 6, 7, 8):
        assert sum(1 << exponent for exponent in modulus(degree)) not in products


def multiplied(a: int, b: int) -> int:
    """Of polynomials modulo 2."""
    product = 0
    for i in range(a.bit_length()):
        product ^= (b << i) * (a >> i & 1)
    return product


def test_degree_is_the_smallest_that_is_sound() -> None:
    assert roots(MOST_FOLDS) / 2**DEGREE <= 2**-SOUNDNESS_BITS
    assert roots(MOST_FOLDS) / 2 ** (DEGREE - 1) > 2**-SOUNDNESS_BITS
    assert degree_for(40, MOST_FOLDS) == 48
