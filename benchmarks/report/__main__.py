"""Results as the paper's tables and figure, with the paper's values beside ours.

\b
    python -m benchmarks.report lan.json wan.json --out report

Writes report.md and its pictures. Tables: every run, varying length and batch,
networks side by side, ablation, cost by ring and by function, where the time goes; a
table is left out if no row is for it. Pictures: bytes against seconds, lines by length
and by batch, and an icicle of the seconds of one run. Ratios are against profile puma,
and only within one file and one network: run what you want compared into the same file.
A dagger marks what was measured on fewer layers than the model has and scaled. Needs
matplotlib, which the extra named bench brings.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import write_report
from benchmarks.show import run


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS.json",
            help="What python -m benchmarks.inference --json wrote, or ditto bench.",
        ),
    ],
    folder: Annotated[
        Path,
        typer.Option(
            "--out", help="Where report.md and its pictures go; made if it is missing."
        ),
    ] = Path("report"),
) -> None:
    """See above."""
    for path in write_report(files, folder).paths:
        typer.echo(path)


if __name__ == "__main__":
    run(report, __doc__)
