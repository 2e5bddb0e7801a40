"""Measure SPU's operations one by one, for the compiler's cost table.

    python -m benchmarks.spu_cost

writes ``analysis/spu_costs.json`` anew. Every program below has one operation more than
what earlier programs have priced; its bits are the exact count of what was sent,
divided by the elements.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer

import ditto.analysis
from benchmarks import show
from ditto.analysis.spu_cost import operations
from ditto.fixedpoint import FxpType
from ditto.frames import Arrays, Json
from ditto.operations import abstract
from ditto.operations.spu import FXP_FRAC
from ditto.runtime import Region, Session, ThreadTrio, compile_region
from ditto.runtime.spu.region import RingBits, program_text
from ditto.sharing import Shared, deal

Row = tuple[float, float]
Rows = dict[str, Row]

F, I = jnp.float32, jnp.int32  # noqa: E741
N = 512
C = 0.7


def _flags(x: Any) -> Any:
    return (x < C).astype(x.dtype)


Program = tuple[Callable[..., Any], int]

BOTH: tuple[Program, ...] = (
    (lambda x, y: x * y, 2),
    (lambda x: x * np.asarray(C * 10, x.dtype), 1),
    (lambda x, y: x < y, 2),
    (lambda x: x < np.asarray(C, x.dtype), 1),
    (lambda x: np.asarray(C, x.dtype) < x, 1),
    (lambda x, y: x == y, 2),
    (lambda x: x == np.asarray(C, x.dtype), 1),
    (lambda x: ~(x < np.asarray(C, x.dtype)), 1),
    (lambda x, y: (x < y) & (y < 1), 2),
    (lambda x, y: (x < y) | (y < 1), 2),
    (lambda x, y: (x < y) ^ (y < 1), 2),
    (lambda x, y: jnp.where(x < y, x, y), 2),
    (lambda x: jnp.where(x < 1, x, np.asarray(3, x.dtype)), 1),
    (lambda x: jnp.where(x < 1, np.asarray(3, x.dtype), x), 1),
    (lambda x: jnp.where(x < 1, np.asarray(3, x.dtype), np.asarray(5, x.dtype)), 1),
    (lambda x: x[np.arange(N)[::-2]], 1),
    (lambda x, y: _flags(x) * y, 2),
    (lambda x, y: y * _flags(x), 2),
    (lambda x: jnp.where(x < 1, x, np.zeros((), x.dtype)), 1),
    (lambda x: _flags(x) * np.asarray(3.3, x.dtype), 1),
    (lambda x, y: _flags(x) + y, 2),
    (lambda x, y: (x == y).astype(x.dtype) + y, 2),
    (lambda x, y: (x == y).astype(x.dtype) * x, 2),
    (lambda x, y: jnp.where(x == y, x, y), 2),
    (lambda x, y: (x < y) & (x == y), 2),
    (lambda x, y: (x < y) | (x == y), 2),
    (lambda x, y: (x == y) ^ (y < 1), 2),
    (lambda x, y: ~(x == y), 2),
    (jnp.abs, 1),
    (jnp.sign, 1),
    (lambda x: x.reshape(8, -1) @ x.reshape(-1, 8), 1),
    (lambda x: x.reshape(8, -1) @ np.full((N // 8, 8), 3, x.dtype), 1),
    (lambda x: np.full((8, N // 8), 3, x.dtype) @ x.reshape(-1, 8), 1),
)
HIGH: tuple[Program, ...] = (
    (lambda x: 1 / x, 1),
    (lambda x, y: x / y, 2),
    (jax.lax.rsqrt, 1),
    (jnp.sqrt, 1),
    (jnp.exp, 1),
    (jnp.expm1, 1),
    (jnp.log, 1),
    (jnp.log1p, 1),
    (jnp.tanh, 1),
    (jax.scipy.special.erf, 1),
    (jnp.floor, 1),
    (jnp.ceil, 1),
    (lambda x: jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN), 1),
    (lambda x, y: jnp.floor(x) + y, 2),
    (lambda x, y: x**y, 2),
    (lambda x: x**1.7, 1),
    (jnp.sin, 1),
    (jnp.cos, 1),
    (jnp.arctan2, 2),
)
PROGRAMS: tuple[tuple[RingBits, Any, tuple[Program, ...]], ...] = (
    (64, F, BOTH + HIGH),
    (64, I, BOTH),
    (32, F, BOTH),
    (32, I, BOTH),
)


def measure(progress: Callable[[str], None] = lambda _: None) -> dict[str, Rows]:
    """The whole table, by ring."""
    found: dict[str, Rows] = {"32": {}, "64": {}}
    for bits, dtype, programs in PROGRAMS:
        rows = found[str(bits)]
        for function, arity in programs:
            shapes = [abstract((N,), dtype)] * arity
            region = compile_region(function, shapes, bits=bits, name="measured")
            parts = operations(program_text(region))
            new = [o for o in parts if o.key not in rows]
            if not new:
                continue
            if len(new) != 1:
                raise ValueError(f"One new operation at a time, got {new}.")
            sent, rounds = run_region(region, bits, dtype)
            for part in parts:
                if part.key in rows:
                    sent -= rows[part.key][0] * part.elements
                    rounds -= rows[part.key][1] * part.repeats
            rows[new[0].key] = (sent / new[0].elements, rounds / new[0].repeats)
            progress(f"{bits} {new[0].key} {rows[new[0].key]}")
    return found


def run_region(region: Region, bits: RingBits, dtype: Any) -> tuple[float, float]:
    """Bits and rounds of one run."""
    kind = FxpType(bits, FXP_FRAC[bits] if dtype == F else 0)
    twos = np.full(N, 2 << kind.frac).astype(kind.ring.dtype)
    dealt = deal(twos, kind)
    count = len(region.inputs)

    def program(session: Session, _: Json, __: Arrays) -> tuple[Json, Arrays]:
        operands: list[Shared] = [dealt[session.party.rank]] * count
        session.runtimes.put(region, operands)
        link = session.spu_link
        link.restart_clock()
        before = link.traffic().bytes
        session.runtimes.execute(region)
        after = link.traffic()
        session.runtimes.take(region)
        return {"bytes": after.bytes - before, "rounds": after.rounds}, {}

    with ThreadTrio() as trio:
        replies = trio.call(program)
    sent = 8 * sum(reply["bytes"] for reply, _ in replies)
    return float(sent), float(max(reply["rounds"] for reply, _ in replies))


def main(
    target: Annotated[
        Path | None,
        typer.Option("--json", help="Write the table here instead of over Ditto's."),
    ] = None,
) -> None:
    """Measure SPU's operations one by one and write the compiler's cost table anew.

    Do so for every new SPU wheel. Bits and rounds are exact counts; each operation is
    shown as it is measured. About a minute.
    """
    rows = measure(lambda line: typer.echo(line, err=True))
    own = Path(ditto.analysis.__file__).parent / "spu_costs.json"
    (target or own).write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    show.run(main)
