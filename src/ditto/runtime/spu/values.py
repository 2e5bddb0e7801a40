"""Shares in and out of an SPU runtime, bit for bit.

SPU hands a party's share of a value out as bytes and takes the same back. For ABY3
every element is the pair (x_i, x_{i+1}), interleaved, of ring elements ("aby3.AShr")
or of words whose low bits are XOR shares ("aby3.BShr"). Large values come in chunks.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ditto.errors import EngineError, FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.runtime.spu.library import NativeShare, libspu
from ditto.sharing import Shared, SharedBits, pack_bits, unpack

CHUNK = 128 << 20


@dataclass(frozen=True, eq=False)
class Public:
    """A value that SPU knows to be public: the same at all parties."""

    integers: Words
    type: FxpType


Value = Shared | SharedBits | Public


def enter(x: Value, *, as_fixed_point: bool, chunk: int = CHUNK) -> NativeShare:
    """A value as SPU takes it: integers, or SPU's own fixed point, or bits."""
    native = libspu()
    meta = native.ValueMeta()
    meta.visibility = native.Visibility.VIS_SECRET
    if isinstance(x, Public):
        meta.visibility = native.Visibility.VIS_PUBLIC
        meta.shape = list(x.integers.shape)
        meta.data_type = _data_type(x.type, as_fixed_point)
        meta.storage_type = f"Pub2k<FM{x.type.bits}>"
        pair = np.ascontiguousarray(x.integers)
    elif isinstance(x, SharedBits):
        meta.shape = list(x.shape)
        meta.data_type = native.DataType.DT_I1
        meta.storage_type = "aby3.BShr<PT_U8,1>"
        pair = _interleave(_unpacked(x.first, x), _unpacked(x.second, x))
    else:
        meta.shape = list(x.shape)
        meta.data_type = _data_type(x.type, as_fixed_point)
        meta.storage_type = f"aby3.AShr<FM{x.type.bits}>"
        pair = _interleave(x.first, x.second)
    data = memoryview(pair.tobytes())
    share: NativeShare = native.Share()
    share.meta = meta.SerializeToString()
    share.share_chunks = [
        _chunk(data[start : start + chunk], start, len(data))
        for start in range(0, len(data), chunk)
    ]
    return share


def _data_type(type: FxpType, as_fixed_point: bool) -> object:  # noqa: A002
    """Regions are compiled for float32 and int32, in either ring."""
    if type.bits not in (32, 64):
        raise FixedPointTypeError(
            f"SPU has rings of 32 and 64 bits, got {type}. Recast it first."
        )
    kinds = libspu().DataType
    kind: object = kinds.DT_F32 if as_fixed_point else kinds.DT_I32
    return kind


def leave(share: NativeShare, *, fxp_frac: int, scope: str) -> Value:
    """An SPU value as our shares; ``fxp_frac`` is the runtime's own."""
    native = libspu()
    meta = native.ValueMeta()
    meta.ParseFromString(share.meta)
    storage = str(meta.storage_type)
    shape = tuple(meta.shape.dims)
    is_real = "DT_F" in str(meta.data_type)
    data = _assemble(share.share_chunks, scope)
    if found := re.fullmatch(r"aby3\.AShr<FM(32|64)>", storage):
        bits = int(found.group(1))
        pair = data.view(f"uint{bits}").reshape(*shape, 2)
        first, second = (np.array(pair[..., i]) for i in (0, 1))
        return Shared(first, second, FxpType(bits, fxp_frac if is_real else 0))
    if found := re.fullmatch(r"aby3\.BShr<PT_U(8|16|32|64),(\d+)>", storage):
        width = 1 if "DT_I1" in str(meta.data_type) else int(found.group(2))
        pair = data.view(f"uint{found.group(1)}").reshape(*shape, 2)
        return _leave_bits(pair[..., 0], pair[..., 1], width)
    if found := re.fullmatch(r"Pub2k<FM(32|64)>", storage):
        bits = int(found.group(1))
        integers = data.view(f"uint{bits}").reshape(shape)
        return Public(integers, FxpType(bits, fxp_frac if is_real else 0))
    raise EngineError(
        f"SPU left a value of storage {storage} in scope {scope!r}; shares of "
        f"arithmetic, boolean and public kind can leave it.",
        operation="leave",
        scope=scope,
    )


def _leave_bits(first: Words, second: Words, width: int) -> SharedBits:
    shape = first.shape if width == 1 else (*first.shape, width)
    places = np.arange(width, dtype=first.dtype)

    def bits(words: Words) -> npt.NDArray[np.uint8]:
        spread = words[..., None] >> places
        return pack_bits((spread & words.dtype.type(1)).astype(np.bool_))

    return SharedBits(bits(first), bits(second), shape)


def _unpacked(packed: npt.NDArray[np.uint8], x: SharedBits) -> npt.NDArray[np.uint8]:
    return unpack(packed, x.size, 1).reshape(x.shape)


def _interleave(first: Words, second: Words) -> Words:
    pair: Words = np.empty((*first.shape, 2), first.dtype)
    pair[..., 0] = first
    pair[..., 1] = second
    return pair


def _chunk(content: memoryview, offset: int, total: int) -> bytes:
    chunk = libspu().ValueChunk()
    chunk.total_bytes = total
    chunk.chunk_offset = offset
    chunk.content = content.tobytes()
    serialized: bytes = chunk.SerializeToString()
    return serialized


def _assemble(chunks: list[bytes], scope: str) -> npt.NDArray[np.uint8]:
    native = libspu()
    data: npt.NDArray[np.uint8] | None = None
    filled = 0
    for raw in chunks:
        chunk = native.ValueChunk()
        chunk.ParseFromString(raw)
        content = np.frombuffer(chunk.content, np.uint8)
        if data is None:
            data = np.empty(chunk.total_bytes, np.uint8)
        data[chunk.chunk_offset : chunk.chunk_offset + content.size] = content
        filled += content.size
    if data is None:
        return np.empty(0, np.uint8)
    if filled != data.size:
        raise EngineError(
            f"SPU handed out {filled} of {data.size} bytes of a value in scope "
            f"{scope!r}.",
            operation="leave",
            scope=scope,
        )
    return data
