"""Contractions modulo 2^32 by the C kernels: an einsum as a batched matrix product."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.native.library import Level, Product, Words, carry_out, kernels, level

_ALIGNMENT = 64
_WORD = 4


@dataclass(frozen=True)
class Form:
    """An einsum of two operands as a batched product of matrices."""

    left: tuple[int, ...]
    """The axes of the first operand as batch, rows, depth."""
    right: tuple[int, ...]
    """The axes of the second as batch, depth, columns."""
    batch: int
    """How many of the axes are batch, rows and depth."""
    rows: int
    depth: int
    result: tuple[int, ...]
    """Where the axes of the result lie in batch, rows, columns."""

    @property
    def packing(self) -> "Packing":
        """What the packed second operand depends on: several forms may share it."""
        return self.right, self.batch, self.depth


Packing = tuple[tuple[int, ...], int, int]
"""The axes of a second operand, how many of them are batch, and how many depth."""


@lru_cache(maxsize=1024)
def form_of(subscripts: str) -> Form | None:
    """None for what is no product of matrices: repeated labels, lone summed ones."""
    operands, arrow, result = subscripts.partition("->")
    left, comma, right = operands.partition(",")
    if not arrow or not comma or not (left + right + result).isalpha():
        return None
    batch = [c for c in left if c in right and c in result]
    depth = [c for c in left if c in right and c not in result]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    made = batch + rows + columns
    if sorted(made) != sorted(result) or any(
        len(set(labels)) != len(labels) for labels in (left, right, result)
    ):
        return None
    return Form(
        left=tuple(left.index(c) for c in batch + rows + depth),
        right=tuple(right.index(c) for c in batch + depth + columns),
        batch=len(batch),
        rows=len(rows),
        depth=len(depth),
        result=tuple(made.index(c) for c in result),
    )


@dataclass(frozen=True, eq=False)
class Packed:
    """The second operand of an einsum, cut up for one level. Made once, for weights."""

    level: Level
    batch: tuple[int, ...]
    depth: tuple[int, ...]
    columns: tuple[int, ...]
    words: npt.NDArray[np.uint8] = field(repr=False)


def multiplies(subscripts: str) -> bool:
    """Whether the kernels of this machine serve this einsum."""
    return level() > Level.XLA and form_of(subscripts) is not None


def packing_of(subscripts: str) -> Packing:
    """Einsums with the same packing can take the same packed operand."""
    return _known_form(subscripts).packing


def pack(subscripts: str, w: Words, at: Level | None = None) -> Packed:
    """Cut up the second operand of an einsum."""
    library, chosen = kernels(), level() if at is None else at
    form = _known_form(subscripts)
    matrices, batch, depth, columns = _right(form, w)
    count, k, n = matrices.shape
    size = library.ditto_packed_bytes(chosen, k, n)
    room = np.empty(count * size + _ALIGNMENT, np.uint8)
    words = room[-room.ctypes.data % _ALIGNMENT :][: count * size]
    for i, matrix in enumerate(matrices):
        row, column = (stride // _WORD for stride in matrix.strides)
        to = words.ctypes.data + i * size
        library.ditto_pack(chosen, matrix.ctypes.data, k, n, row, column, to)
    return Packed(chosen, batch, depth, columns, words)


def multiply(
    subscripts: str,
    xs: Sequence[Words],
    ws: Sequence[Words] | Sequence[Packed],
    *,
    threads: int | None = None,
    at: Level | None = None,
) -> Words:
    """The sum of one or two contractions modulo 2^32; all xs and all ws are alike."""
    if not len(xs) == len(ws) in (1, 2):
        raise ValueError("One contraction is computed, or the sum of two.")
    form = _known_form(subscripts)
    lefts, batch, rows, depth = _lefts(form, xs)
    count, m, k = lefts[0].shape
    product = Product(
        terms=len(xs), batch=count, rows=m, depth=k, threads=threads or _threads()
    )
    product.x[:] = [lefts[0].ctypes.data, lefts[-1].ctypes.data]
    product.x_batch, product.x_row = (s // _WORD for s in lefts[0].strides[:2])
    kept: list[Words] = []  # until the kernel has read them
    if isinstance(ws[0], Packed):
        shapes = [(w.batch, w.depth, w.columns) for w in ws if isinstance(w, Packed)]
        product.level, product.w_is_packed = ws[0].level, 1
        addresses = [w.words.ctypes.data for w in ws if isinstance(w, Packed)]
    else:
        cut = [_right(form, w) for w in ws if not isinstance(w, Packed)]
        shapes = [each[1:] for each in cut]
        kept = _alike([each[0] for each in cut])
        product.level = level() if at is None else at
        strides = (stride // _WORD for stride in kept[0].strides)
        product.w_batch, product.w_row, product.w_column = strides
        addresses = [w.ctypes.data for w in kept]
    columns = shapes[0][2]
    if shapes != [(batch, depth, columns)] * len(ws):
        raise ValueError(f"The operands of {subscripts} do not fit together.")
    product.w[:] = [addresses[0], addresses[-1]]
    n = product.columns = prod(columns)
    z = np.empty((count, m, n), np.uint32)
    if not z.size or not k:
        z[:] = 0
    else:
        product.z, product.z_batch, product.z_row = z.ctypes.data, m * n, n
        carry_out(product)
    return z.reshape(batch + rows + columns).transpose(form.result)


def _known_form(subscripts: str) -> Form:
    form = form_of(subscripts)
    if form is None:
        raise ValueError(f"{subscripts} is no product of matrices.")
    return form


def _threads() -> int:
    return len(os.sched_getaffinity(0))


Shape = tuple[int, ...]


def _lefts(form: Form, xs: Sequence[Words]) -> tuple[list[Words], Shape, Shape, Shape]:
    turned = [x.transpose(form.left) for x in xs]
    shape = turned[0].shape
    if any(x.shape != shape for x in turned):
        raise ValueError("The first operands of a sum are of one shape.")
    b, r = form.batch, form.batch + form.rows
    batch, rows, depth = shape[:b], shape[b:r], shape[r:]
    matrices = [x.reshape(prod(batch), prod(rows), prod(depth)) for x in turned]
    packed = [
        x if x.strides[2] == _WORD or x.shape[2] == 1 else np.ascontiguousarray(x)
        for x in matrices
    ]
    return _alike(packed), batch, rows, depth


def _right(form: Form, w: Words) -> tuple[Words, Shape, Shape, Shape]:
    turned = w.transpose(form.right)
    b, k = form.batch, form.batch + form.depth
    batch, depth, columns = turned.shape[:b], turned.shape[b:k], turned.shape[k:]
    return (
        turned.reshape(prod(batch), prod(depth), prod(columns)),
        batch,
        depth,
        columns,
    )


def _alike(arrays: list[Words]) -> list[Words]:
    """With the same strides."""
    if arrays[0].strides == arrays[-1].strides:
        return arrays
    return [np.ascontiguousarray(array) for array in arrays]
