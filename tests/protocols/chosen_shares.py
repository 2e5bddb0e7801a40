"""One run of a protocol on shares of which the first is chosen, with scripted masks."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import Party, memory_channels
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Shared
from tests.conformance.scripted import Name, ScriptedParty


def drawn(name: Name, count: int, ring: Ring) -> Words:
    rng = np.random.default_rng(list(repr(name).encode()))
    return ring.reduce(rng.integers(0, 1 << 63, count, np.uint64))


def computed(
    protocol: Callable[[Party, Shared], Shared], x: Words, x0: Words, source: FxpType
) -> Words:
    """The integers of the result, of integers x whose first share is x0."""
    ring = source.ring
    x1 = ring.reduce(np.random.default_rng(1).integers(0, 1 << ring.bits, x.shape))
    shares = [ring.reduce(x0), x1, ring.reduce(x - x0 - x1)]
    held = [Shared(shares[r], shares[(r + 1) % 3], source) for r in range(3)]
    parties: list[Party] = [
        ScriptedParty(channel, drawn) for channel in memory_channels(timeout=20)
    ]

    def work(rank: Rank) -> Shared:
        return protocol(parties[rank], held[rank])

    made = raise_first(run_together([partial(work, rank) for rank in RANKS]))
    for rank in RANKS:
        assert np.array_equal(made[rank].second, made[rank.next].first)
    total = made[0].first + made[0].second + made[1].second
    ring = made[0].type.ring
    return ring.signed(ring.reduce(total))
