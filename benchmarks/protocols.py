"""Every protocol, ours beside the paper's variant and SPU's own operation.

Bits, rounds and errors are exact counts and full measurements on threads over memory;
seconds are medians in three processes over SPU's links.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar

from benchmarks import programs, show
from benchmarks.bare import BareTrio
from ditto.fixedpoint import FxpType
from ditto.operations.spu import FXP_FRAC
from ditto.protocols.registry import (
    PROTOCOLS,
    Form,
    Protocol,
    deal_operands,
    gather,
)
from ditto.runtime import ProcessTrio, Reply, ThreadTrio

Exact = npt.NDArray[np.longdouble]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    protocol: str
    variant: str
    parameters: dict[str, Any]
    bits_per_element: float
    rounds: int
    mean_error_ulp: float
    max_error_ulp: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """A plain object."""
        return asdict(self)


@dataclass(frozen=True)
class _SpuCase:
    name: str
    bits: int
    like: Protocol

    @property
    def frac(self) -> int:
        return FXP_FRAC[64 if self.bits == 64 else 32]

    @property
    def is_fixed_point(self) -> bool:
        return programs.on_fixed_point(self.name)

    @property
    def limit(self) -> int:
        """Operand integers whose products stay below a quarter of the ring."""
        return int(2 ** ((self.bits - 2) / 2) / self.like.terms**0.5)


def bench_protocols(
    *,
    error_elements: int,
    time_elements: int,
    repeat: int,
    progress: Progress,
    only: str = "",
) -> list[Measurement]:
    """Measure the rows of the registry and SPU's operations beside them: all, or those
    of protocols whose name has ``only`` in it."""
    rows = [row for row in PROTOCOLS if only in row.name]
    spu_cases = [case for case in _spu_cases() if only in case.name]
    total = len(rows) + len(spu_cases)
    results = []
    with ThreadTrio() as threads, BareTrio() as processes:
        done = 0
        for row in rows:
            progress(row.key, done, total)
            results.append(
                _measure(row, threads, processes, error_elements, time_elements, repeat)
            )
            done += 1
        for case in spu_cases:
            progress(f"{case.name} spu FM{case.bits}", done, total)
            results.append(
                _measure_spu(
                    case, threads, processes, error_elements, time_elements, repeat
                )
            )
            done += 1
        progress("done", total, total)
    order = {name: i for i, name in enumerate(dict.fromkeys(r.name for r in PROTOCOLS))}
    return sorted(results, key=lambda r: order[r.protocol])


def _rows_for(row: Protocol, elements: int) -> int:
    per_row = row.plain(*(np.ones(shape) for shape in row.shapes(1))).size
    return -(-elements // (per_row * row.work))


def _random(row: Protocol, elements: int) -> list[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    low, high = row.domain
    shapes = row.shapes(_rows_for(row, elements))
    return [rng.integers(low, high, shape, endpoint=True) for shape in shapes]


def _measure(
    row: Protocol,
    threads: ThreadTrio,
    processes: ProcessTrio,
    error_elements: int,
    time_elements: int,
    repeat: int,
) -> Measurement:
    integers = _random(row, error_elements)
    arrays = row.deal(integers)
    replies = threads.call(programs.run_row, {"key": row.key}, arrays)
    got = gather(row.gives, [out for _, out in replies], row.result)
    exact = row.plain(
        *(_real(x, t.frac) for x, t in zip(integers, row.operands, strict=True))
    )
    errors = _errors(got, exact, row.result)
    timing = processes.call(
        programs.time_row,
        {"key": row.key, "repeat": repeat},
        row.deal(_random(row, time_elements)),
    )
    return _measurement(row.name, row.variant, row.parameters, replies, errors, timing)


def _spu_cases() -> Iterator[_SpuCase]:
    first = {row.name: row for row in reversed(PROTOCOLS)}
    for name in programs.SPU_FUNCTIONS:
        for bits in (32, 64):
            case = _SpuCase(name, bits, first[name])
            if case.is_fixed_point or bits == 32:
                yield case


def _measure_spu(
    case: _SpuCase,
    threads: ThreadTrio,
    processes: ProcessTrio,
    error_elements: int,
    time_elements: int,
    repeat: int,
) -> Measurement:
    rng = np.random.default_rng(0)
    frac = case.frac if case.is_fixed_point else 0
    kind = FxpType(case.bits, frac)
    shapes = case.like.shapes(_rows_for(case.like, error_elements))
    integers = [rng.integers(1 - case.limit, case.limit, shape) for shape in shapes]
    kinds = [kind] * len(shapes)
    replies = threads.call(
        programs.measure_spu,
        {
            "name": case.name,
            "bits": case.bits,
            "frac": frac,
            "operands": len(kinds),
        },
        deal_operands(Form.SHARES, integers, kinds),
    )
    got = gather(Form.SHARES, [out for _, out in replies], kind)
    plain = case.like.plain
    if case.name == "truncate":
        plain = partial(np.multiply, np.longdouble(programs.PUBLIC_FACTOR))
    exact = plain(*(_real(x, frac) for x in integers))
    errors = _errors(got, exact, kind)
    shapes = case.like.shapes(_rows_for(case.like, time_elements))
    timing = processes.call(
        programs.time_spu,
        {
            "name": case.name,
            "bits": case.bits,
            "shapes": [list(shape) for shape in shapes],
            "repeat": repeat,
        },
    )
    operands = str(kind) if case.is_fixed_point else f"int{case.bits}"
    return _measurement(
        case.name, "spu", {"operands": operands}, replies, errors, timing
    )


def _measurement(
    protocol: str,
    variant: str,
    parameters: dict[str, Any],
    replies: list[Reply],
    errors: Exact,
    timing: list[Reply],
) -> Measurement:
    """What the parties counted, what was wrong, and the slowest party's time."""
    bits = 8 * sum(meter["bytes"] for meter, _ in replies)
    return Measurement(
        protocol=protocol,
        variant=variant,
        parameters=parameters,
        bits_per_element=bits / errors.size,
        rounds=max(meter["rounds"] for meter, _ in replies),
        mean_error_ulp=float(errors.mean()),
        max_error_ulp=float(np.abs(errors).max()),
        seconds=max(reply["seconds"] for reply, _ in timing),
    )


def _real(integers: npt.NDArray[Any], frac: int) -> Exact:
    """Integers of up to 64 bits scaled by a power of two, without rounding."""
    result: Exact = np.ldexp(integers.astype(np.longdouble), -frac)
    return result


def _errors(
    got: npt.NDArray[np.int64], exact: npt.NDArray[Any], kind: FxpType
) -> Exact:
    scaled = np.ldexp(exact.astype(np.longdouble), kind.frac)
    errors: Exact = got.astype(np.longdouble) - scaled
    return errors


def main(
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
    elements: Annotated[
        int, typer.Option(help="Elements that errors are measured on.", min=64)
    ] = 1 << 22,
    timed_elements: Annotated[
        int, typer.Option(help="Elements that time is measured on.", min=64)
    ] = 10**6,
    repeat: Annotated[
        int, typer.Option(help="Timed runs; the first is a warm-up.", min=1)
    ] = 4,
    only: Annotated[
        str, typer.Option(help="Protocols whose name has this in it; all if empty.")
    ] = "",
) -> None:
    """Every protocol: ours, the paper's variant and SPU's own operation.

    Bits are per result element over all parties, and exact. Errors are in units of the
    result's last place. Seconds are medians in three processes over TLS links. Takes
    about five minutes; --elements 100000 --timed-elements 100000 gives a first look.
    """
    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting the parties", total=None)
        results = bench_protocols(
            error_elements=elements,
            time_elements=timed_elements,
            repeat=repeat,
            only=only,
            progress=lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            ),
        )
    texts, numbers = (
        ["protocol", "variant", "parameters"],
        ["bits", "rounds", "mean error", "max error", "seconds"],
    )
    rows = [
        [
            r.protocol,
            r.variant,
            " → ".join(str(v) for v in r.parameters.values()),
            f"{r.bits_per_element:.1f}",
            str(r.rounds),
            f"{r.mean_error_ulp:+.4f}",
            f"{r.max_error_ulp:.3f}",
            f"{r.seconds:.4f}",
        ]
        for r in results
    ]
    show.show("Per element, all parties together", texts, numbers, rows, markdown_file)
    show.write(json_file, [r.as_json() for r in results])


if __name__ == "__main__":
    show.run(main)
