"""lookup: rows of a secret table at secret indices.

Steps
    1. For an index i the parties hold two splits of the vector e_i (``indices``): P0
       holds a and P1 and P2 hold b with a + b = e_i, and P1 holds c and P2 holds d with
       c + d = e_i. Each expands its keys to vectors of the table's length.
    2. With the table's shares T0, T1, T2 each multiplies what it holds:
       P0 z0 = a (T0 + T1), P1 z1 = b T1 + c T2, P2 z2 = b T0 + d T2; their sum is
       e_i (T0 + T1 + T2), row i.
    3. The z are additive shares: reshared, or recast, as the result of any product.

Cost
    that of a product with as many results: 3l bits per element of the rows found, one
    round, whatever the table's length; with a recast fused in, 2l + l' + 3k. The client
    sends about 17 log2(length) bytes for each of five keys per index.

Security
    A key is pseudorandom and independent of the index as long as its other half is not
    seen (``points``). P0 holds one half of the first split and nothing of the second;
    P1 and P2 hold the same half of the first, and one half each of the second, which
    is drawn independently. Two parties together would know the index, as two parties
    together know any share. Step 2 is local; step 3 is ``reshare`` or ``multiply``.

Source
    Boyle, Gilboa, Ishai (CCS 2016) for the keys; docs/explanation/protocols.md.
"""

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.protocols.blocks import Rounds
from ditto.protocols.kernels import Part, einsum_with
from ditto.protocols.multiply import product_task
from ditto.protocols.party import Party
from ditto.sharing import Rank, Shared, SharedIndices

_PARTS: dict[Rank, list[Part]] = {
    Rank.P0: ["total"],
    Rank.P1: ["first", "second"],
    Rank.P2: ["second", "first"],
}
"""What the one-hot words of each party select from; that shared with P0 comes first."""


def lookup(
    party: Party,
    indices: SharedIndices,
    table: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Shared:
    """table[indices]; the price is ``product_cost`` of the rows found."""
    if table.type.bits != indices.bits or table.shape[0] != indices.depth:
        raise FixedPointTypeError(
            f"Indices into {indices.depth} rows of {indices.bits} bits do not fit a "
            f"table of {table.shape[0]} rows of {table.type}."
        )
    ring, rows = table.ring, table.shape[1:]
    axes = "abcdefgh"[: len(rows)]
    parts = _PARTS[party.rank]
    z = np.empty((indices.keys.shape[1], *rows), ring.dtype)
    for part, one_hots in indices.one_hots(party.rank):
        z[part] = einsum_with(f"ni,i{axes}->n{axes}", one_hots, table, parts)
    z = z.reshape(*indices.shape, *rows)
    return party.run_task(product_task(z, table.type, to, rounds, checked=checked))
