"""Local contractions over a ring: the arithmetic a party does alone.

Rings of up to 32 bits are multiplied by our C kernels (``ditto.native``), or where
there are none by XLA's int32 dots, which are vectorised and wrap as the ring does.
(uint32, uint64 and int64 dots in jax and numpy are twenty times slower.) The 64-bit
ring is cut into limbs of 16 bits whose float64 products are exact.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Literal
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Ring, Words
from ditto.native import (
    Level,
    Packed,
    Packing,
    level,
    multiplies,
    multiply,
    pack,
    packing_of,
)
from ditto.sharing import Shared

_LIMB = 16
Operand = npt.NDArray[np.integer] | jax.Array
Part = Literal["first", "second", "total"]
"""Of what a party has of a tensor: one of its shares, or the sum of both."""
_LARGE = 1 << 18
"""Elements from which an array is worth keeping as XLA's."""
_EXACT = 53 - 2 * _LIMB  # log2 of the longest exact float64 dot product of limbs


class Prepared:
    """The shares of a tensor as the kernels take them, made when first wanted."""

    def __init__(self, shared: Shared) -> None:
        self._first, self._second = shared.first, shared.second
        self.is_weight = False
        self._packed: dict[tuple[Packing, Part], Packed] = {}

    def words(self, part: Part) -> npt.NDArray[np.uint32]:
        """A part as words of 32 bits."""
        match part:
            case "first":
                return _as_words(self._first)
            case "second":
                return _as_words(self._second)
        return self._total

    @cached_property
    def _total(self) -> npt.NDArray[np.uint32]:
        return _as_words(self._first + self._second)

    def packed(self, subscripts: str, part: Part) -> Packed:
        """A part as the second operand of an einsum: of weights it is kept."""
        key = packing_of(subscripts), part
        if key not in self._packed:
            words = self.words(part)
            self.__dict__.pop("_total", None)  # it is not wanted a second time
            self._packed[key] = pack(subscripts, words)
        return self._packed[key]

    @cached_property
    def first(self) -> Operand:
        """The first share, as XLA takes it."""
        return _settled(_as_int32(self._first))

    @cached_property
    def second(self) -> Operand:
        """The second share, as XLA takes it."""
        return _settled(_as_int32(self._second))

    @cached_property
    def total(self) -> Operand:
        """The sum of both, as XLA takes it."""
        return _settled(_as_int32(self._first + self._second))


_PREPARED: "WeakKeyDictionary[Shared, Prepared]" = WeakKeyDictionary()


def prepared(x: Shared) -> Prepared:
    """Kept for as long as x is, so that weights are prepared once."""
    if x not in _PREPARED:
        _PREPARED[x] = Prepared(x)
    return _PREPARED[x]


def resident(x: Shared) -> Shared:
    """The same shares of a weight, in the memory where the kernels will take them."""
    if x.ring.bits != 32:
        return x
    held = prepared(x)
    held.is_weight = True
    if level() > Level.XLA:
        return x
    first, second = (np.asarray(s).view(np.uint32) for s in (held.first, held.second))
    same = Shared(first, second, x.type)
    _PREPARED[same] = held
    held._first, held._second = first, second
    return same


def shared_einsum(subscripts: str, x: Shared, y: Shared) -> Words:
    """What a party multiplies by itself: x_i (y_i + y_{i+1}) + x_{i+1} y_i."""
    if x.ring.bits <= 32:
        if _is_weight(x) and not _is_weight(y):  # the sum is the same either way
            subscripts, x, y = exchanged(subscripts), y, x
        return einsum_with(subscripts, [x.first, x.second], y, ["total", "first"])
    z = _wide_einsum(subscripts, x.first, y.ring.reduce(y.first + y.second))
    z = z + _wide_einsum(subscripts, x.second, y.first)
    return x.ring.reduce(np.asarray(z))


def einsum_with(
    subscripts: str, xs: Sequence[Words], y: Shared, parts: Sequence[Part]
) -> Words:
    """The sum of einsum(x, part of y), of one x or two; rings of up to 32 bits."""
    held = prepared(y)
    if multiplies(subscripts):
        words = [_as_words(x) for x in xs]
        z = (
            multiply(subscripts, words, [held.packed(subscripts, p) for p in parts])
            if held.is_weight
            else multiply(subscripts, words, [held.words(p) for p in parts])
        )
        return y.ring.reduce(np.ascontiguousarray(z))
    sides = [getattr(held, part) for part in parts]
    operands = [o for pair in zip(xs, sides, strict=True) for o in pair]
    kernel = _int32_kernel(subscripts) if len(xs) == 2 else _dot_kernel(subscripts)
    z = np.asarray(kernel(*(_as_int32(o) for o in operands))).view(np.uint32)
    return y.ring.reduce(z)


def _is_weight(x: Shared) -> bool:
    return x in _PREPARED and _PREPARED[x].is_weight


def exchanged(subscripts: str) -> str:
    """The same einsum with its operands the other way round."""
    operands, _, result = subscripts.partition("->")
    left, _, right = operands.partition(",")
    return f"{right},{left}->{result}"


def ring_einsum_public(subscripts: str, x: Words, y: Words, ring: Ring) -> Words:
    """einsum(x, y) over a ring of up to 32 bits."""
    if multiplies(subscripts):
        z = multiply(subscripts, [_as_words(x)], [_as_words(y)])
        return ring.reduce(np.ascontiguousarray(z))
    z = np.asarray(_dot_kernel(subscripts)(_as_int32(x), _as_int32(y)))
    return ring.reduce(z.view(np.uint32))


def ring_einsum(subscripts: str, x: Words, y: Words, ring: Ring) -> Words:
    """einsum(x, y) over any ring, of numbers that a party knows."""
    if ring.bits <= 32:
        return ring_einsum_public(subscripts, x, y, ring)
    return ring.reduce(_wide_einsum(subscripts, x, y))


def _as_int32(array: Operand) -> Operand:
    if isinstance(array, jax.Array):
        return array
    return np.ascontiguousarray(_as_words(array)).view(np.int32)


def _as_words(array: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
    return array.astype(np.uint32, copy=False)


def _settled(array: Operand) -> Operand:
    """Large ones are put where XLA takes them, once; small ones travel faster."""
    return array if array.size < _LARGE else jnp.asarray(array)


@lru_cache(maxsize=256)
def _int32_kernel(subscripts: str) -> Callable[..., jax.Array]:
    def kernel(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
        return jnp.einsum(subscripts, a, b) + jnp.einsum(subscripts, c, d)

    compiled: Callable[..., jax.Array] = jax.jit(kernel)
    return compiled


@lru_cache(maxsize=256)
def _dot_kernel(subscripts: str) -> Callable[..., jax.Array]:
    compiled: Callable[..., jax.Array] = jax.jit(
        lambda a, b: jnp.einsum(subscripts, a, b)
    )
    return compiled


def _wide_einsum(subscripts: str, x: Words, y: Words) -> Words:
    total: Words | None = None
    longest = _contracted_size(subscripts, x, y)
    if longest > 1 << _EXACT:
        raise ValueError(f"A 64-bit dot product of {longest} terms is not exact.")
    with jax.enable_x64(True):
        kernel = _dot_kernel(subscripts)
        xs, ys = _limbs(x), _limbs(y)
        for i, xi in enumerate(xs):
            for j, yj in enumerate(ys[: len(xs) - i]):
                term = np.asarray(kernel(xi, yj)).astype(np.uint64)
                term = term << np.uint64(_LIMB * (i + j))
                total = term if total is None else total + term
    assert total is not None  # noqa: S101  (there is always a lowest limb)
    return total


def _limbs(array: Words) -> list[npt.NDArray[np.float64]]:
    wide = array.astype(np.uint64, copy=False)
    mask = np.uint64((1 << _LIMB) - 1)
    shifts = range(0, 64, _LIMB)
    return [((wide >> np.uint64(s)) & mask).astype(np.float64) for s in shifts]


def _contracted_size(subscripts: str, x: Words, y: Words) -> int:
    inputs, output = subscripts.split("->")
    sizes: dict[str, int] = {}
    for labels, array in zip(inputs.split(","), (x, y), strict=True):
        sizes |= dict(zip(labels, array.shape, strict=True))
    return int(np.prod([n for label, n in sizes.items() if label not in output] or [1]))
