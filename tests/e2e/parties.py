"""What each party does in the end-to-end tests; runs in the party's own process."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import FxpType, encode
from ditto.frames import Arrays, Json
from ditto.protocols import multiply, reveal, share, square
from ditto.runtime import Session, compile_region
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


def square_many(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """A large tensor of P0's, squared; P0 says how wrong the result is."""
    party, count = session.party, parameters["count"]
    integers = np.arange(count, dtype=np.uint32) % np.uint32(1 << 14)
    mine = integers if party.rank == Rank.P0 else None
    x = share(party, mine, LOW, owner=Rank.P0, shape=(count,))
    opened = reveal(party, square(party, x, LOW), to=Rank.P0)
    if opened is None:
        return {}, {}
    exact = integers.astype(np.int64) ** 2
    wrong = np.abs((LOW.ring.signed(opened).astype(np.int64) << LOW.frac) - exact).max()
    return {"ulp": float(wrong) / 2**LOW.frac}, {}


def many_steps(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """x -> x * 1 again and again; every step truncates and may err by one ulp."""
    party, steps = session.party, parameters["steps"]
    ones = encode(np.ones(32), LOW) if party.rank == Rank.P0 else None
    one = x = share(party, ones, LOW, owner=Rank.P0, shape=(32,))
    for _ in range(steps):
        x = multiply(party, x, one, LOW)
    opened = reveal(party, x)
    assert opened is not None
    return {"drift": float(np.abs(LOW.ring.signed(opened) - 2**LOW.frac).max())}, {}


def leave_early(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """P2 is done and leaves; P1 takes its time; P0 waits for P1."""
    party = session.party
    ones = encode(np.ones(10), LOW) if party.rank == Rank.P1 else None
    x = share(party, ones, LOW, owner=Rank.P1, shape=(10,))
    if party.rank == Rank.P2:
        session.close()
        session.close()  # once more does no harm
        return {}, {}
    if party.rank == Rank.P1:
        time.sleep(parameters["seconds"])
    reveal(party, x, to=Rank.P0)
    return {}, {}


def fail_alone(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """One party has an error of its own while the others wait for it."""
    party = session.party
    if party.rank == parameters["failing"]:
        encode(np.inf, LOW, name="its own tensor")
    session.party.channel.receive(Rank(parameters["failing"]), size=1, tag=0)
    return {}, {}


def send_and_leave(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """P1 sends much to P0 and leaves at once; P0 takes its time to read it."""
    channel, size = session.party.channel, parameters["size"]
    if channel.rank == Rank.P1:
        channel.send(Rank.P0, [np.full(size, 7, np.uint8)], tag=1)
        session.close()
    if channel.rank != Rank.P0:
        return {}, {}
    time.sleep(parameters["seconds"])
    read = channel.receive(Rank.P1, size=size, tag=1)
    return {"sum": int(read.sum(dtype=np.int64))}, {}


def wait_in_vain(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """P1 leaves; P0 waits for more from it."""
    channel = session.party.channel
    if channel.rank == Rank.P1:
        session.close()
    if channel.rank == Rank.P0:
        channel.receive(Rank.P1, size=1, tag=1)
    return {}, {}
