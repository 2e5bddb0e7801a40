"""The ``ditto`` command. One file a command; heavy imports inside the functions."""

from typing import Annotated

import typer

from ditto import __version__
from ditto.cli import bench, doctor, evaluate, generate, plan, run, verify

app = typer.Typer(
    name="ditto",
    help=(
        "Private Transformer inference: three parties compute on secret shares, "
        "only the client learns the answer."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
)
app.command("run")(run.run)
app.command("generate")(generate.generate)
app.command("eval")(evaluate.evaluate)
app.command("verify")(verify.verify)
app.command("doctor")(doctor.doctor)
app.command("explain")(plan.explain)
app.command("estimate")(plan.estimate)
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ditto {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; our own errors end in a sentence, not in a trace.

    Who ends it by a signal finds no process and no network left behind.
    """
    import signal
    import sys

    from rich.console import Console
    from rich.markup import escape

    from ditto.errors import DittoError

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        app()
    except DittoError as error:
        said = escape(str(error))
        Console(stderr=True).print(f"[red]error[/] ({error.code}): {said}")
        sys.exit(1)
