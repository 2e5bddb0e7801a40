"""What each party does in a benchmark; runs in the party's own process."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.bare import bare_link, bare_runtimes
from ditto.bench.checks import random_shared
from ditto.fixedpoint import FxpType
from ditto.frames import Arrays, Json
from ditto.operations.spu import FXP_FRAC
from ditto.party.inputs import receive_inputs
from ditto.protocols import matmul, reveal_to_client
from ditto.protocols.registry import ROWS, Form, give_back, take_operands
from ditto.runtime import (
    Region,
    Session,
    Value,
    compile_region,
)
from ditto.runtime.executor import execute, prepare
from ditto.sharing import Shared
from ditto.steps import plan_from_bytes

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
    operands = row.take(arrays)
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
    runtimes = bare_runtimes(session)
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
    bare = bare_runtimes(session)
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

    link = bare_link(session)
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
    taken = take_operands(Form.SHARES, arrays, kinds)
    operands = [x for x in taken if isinstance(x, Shared)]
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
    """A registry row once, on its part of ``row.deal``: its traffic and its result."""
    return ROWS[parameters["key"]].measure(session.party, arrays)


def run_layer(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """What each party does: a run that counts, then runs that are timed.

    Where SPU alone computes, it is timed on its own links, without ours between.
    """
    plan = plan_from_bytes(arrays["plan"].tobytes())
    inputs, regions = receive_inputs(plan, arrays), prepare(plan)
    (output,), spent = execute(plan, session, inputs, regions=regions)
    runtimes = None
    if parameters["bare"]:
        runtimes = bare_runtimes(session)
    seconds, cpu = [], []
    for _ in range(parameters["repeat"]):
        started, before = time.perf_counter(), time.process_time()
        (output,), _ = execute(
            plan, session, inputs, regions=regions, runtimes=runtimes
        )
        cpu.append(time.process_time() - before)
        seconds.append(time.perf_counter() - started)
    if not isinstance(output, Shared):
        raise TypeError("The layer's result is secret.")
    costs = [[s.bytes, s.rounds, s.seconds] for s in spent]
    revealed = reveal_to_client(session.party, output)
    timed = {"seconds": seconds, "cpu_seconds": cpu}
    return {"steps": costs, **timed}, revealed.to_arrays("0")
