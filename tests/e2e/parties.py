"""What each party does in the end-to-end tests; runs in the party's own process."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ditto.engine import LinkedSession, Session, compile_region
from ditto.engine.frames import Arrays, Json
from ditto.fixedpoint import FxpType, encode
from ditto.protocols import multiply, reveal, share, square
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
    wrong = np.abs((opened.astype(np.int64) << LOW.frac) - exact).max()
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


def tamper(
    session: LinkedSession, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """P1 sends P0 a message that somebody changed on the way."""
    links, rank = session._links, session.party.rank
    if rank == Rank.P1:
        sealing = links._seals[Rank.P0]
        links._seals[Rank.P0] = (AESGCM(bytes(16)), sealing[1])
        links.post(Rank.P0, b"forged", [b"shares"])
        links._seals[Rank.P0] = sealing
    if rank == Rank.P0:
        links.fetch(Rank.P1, b"forged")
    return {}, {}


def wire_bytes(
    session: LinkedSession, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """What P0's native link carries when P1 sends it a known text."""
    links, rank = session._links, session.party.rank
    if rank == Rank.P1:
        links.post(Rank.P0, b"known", [parameters["text"].encode()])
    if rank != Rank.P0:
        return {}, {}
    with links._changed:
        links._changed.wait_for(lambda: (Rank.P1, b"known") in links._mail, 10)
        _, sealed = links._mail[Rank.P1, b"known"]
    opened = links.fetch(Rank.P1, b"known")
    return {"opened": bytes(opened).decode(), "sealed": bytes(sealed).hex()}, {}


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
