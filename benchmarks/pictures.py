"""A picture of what a command prints on a terminal of 80 columns.

    python -m benchmarks.pictures docs/pictures/demo.svg "ditto demo"

Runs the command on a pseudo-terminal and draws what stays there when it has ended;
progress, which goes to standard error, is left out.
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from benchmarks import show
from ditto.errors import SetupError

COLUMNS = 80
_ROWS = 50
_LEFT_OUT = re.compile(
    r"@font-face \{.*?\}"  # from a server of others
    r'|<clipPath .*?</clipPath>| clip-path="[^"]*"',  # cuts off what hangs below a line
    re.DOTALL,
)


def main(
    picture: Annotated[Path, typer.Argument(help="The SVG file to write.")],
    command: Annotated[str, typer.Argument(help="What is typed, in quotes.")],
) -> None:
    """Run a command on a terminal of 80 columns and draw what it prints."""
    printed = on_a_terminal(shlex.split(command))
    picture.write_text(drawn(command, printed, picture.stem), "utf-8")


def on_a_terminal(command: list[str]) -> str:
    """What a command prints on a terminal, with its colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", _ROWS, COLUMNS, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    process = subprocess.Popen(  # noqa: S603  (what the caller typed)
        command,
        stdout=its,
        stderr=subprocess.DEVNULL,
        env=environment | {"TERM": "xterm-256color"},
    )
    os.close(its)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        parts = []
        try:
            while part := terminal.read(65_536):
                parts.append(part)
        except OSError:  # so a terminal says that nobody writes any more
            pass
    if process.wait():
        raise SetupError(f"{command[0]} ended with code {process.returncode}.")
    return b"".join(parts).decode().replace("\r\n", "\n")


def drawn(command: str, printed: str, name: str) -> str:
    """A terminal as SVG, with the fonts of whoever looks at it."""
    screen = Console(record=True, width=COLUMNS, file=StringIO())
    screen.print(Text(f"$ {command}", "bold"))
    screen.print(Text.from_ansi(printed.rstrip()))
    return _LEFT_OUT.sub("", screen.export_svg(title="", unique_id=name))


if __name__ == "__main__":
    show.run(main)
