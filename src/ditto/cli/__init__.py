"""The ``ditto`` command. One file a command; heavy imports inside the functions."""

from typing import Annotated

import typer

from ditto import __version__
from ditto.cli import (
    bench,
    cache,
    convert,
    demo,
    distill,
    doctor,
    evaluate,
    export,
    finetune,
    gateway,
    generate,
    owner,
    party,
    pki,
    plan,
    run,
    serve,
    status,
    verify,
)
from ditto.cli.exit_codes import EPILOG, ExitCode, exit_code_of
from ditto.cli.help import with_named_values
from ditto.cli.settings_flags import BY_ITSELF

app = typer.Typer(
    name="ditto",
    help=(
        "Private Transformer inference: three parties compute on secret shares, "
        "only the client learns the answer."
    ),
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
)
app.command("demo")(with_named_values(demo.demo))
app.command("run")(with_named_values(run.run))
app.command("generate")(with_named_values(generate.generate))
app.command("serve")(with_named_values(serve.serve))
app.command("gateway")(with_named_values(gateway.gateway))
app.command("export")(with_named_values(export.export))
app.command("convert")(with_named_values(convert.convert))
app.command("eval")(with_named_values(evaluate.evaluate))
app.command("finetune", context_settings=BY_ITSELF)(finetune.finetune)
app.command("distill", context_settings=BY_ITSELF)(distill.distill)
app.command("verify")(with_named_values(verify.verify))
app.command("doctor")(with_named_values(doctor.doctor))
app.command("status")(with_named_values(status.status))
app.command("compile")(with_named_values(plan.compile_))
app.command("explain")(with_named_values(plan.explain))
app.command("estimate")(with_named_values(plan.estimate))
app.add_typer(bench.bench, name="bench")
app.add_typer(party.party, name="party")
app.add_typer(owner.owner, name="owner")
app.add_typer(pki.pki, name="pki")
app.add_typer(cache.cache, name="cache")


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
    """Run the command."""
    run_app(app)


def run_app(commands: typer.Typer) -> None:
    """Run what was called; our own errors end in a sentence, not in a trace.

    Who ends it by a signal finds no process and no network left behind.
    """
    import sys

    from rich.console import Console
    from rich.markup import escape

    from ditto.cli.signals import end_by_signals
    from ditto.errors import DittoError
    from ditto.extras import explained

    def say(code: str, text: str) -> None:
        # no line is broken here, so that a command in it can be copied
        said = f"[red]error[/] ({code}): {escape(text)}"
        Console(stderr=True).print(said, soft_wrap=True)

    end_by_signals()
    try:
        commands()
    except DittoError as error:
        say(error.code, str(error))
        sys.exit(exit_code_of(error))
    except ModuleNotFoundError as error:
        reason = explained(error)
        if not isinstance(reason, DittoError):
            raise
        say(reason.code, str(reason))
        sys.exit(exit_code_of(reason))
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stdout = None
        sys.exit(ExitCode.FAILED)
    except OSError as error:  # of a file system or a network, not of ours
        say("setup", f"{error}. Is there a folder to write to, and room in it?")
        sys.exit(ExitCode.SETUP)
