"""Secrets in three pieces: replicated shares, boolean shares, masks."""

from ditto.sharing.boolean import (
    Bits,
    SharedBits,
    combine_bits,
    deal_bits,
    pack_bits,
    unpack_bits,
)
from ditto.sharing.indices import SharedIndices, deal_indices
from ditto.sharing.packing import pack, packed_size, unpack
from ditto.sharing.prf import KEY_BYTES, Masks, Stream, derive_key
from ditto.sharing.rank import RANKS, Rank
from ditto.sharing.replicated import (
    Revealed,
    Shared,
    add_summands,
    combine,
    deal,
)

__all__ = [
    "KEY_BYTES",
    "RANKS",
    "Bits",
    "Masks",
    "Rank",
    "Revealed",
    "Shared",
    "SharedBits",
    "SharedIndices",
    "Stream",
    "add_summands",
    "combine",
    "combine_bits",
    "deal",
    "deal_bits",
    "deal_indices",
    "derive_key",
    "pack",
    "pack_bits",
    "packed_size",
    "unpack",
    "unpack_bits",
]
