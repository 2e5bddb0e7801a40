"""Where a command's results go: tables for people, one JSON document for scripts."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from ditto.errors import SetupError
from ditto.files import JsonValue

STANDARD_OUTPUT = "-"

JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON, too; `-`: to standard output, and no tables.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress; only results and errors.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="A line for every stage, with seconds.")
]


class Report:
    """The results of a command. Made before any work, so that a path that cannot be
    written to ends the command at once."""

    def __init__(self, json_file: str | None = None) -> None:
        self._json_file = json_file
        self._console = console()
        if json_file is not None and json_file != STANDARD_OUTPUT:
            check_writable(Path(json_file))

    @property
    def is_for_scripts(self) -> bool:
        """Whether standard output is for the JSON document alone."""
        return self._json_file == STANDARD_OUTPUT

    def print(self, *shown: RenderableType, markup: bool = True) -> None:
        """Show something to people."""
        if not self.is_for_scripts:
            self._console.print(*shown, markup=markup)

    def stream(self, text: str) -> None:
        """Show a piece of a text as it comes."""
        if not self.is_for_scripts:
            typer.echo(text, nl=False)

    def write(self, document: JsonValue) -> None:
        """Write the document, if there is one."""
        if self._json_file is None:
            return
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        if self.is_for_scripts:
            sys.stdout.write(text)
        else:
            Path(self._json_file).write_text(text, "utf-8")


def console() -> Console:
    """Where tables go; a file or a pipe has no edge to wrap at."""
    found = Console()
    if not found.is_terminal:
        found.width = 120
    return found


def check_writable(path: Path) -> None:
    """Raise if a file cannot be written here, before any work is done for it."""
    if path.is_dir():
        raise SetupError(f"{path} is a folder; name a file.")
    if not path.parent.is_dir():
        raise SetupError(f"{path} cannot be written: there is no folder {path.parent}.")
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK):
        raise SetupError(f"{path} cannot be written: permission denied.")
