"""What each party does in the end-to-end tests; runs in the party's own process."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from ditto.engine import Session, compile_region
from ditto.engine.frames import Arrays, Json
from ditto.fixedpoint import FxpType, encode
from ditto.protocols import multiply, share
from ditto.sharing import Rank

LOW = FxpType(bits=32, frac=12)


def compute_forever(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """Native steps and SPU regions in turn, until somebody dies."""
    party = session.party
    ones = encode(np.ones(20_000), LOW) if party.rank == Rank.P0 else None
    x = share(party, ones, LOW, owner=Rank.P0, shape=(20_000,))
    row_max = compile_region(
        lambda rows: rows.max(-1),
        [jax.ShapeDtypeStruct((100, 200), jnp.int32)],
        bits=32,
        name="row max",
    )
    while True:
        for _ in range(10):
            y = multiply(party, x, x, LOW)
        session.runtimes.run(row_max, [y.reshape(100, 200)])


def stall(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """One party sleeps in the middle of a protocol; the others wait for it."""
    party = session.party
    ones = encode(np.ones(100), LOW) if party.rank == Rank.P0 else None
    x = share(party, ones, LOW, owner=Rank.P0, shape=(100,))
    if party.rank == parameters["sleeper"]:
        time.sleep(parameters["seconds"])
    multiply(party, x, x, LOW)
    return {}, {}
