"""What the benchmarks' commands share: how they start, tables, files, options."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ditto.cli import run_app
from ditto.cli.report import console
from ditto.cli.show import table

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the results here, as a list of objects."),
]
MarkdownFile = Annotated[
    Path | None,
    typer.Option("--markdown", help="Write the table here, as Markdown."),
]
Profiles = Annotated[str, typer.Option(help="Which to run, separated by commas.")]
NetworkName = Annotated[
    str,
    typer.Option(
        help="loopback, lan (0.4 ms, 5 Gbit/s), wan (40 ms, 400 Mbit/s), or a round "
        "trip and a bandwidth such as 10ms,1gbit. Shaping needs root."
    ),
]


def run(command: Callable[..., None], text: str | None = None) -> None:
    """Run a function as a command; its docstring, or ``text``, is the help."""
    app = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.command(help=text)(command)
    run_app(app)


def command_line(module: str) -> str:
    """The command as it was called."""
    return " ".join(["python -m", module, *sys.argv[1:]])


def names(text: str) -> list[str]:
    """The parts of an option that takes several."""
    return [name.strip() for name in text.split(",") if name.strip()]


def show(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Sequence[Sequence[str]],
    markdown_file: Path | None,
) -> None:
    """Print a table, and write it as Markdown if a file is named."""
    console().print(table(title, texts, numbers, rows))
    if markdown_file:
        headings = [*texts, *numbers]
        rule = ["---"] * len(texts) + ["---:"] * len(numbers)
        lines = [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
        markdown_file.write_text("\n".join(lines) + "\n")


def write(
    path: Path | None, results: Sequence[Mapping[str, Any]] | Mapping[str, Any]
) -> None:
    """Write results as JSON if a file is named."""
    if path:
        path.write_text(json.dumps(results, indent=2) + "\n")
