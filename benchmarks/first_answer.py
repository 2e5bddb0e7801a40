"""From nothing to a first private answer: what the README says, typed in a new folder.

\b
    python -m benchmarks.first_answer --json docs/results/first_answer.json

Copies the checkout, makes an environment that has pip alone, types the commands of the
README one after the other, and says how long each took. pip may have kept what it
downloads; with ``--download`` it fetches everything anew.
"""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks import show
from benchmarks.documents import ROOT, blocks, new_checkout, new_user
from ditto.errors import SetupError
from ditto.files import Json

OUT = Path("docs/results/first_answer.json")


def main(
    download: Annotated[
        bool, typer.Option(help="Use nothing that pip has kept.")
    ] = False,
    until: Annotated[
        str, typer.Option(help="The last command begins so.")
    ] = "ditto run",
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Seconds of every command of the README, up to the first answer."""
    commands = _commands(until)
    rows: list[Json] = []
    with TemporaryDirectory() as folder:
        checkout = new_checkout(Path(folder) / "ditto")
        environment = new_user(checkout)
        if download:
            environment["PIP_CACHE_DIR"] = str(checkout / "kept" / "pip")
        for command in commands:
            seconds = _typed(command, checkout, environment)
            rows.append({"command": command, "seconds": round(seconds, 1)})
            show.write(json_file, rows)
    whole = sum(row["seconds"] for row in rows)
    cells = [[f"{row['seconds']:.1f}", _short(row["command"])] for row in rows]
    show.show(
        "From nothing to a first answer",
        [],
        ["seconds", "command"],
        [*cells, [f"{whole:.1f}", "all of them"]],
        None,
    )


def _commands(until: str) -> list[str]:
    """What the README says to type, up to a command."""
    commands = [
        command
        for block in blocks(ROOT / "README.md")
        if block.language == "console"
        for command in block.commands
    ]
    for k, command in enumerate(commands):
        if command.startswith(until):
            return commands[: k + 1]
    raise SetupError(f"The README has no command that begins with {until!r}.")


def _typed(command: str, folder: Path, environment: Mapping[str, str]) -> float:
    """The seconds of a command, which must end well."""
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"$ {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - started


def _short(command: str) -> str:
    return command if len(command) <= 60 else command[:57] + "..."


if __name__ == "__main__":
    show.run(main, __doc__)
