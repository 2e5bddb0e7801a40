"""Command lines as the real command reads them, without running them."""

from collections.abc import Sequence

import typer

from ditto.cli import app


def parse(arguments: Sequence[str]) -> str:
    """The name of the command that would run; raises if the line is not understood."""
    command = typer.main.get_command(app)
    names, rest = ["ditto"], list(arguments)
    context = typer.Context(command, info_name="ditto")
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
        names.append(str(name))
        context = typer.Context(command, info_name=name, parent=context)
    command.make_context(names[-1], list(rest), parent=context.parent)
    return " ".join(names)
