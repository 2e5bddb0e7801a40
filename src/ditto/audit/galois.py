"""Arithmetic in a Galois ring GR(2^k, d): polynomials over Z_2^k modulo one of them.

Z_2^k has no two elements other than 0 and 1 whose difference is a unit, so a random
multiple of an error may vanish with a chance of one half. Z_2^k[X] / m(X), where m is
of degree d and irreducible modulo 2, has 2^d elements whose differences are all units:
the polynomials with coefficients 0 and 1. They serve as coins.

An element is a row of d words, an array of elements has one axis more than what it
stands for. Much is a matrix product of words, so that the kernels of
``protocols.kernels`` compute it: a sum of products of elements as U^T V, whose
antidiagonals are added up, and products with one element by its matrix. What rows of
words are multiplied by are coins, so it is only added up (``native.galois``).
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Ring, Words
from ditto.native import galois as native
from ditto.protocols.kernels import ring_einsum

Bits = npt.NDArray[np.uint8]
_SMALL = 1 << 17
"""Products from which the kernels are faster than numpy."""
_CHUNK = 256
"""Elements that are multiplied at one time: they fit the nearest memory."""


@dataclass(frozen=True)
class GaloisRing:
    """GR(2^bits, degree) for bits 32 or 64; elements are rows of ``degree`` words."""

    bits: int
    degree: int

    @property
    def ring(self) -> Ring:
        """The ring of the coefficients."""
        return Ring(self.bits)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Of a word."""
        return self.ring.dtype

    def zeros(self, *shape: int) -> Words:
        """Elements that are zero."""
        return np.zeros((*shape, self.degree), self.dtype)

    def embed(self, words: Words) -> Words:
        """Elements of the ring of the coefficients, as elements."""
        elements = self.zeros(*words.shape)
        elements[..., 0] = words
        return elements

    def reduce(self, products: Words) -> Words:
        """Polynomials of degree up to 2d - 2 (..., 2d - 1), modulo the polynomial."""
        d = self.degree
        *lower, _ = modulus(d)
        left = products
        while left.shape[-1] > d:  # X^(d+i) is minus the lower terms times X^i
            high = left[..., d:]
            size = max(d, lower[-1] + high.shape[-1])
            folded = np.zeros((*left.shape[:-1], size), self.dtype)
            folded[..., :d] = left[..., :d]
            for exponent in lower:
                folded[..., exponent : exponent + high.shape[-1]] -= high
            left = folded
        return left

    def multiply_words(self, subscripts: str, x: Words, y: Words) -> Words:
        """An einsum of words; small ones by numpy, which begins sooner."""
        labels = subscripts.partition("->")[0].replace(",", "")
        sizes = dict(zip(labels, (*x.shape, *y.shape), strict=True))
        if prod(sizes.values()) < _SMALL:
            return np.asarray(np.einsum(subscripts, x, y), self.dtype)
        return ring_einsum(subscripts, x, y, self.ring)

    def times(self, x: Words, y: Words) -> Words:
        """x * y, element by element."""
        x, y = np.broadcast_arrays(x, y)
        d, shape = self.degree, x.shape
        x, y = x.reshape(-1, d), y.reshape(-1, d)
        if native.there(self.bits, d):
            return native.times(x, y, modulus(d)).reshape(shape)
        result = np.empty((len(x), d), self.dtype)
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            left, right = x[part], y[part]
            product = np.zeros((len(left), 2 * d - 1), self.dtype)
            for i in range(d):
                product[:, i : i + d] += left[:, i : i + 1] * right
            result[part] = self.reduce(product)
        return result.reshape(shape)

    def matrix(self, element: Words) -> Words:
        """(..., d, d): row i is X^i times it, so that x @ matrix = x * element."""
        d = self.degree
        shifted = np.zeros((*element.shape, 2 * d - 1), self.dtype)
        for i in range(d):
            shifted[..., i, i : i + d] = element
        return self.reduce(shifted)

    def powers(self, element: Words, count: int) -> Words:
        """(count, d): element^0, element^1 and so on."""
        powers = self.zeros(count)
        powers[0, 0] = 1
        made = 1
        if count > 1:
            powers[1], made = element, 2
        while made < count:  # as many again, times the next
            more = min(made, count - made)
            following = self.times(powers[made - 1], element)
            powers[made : made + more] = self.times(powers[:more], following)
            made += more
        return powers

    def dot(self, u: Words, v: Words) -> Words:
        """The sum of u * v for (n, d) and (n, d)."""
        if not len(u):
            return self.zeros()
        return self.collapse(self.multiply_words("ni,nj->ij", u, v))

    def collapse(self, products: Words) -> Words:
        """(..., d, d) to (..., d): entry i, j stands for X^(i + j)."""
        d = self.degree
        sums = np.zeros((*products.shape[:-2], 2 * d - 1), self.dtype)
        for i in range(d):
            sums[..., i : i + d] += products[..., i, :]
        return self.reduce(sums)

    def from_bits(self, bits: Bits) -> Words:
        """Coins: (..., d) of coefficients 0 and 1."""
        return bits.astype(self.dtype)


@lru_cache(maxsize=64)
def modulus(degree: int) -> tuple[int, ...]:
    """Exponents of a monic polynomial that is irreducible modulo 2, rising.

    The first with three terms, or else with five.
    """
    for inner in (1, 3):
        for exponents in combinations(range(1, degree), inner):
            terms = (0, *exponents, degree)
            if _is_irreducible(sum(1 << e for e in terms)):
                return terms
    raise ValueError(f"No polynomial of degree {degree} with up to five terms serves.")


def _is_irreducible(polynomial: int) -> bool:
    """Rabin's test modulo 2; bit i is the coefficient of X^i."""
    degree = polynomial.bit_length() - 1
    if degree == 1:
        return True
    power, at = 2, {}  # X^(2^i)
    for i in range(1, degree + 1):
        power = _remainder(_square(power), polynomial)
        at[i] = power
    if at[degree] != _remainder(2, polynomial):
        return False
    divisors = [p for p in range(2, degree + 1) if degree % p == 0 and _is_prime(p)]
    return all(_gcd(at[degree // p] ^ 2, polynomial) == 1 for p in divisors)


def _is_prime(number: int) -> bool:
    return all(number % i for i in range(2, int(number**0.5) + 1))


def _square(polynomial: int) -> int:
    return int("0".join(f"{polynomial:b}"), 2)


def _remainder(polynomial: int, divisor: int) -> int:
    size = divisor.bit_length()
    while polynomial.bit_length() >= size:
        polynomial ^= divisor << (polynomial.bit_length() - size)
    return polynomial


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, _remainder(a, b)
    return a
