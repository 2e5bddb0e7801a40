"""``ditto bench``: measurements, each with the command that makes it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(
    help="Measure protocols and engine side by side.", no_args_is_help=True
)

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the results here, as a list of objects."),
]
MarkdownFile = Annotated[
    Path | None,
    typer.Option("--markdown", help="Write the table here, as Markdown."),
]


@app.command()
def protocols(
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
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
    result's last place. Seconds are medians in three processes over TLS links. Takes
    about five minutes; --elements 100000 --timed-elements 100000 gives a first look.
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
    _show("Per element, all parties together", texts, numbers, rows, markdown_file)
    _write(json_file, [r.as_json() for r in results])


@app.command()
def matmul(
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
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

    with Console(stderr=True).status("three parties multiply"):
        results = bench_matmul((rows, inner), (inner, columns), repeat=repeat)
    native, spu = results
    lines = [[r["variant"], f"{r['bytes']:,}", f"{r['seconds']:.4f}"] for r in results]
    ratios = [f"{native[name] / spu[name]:.3f}" for name in ("bytes", "seconds")]
    lines.append(["native / spu", *ratios])
    _show(native["shape"], ["variant"], ["bytes", "seconds"], lines, markdown_file)
    _write(json_file, results)


def _show(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Sequence[Sequence[str]],
    markdown_file: Path | None,
) -> None:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in texts:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = 120  # a file or a pipe has no edge to wrap at
    console.print(table)
    if markdown_file:
        headings = [*texts, *numbers]
        rule = ["---"] * len(texts) + ["---:"] * len(numbers)
        lines = [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
        markdown_file.write_text("\n".join(lines) + "\n")


def _write(path: Path | None, results: list[dict[str, Any]]) -> None:
    if path:
        path.write_text(json.dumps(results, indent=2) + "\n")
