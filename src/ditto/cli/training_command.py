"""What the commands that train have in common."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ditto.cli.report import Report
from ditto.files import Json

INTERRUPTED = 130

ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG.yaml",
        help="A YAML file with the same names as keys. Flags win over it.",
        show_default=False,
    ),
]


def finish(report: Report, result: Json, *, was_interrupted: bool) -> None:
    """Write what scripts want to know; say how to go on with what was interrupted."""
    if was_interrupted:
        # no line is broken, so that the command can be copied
        report.stream(f"interrupted; go on with:\n{resuming()}\n")
    report.write(result)
    if was_interrupted:
        raise typer.Exit(INTERRUPTED)


def resuming() -> str:
    """The same command, going on."""
    flag = "--resume_from_checkpoint"
    words = sys.argv[1:]
    names = [word.partition("=")[0].replace("_", "-") for word in words]
    if flag.replace("_", "-") in names:
        place = names.index(flag.replace("_", "-"))
        del words[place : place + (1 if "=" in words[place] else 2)]
    return shlex.join(["ditto", *words, flag, "true"])
