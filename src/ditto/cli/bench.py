"""``ditto bench``: measurements, each with the command that makes it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(
    help="Measure protocols and engine side by side.", no_args_is_help=True
)

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", help="Write the results to this file, as a list of objects."
    ),
]


@app.command()
def protocols(
    json_file: JsonFile = None,
    elements: Annotated[
        int, typer.Option(help="Elements that errors are measured on.", min=64)
    ] = 1 << 22,
    timed_elements: Annotated[
        int, typer.Option(help="Elements that time is measured on.", min=64)
    ] = 10**6,
    repeat: Annotated[
        int, typer.Option(help="Timed runs; the first is a warm-up.", min=1)
    ] = 4,
) -> None:
    """Every protocol: ours, the paper's variant and SPU's own operation.

    Bits are per result element over all parties, and exact. Errors are in units of the
    result's last place. Seconds are medians in three processes over TLS links.
    """
    from ditto.bench import bench_protocols

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting the parties", total=None)
        results = bench_protocols(
            error_elements=elements,
            time_elements=timed_elements,
            repeat=repeat,
            progress=lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            ),
        )
    table = Table(title="bits per element and rounds, all parties together")
    headings = ("protocol", "variant", "parameters", "bits", "rounds")
    for heading in (*headings, "mean error", "max error", "seconds"):
        right = heading in ("bits", "rounds", "mean error", "max error", "seconds")
        table.add_column(heading, justify="right" if right else "left")
    for r in results:
        given = " ".join(str(v) for v in r.parameters.values()).replace(" ", " → ")
        table.add_row(
            r.protocol,
            r.variant,
            given,
            f"{r.bits_per_element:.1f}",
            str(r.rounds),
            f"{r.mean_error_ulp:+.4f}",
            f"{r.max_error_ulp:.3f}",
            f"{r.seconds:.4f}",
        )
    Console().print(table)
    _write(json_file, [r.as_json() for r in results])


@app.command()
def matmul(
    json_file: JsonFile = None,
    rows: Annotated[int, typer.Option(help="Rows of the left matrix.", min=1)] = 128,
    inner: Annotated[int, typer.Option(help="The dimension summed over.", min=1)] = 768,
    columns: Annotated[
        int, typer.Option(help="Columns of the right matrix.", min=1)
    ] = 3072,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 9,
) -> None:
    """Our matmul with fused truncation beside SPU's FM32 fixed-point matmul.

    Three processes over TLS links run both in turn; the time of a run is that of its
    slowest party, and the median of the runs is shown.
    """
    from ditto.bench import bench_matmul

    console = Console()
    with console.status("three parties multiply"):
        results = bench_matmul((rows, inner), (inner, columns), repeat=repeat)
    native, spu = results
    table = Table(title=native["shape"])
    for heading in ("variant", "bytes", "seconds"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for result in results:
        seconds = f"{result['seconds']:.4f}"
        table.add_row(result["variant"], f"{result['bytes']:,}", seconds)
    table.add_section()
    table.add_row(
        "native / spu",
        f"{native['bytes'] / spu['bytes']:.3f}",
        f"{native['seconds'] / spu['seconds']:.3f}",
    )
    console.print(table)
    _write(json_file, results)


def _write(path: Path | None, results: list[dict[str, Any]]) -> None:
    if path:
        path.write_text(json.dumps(results, indent=2) + "\n")
