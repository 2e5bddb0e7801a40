"""Our fused matmul beside SPU's fixed-point matmul, in three processes, in one run."""

import statistics
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import programs, show
from benchmarks.bare import BareTrio

Shape = tuple[int, int]


def bench_matmul(left: Shape, right: Shape, *, repeat: int) -> list[dict[str, Any]]:
    """Bytes (all parties together) and median seconds of both."""
    shapes = [list(left), list(right)]
    with BareTrio() as processes:
        replies = processes.call(
            programs.time_matmul, {"shapes": shapes, "repeat": repeat}
        )
    slowest = {
        variant: statistics.median(
            max(times) for times in zip(*(r[variant] for r, _ in replies), strict=True)
        )
        for variant in ("native", "spu")
    }
    sent = {
        variant: sum(reply[f"{variant}_bytes"] for reply, _ in replies)
        for variant in ("native", "spu")
    }
    return [
        {
            "variant": variant,
            "shape": f"{left[0]}x{left[1]} by {right[0]}x{right[1]}",
            "bytes": sent[variant],
            "seconds": slowest[variant],
            "repeat": repeat,
        }
        for variant in ("native", "spu")
    ]


def main(
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
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
    with Console(stderr=True).status("three parties multiply"):
        results = bench_matmul((rows, inner), (inner, columns), repeat=repeat)
    native, spu = results
    lines = [[r["variant"], f"{r['bytes']:,}", f"{r['seconds']:.4f}"] for r in results]
    ratios = [f"{native[name] / spu[name]:.3f}" for name in ("bytes", "seconds")]
    lines.append(["native / spu", *ratios])
    show.show(native["shape"], ["variant"], ["bytes", "seconds"], lines, markdown_file)
    show.write(json_file, results)


if __name__ == "__main__":
    show.run(main)
