"""``ditto cache``: what is kept on this machine so that it need not be made again."""

import time

import typer

from ditto.cli.report import JsonFile, Report
from ditto.cli.show import table
from ditto.files import cache_folder

cache = typer.Typer(
    help=(
        "Plans that were made on this machine, and what XLA compiled for them. They "
        "are kept in `$DITTO_CACHE`, `$XDG_CACHE_HOME/ditto` or `~/.cache/ditto`, in "
        "files that only you can read."
    ),
    no_args_is_help=True,
)


@cache.command()
def path() -> None:
    """Print the folder."""
    typer.echo(str(cache_folder()))


@cache.command("ls")
def list_entries(json_file: JsonFile = None) -> None:
    """List the plans, the last used first."""
    from ditto.owner.plan_cache import PlanCache

    report = Report(json_file)
    kept = PlanCache(cache_folder())
    entries = kept.entries()
    report.write([{**vars(e), "label": vars(e.label)} for e in entries])
    now = time.time()
    rows = [
        [
            _cut(entry.label.model, 24),
            _cut(entry.label.profile, 8),
            _cut(entry.label.computation, 26),
            _size(entry.bytes),
            _age(now - entry.used),
        ]
        for entry in entries
    ]
    files, compiled = kept.compiled()
    if files:
        rows.append(
            ["(all)", "", f"compiled by XLA, {files} files", _size(compiled), ""]
        )
    total = _size(sum(entry.bytes for entry in entries) + compiled)
    texts = ["model", "profile", "plan"]
    report.print(table(f"Cache, {total}", texts, ["size", "used"], rows))


@cache.command()
def clear() -> None:
    """Remove everything; it is made again when it is needed."""
    from ditto.owner.plan_cache import PlanCache

    removed = PlanCache(cache_folder()).clear()
    typer.echo(f"removed {_size(removed)} from {cache_folder()}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _size(count: int) -> str:
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"
