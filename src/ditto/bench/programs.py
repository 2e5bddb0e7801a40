"""What each party does in a benchmark; runs in the party's own process."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ditto.engine import (
    FXP_FRAC,
    LinkedSession,
    Region,
    Session,
    Value,
    compile_region,
)
from ditto.engine.frames import Arrays, Json
from ditto.fixedpoint import FxpType, decode
from ditto.party.holdings import holdings
from ditto.protocols import (
    PROTOCOLS,
    Form,
    Party,
    Protocol,
    client_bytes,
    give_back,
    hand_out,
    matmul,
    reveal,
    share,
    take_in,
)
from ditto.sharing import Rank, Shared, Stream

ROWS = {row.key: row for row in PROTOCOLS}

PUBLIC_FACTOR = 179 / 256
"""Exact at SPU's fracs, and with enough bits that truncation has something to cut."""

SPU_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "truncate": lambda x: x * PUBLIC_FACTOR,  # a local product, then truncation
    "multiply + recast": lambda x, y: x * y,
    "square + recast": lambda x: x * x,
    "matmul + recast": lambda x, y: x @ y,
    "batched dot + recast": lambda x, y: x @ y,
    "sum of squares + recast": lambda x: (x * x).sum(-1, keepdims=True),
    "multiply": lambda x, y: x * y,
    "matmul": lambda x, y: x @ y,
}


def on_fixed_point(name: str) -> bool:
    """Whether SPU's operation of this name truncates: else it runs on integers."""
    return "recast" in name or name == "truncate"


def random_shared(
    party: Party,
    shape: tuple[int, ...],
    type: FxpType,  # noqa: A002
    limit: int,
) -> Shared:
    """Shares of uniform integers below ``limit``, brought in by P0."""
    integers = None
    if party.rank == Rank.P0:
        size = int(np.prod(shape))
        drawn = Stream.private().open(0).draw("integers", size, type.ring)
        reduced = drawn.astype(np.int64) % (2 * limit - 1) - (limit - 1)
        integers = type.ring.reduce(reduced).reshape(shape)
    return share(party, integers, type, owner=Rank.P0, shape=shape)


def spu_region(name: str, shapes: list[list[int]], bits: int) -> Region:
    """SPU's own operation of this name, on its fixed point or on integers."""
    dtype = jnp.float32 if on_fixed_point(name) else jnp.int32
    arguments = [jnp.zeros(tuple(shape), dtype) for shape in shapes]
    return compile_region(
        SPU_FUNCTIONS[name], arguments, bits=64 if bits == 64 else 32, name=name
    )


def time_row(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """Seconds of a registry row: the median of several runs after a warm-up."""
    row, party = ROWS[parameters["key"]], session.party
    operands = row_operands(row, arrays)
    seconds = [
        _timed(lambda: row.run(party, *operands)) for _ in range(parameters["repeat"])
    ]
    return {"seconds": statistics.median(seconds[1:] or seconds)}, {}


def time_spu(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """Seconds of SPU's own operation, without the way in and out."""
    bits, shapes = parameters["bits"], parameters["shapes"]
    region = spu_region(parameters["name"], shapes, bits)
    kind = FxpType(bits, FXP_FRAC[region.bits])
    operands = [
        random_shared(session.party, tuple(shape), kind, 1 << (bits // 4))
        for shape in shapes
    ]
    runtimes = _linked(session).bare_runtimes()
    runtimes.put(region, operands)
    seconds = [
        _timed(lambda: runtimes.execute(region)) for _ in range(parameters["repeat"])
    ]
    runtimes.take(region)
    return {"seconds": statistics.median(seconds[1:] or seconds)}, {}


def time_matmul(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """Our fused matmul and SPU's fixed-point matmul in turn, on the same shapes."""
    party, (left, right) = session.party, parameters["shapes"]
    low, engine = FxpType(bits=32, frac=12), FxpType(bits=32, frac=FXP_FRAC[32])
    x, y = (random_shared(party, tuple(s), low, 1 << 8) for s in (left, right))
    a, b = (random_shared(party, tuple(s), engine, 1 << 8) for s in (left, right))
    region = spu_region("matmul + recast", [left, right], 32)
    bare = _linked(session).bare_runtimes()
    bare.put(region, [a, b])
    times: dict[str, list[float]] = {"native": [], "spu": []}
    sent = party.channel.traffic().bytes
    for _round in range(parameters["repeat"] + 1):  # the first is a warm-up
        times["native"].append(_timed(lambda: matmul(party, x, y, low)))
        times["spu"].append(_timed(lambda: bare.execute(region)))
    native_bytes = party.channel.traffic().bytes - sent
    bare.take(region)
    session.runtimes.put(region, [a, b])
    sent = session.spu_link.traffic().bytes
    session.runtimes.execute(region)
    spu_bytes = session.spu_link.traffic().bytes - sent
    return {
        "native": times["native"][1:],
        "spu": times["spu"][1:],
        "native_bytes": native_bytes // (parameters["repeat"] + 1),
        "spu_bytes": spu_bytes,
    }, {}


def use_bare_links(
    session: Session, parameters: Json, _: Arrays
) -> tuple[Json, Arrays]:
    """Let SPU's part of plans run on links of its own, or on the session's again."""
    kept = holdings(session)
    kept.runtimes = None
    if parameters["bare"]:
        session.runtimes.keep([])  # weights are inside once
        if "bare" not in session.holdings:
            session.holdings["bare"] = _linked(session).bare_runtimes()
        kept.runtimes = session.holdings["bare"]
    return {}, {}


def time_messages(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """Seconds to send to the next party and hear from the one before."""
    size, repeat = parameters["size"], parameters["repeat"]
    channel, rank = session.party.channel, session.party.rank
    payload = np.zeros(size, np.uint8)

    def ours() -> None:
        channel.send(rank.next, [payload], tag=size)
        channel.receive(rank.previous, size=size, tag=size)

    def spus() -> None:
        link.send_async(int(rank.next), payload.tobytes())
        link.recv(int(rank.previous))

    link = _linked(session).bare_link()
    exchange = ours if parameters["links"] == "ditto" else spus
    for _warm_up in range(5):
        exchange()
    cpu, started = time.process_time(), time.perf_counter()
    for _round in range(repeat):
        exchange()
    return {
        "seconds": (time.perf_counter() - started) / repeat,
        "cpu_seconds": (time.process_time() - cpu) / repeat,
    }, {}


def measure_spu(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """SPU's own operation once, on given shares: for its result and its traffic."""
    kinds = [FxpType(parameters["bits"], parameters["frac"])] * parameters["operands"]
    operands = take_operands(Form.SHARES, arrays, kinds)
    shapes = [list(x.shape) for x in operands]
    region = spu_region(parameters["name"], shapes, parameters["bits"])
    runtimes = session.runtimes
    runtimes.put(region, operands)
    link = session.spu_link
    link.restart_clock()
    before = link.traffic().bytes
    runtimes.execute(region)
    after = link.traffic()
    result = _only_shares(runtimes.take(region))
    traffic = {"bytes": after.bytes - before, "rounds": after.rounds}
    return traffic, give_back(result)


def _linked(session: Session) -> LinkedSession:
    """The session, if SPU has links of its own in it: the fair measure of its time."""
    if not isinstance(session, LinkedSession):
        raise TypeError("SPU alone is timed over real links, in a ProcessTrio.")
    return session


def _only_shares(results: Sequence[Value]) -> Shared:
    """The one result of a region, which must be arithmetic shares."""
    (result,) = results
    if not isinstance(result, Shared):
        raise TypeError(f"SPU gave {type(result).__name__}, not shares.")
    return result


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_row(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """A registry row once, on what ``row_arrays`` dealt: its result and its traffic."""
    row, channel = ROWS[parameters["key"]], session.party.channel
    operands = row_operands(row, arrays)
    channel.restart_clock()
    before = channel.traffic()
    result = row.run(session.party, *operands)
    after = channel.traffic()
    sent = [a - b for a, b in zip(after.sent, before.sent, strict=True)]
    to_client = client_bytes(row.gives, result, row.result)
    return {
        "sent": sent,
        "bytes": sum(sent) + to_client,
        "rounds": max(after.rounds, int(to_client > 0)),
    }, give_back(result)


def row_arrays(row: Protocol, integers: Sequence[Any]) -> list[Arrays]:
    """Plain operands of a row, dealt: the arrays of each party."""
    return deal_operands(row.takes, integers, row.operands)


def row_operands(row: Protocol, arrays: Arrays) -> list[Any]:
    """A party's operands, from its part of ``row_arrays``."""
    return take_operands(row.takes, arrays, row.operands)


def deal_operands(
    form: Form, integers: Sequence[Any], kinds: Sequence[FxpType]
) -> list[Arrays]:
    """Plain integers, dealt: the arrays of each party, by operand."""
    dealt = [hand_out(form, x, kind) for x, kind in zip(integers, kinds, strict=True)]
    return [
        {
            f"{i}.{name}": a
            for i, held in enumerate(dealt)
            for name, a in held[r].items()
        }
        for r in range(3)
    ]


def take_operands(form: Form, arrays: Arrays, kinds: Sequence[FxpType]) -> list[Any]:
    """A party's operands, from its part of ``deal_operands``."""
    return [
        take_in(
            form,
            {
                name.partition(".")[2]: a
                for name, a in arrays.items()
                if name.startswith(f"{i}.")
            },
            kind,
        )
        for i, kind in enumerate(kinds)
    ]


def check_native(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """A square matmul with fused truncation against its plaintext."""
    kind = FxpType(bits=32, frac=12)
    return _check(
        session,
        parameters["size"],
        kind,
        lambda x, y: matmul(session.party, x, y, kind),
    )


def check_spu(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """SPU's fixed-point matmul on one ring against its plaintext."""
    bits, size = parameters["bits"], parameters["size"]
    region = spu_region("matmul + recast", [[size, size]] * 2, bits)
    kind = FxpType(bits, FXP_FRAC[region.bits])

    return _check(
        session,
        size,
        kind,
        lambda x, y: _only_shares(session.runtimes.run(region, [x, y])),
    )


def _check(
    session: Session,
    size: int,
    kind: FxpType,
    product: Callable[[Shared, Shared], Shared],
) -> tuple[Json, Arrays]:
    party = session.party
    x, y = (random_shared(party, (size, size), kind, 1 << 8) for _ in range(2))
    got, left, right = (reveal(party, t) for t in (product(x, y), x, y))
    if got is None or left is None or right is None:
        raise RuntimeError("Revealed to all, yet nothing came.")
    exact = decode(left, kind) @ decode(right, kind)
    error = float(np.abs(decode(got, kind) - exact).max())
    return {"error": error, "allowed": 1.01 * kind.ulp}, {}
