"""Right answers on ordinary texts, by three processes over TLS.

    python -m benchmarks.ordinary_texts texts MODEL_DIR     every ordinary text
    python -m benchmarks.ordinary_texts more MODEL_DIR      2,000 of GLUE and WikiText
    python -m benchmarks.ordinary_texts prompts MODEL_DIR   greedy continuations
    python -m benchmarks.ordinary_texts report FILE ...     their results as Markdown

The texts are ``ditto.evaluation.ordinary_texts()``: no plan is calibrated on them.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from benchmarks.ordinary_texts.measure import (
    Continued,
    Measured,
    Three,
    continue_text,
    glue_and_wikitext,
    in_order,
    measure,
    own_kinds,
)
from benchmarks.ordinary_texts.tables import (
    Table,
    continuations,
    likeness,
    truth,
    write_rows,
)
from ditto import __version__, from_pretrained
from ditto.cli.report import console
from ditto.evaluation import ordinary_texts, some_texts

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)

ModelFolder = Annotated[Path, typer.Argument(help="A Hugging Face folder.")]
Limit = Annotated[int | None, typer.Option(help="Only so many texts.", min=1)]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write all rows here.")]


@app.command()
def texts(
    model_dir: ModelFolder,
    limit: Limit = None,
    longest: Annotated[int, typer.Option(help="Only texts of so many tokens.")] = 256,
    json_file: JsonFile = None,
) -> None:
    """Every ordinary text by the parties, in the simulator and in float."""
    chosen = ordinary_texts() if limit is None else some_texts(limit)
    with from_pretrained(model_dir) as model:
        ordered = [
            t for t in in_order(model, chosen)
            if len(model.tokenizer.encode(t.text, t.pair).ids) <= longest
        ]  # fmt: skip
        models = Three.of(model)
        rows = [measure(models, text) for text in _shown(ordered)]
    _print([likeness(rows, "Ordinary texts", by_length=False), truth(rows)])
    _name(rows)
    _write(json_file, model_dir, rows)
    if any(row.wrong or row.report for row in rows):
        raise typer.Exit(3)


@app.command()
def more(
    model_dir: ModelFolder,
    data: Annotated[Path, typer.Option(help="Folder with GLUE's tasks and wikitext.")],
    count: Annotated[int, typer.Option(help="Texts in all.", min=3)] = 2000,
    lengths: Annotated[
        str, typer.Option(help="Tokens, one after another.")
    ] = "32,128,256",
    every: Annotated[
        int, typer.Option(help="The parties are asked every so manieth text besides.")
    ] = 40,
    json_file: JsonFile = None,
) -> None:
    """Texts of GLUE and WikiText in the simulator; what it reports, by the parties."""
    sizes = [int(n) for n in lengths.split(",")]
    chosen = glue_and_wikitext(data, count)
    rows: list[Measured] = []
    with from_pretrained(model_dir) as model:
        for k, size in enumerate(sizes):
            models = Three.of(model)
            for i, text in enumerate(_shown(chosen[k :: len(sizes)])):
                asked = i % every == 0
                rows.append(measure(models, text, size, asked=asked))
    _print([likeness(rows, "GLUE and WikiText", by_length=True), truth(rows)])
    _name(rows)
    _write(json_file, model_dir, rows)
    if any(row.wrong and not row.report for row in rows):
        raise typer.Exit(3)


@app.command()
def prompts(
    model_dir: ModelFolder,
    count: Annotated[int, typer.Option(help="Prompts.", min=1)] = 40,
    tokens: Annotated[int, typer.Option(help="Tokens of a continuation.")] = 20,
    longest: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 40,
    json_file: JsonFile = None,
) -> None:
    """Greedy continuations of ordinary texts, by the parties and in float."""
    chosen = [text for text in some_texts(3 * count) if text.pair is None][:count]
    with from_pretrained(model_dir) as model:
        models = Three.of(model)
        rows = [continue_text(models, text, tokens, longest) for text in _shown(chosen)]
    _print([continuations(rows)])
    for row in rows:
        if not row.same or row.report:
            console().print(
                f"{row.kind} {row.text[:50]!r}: parts at token {row.parted}, "
                f"{row.report or 'in range'}, {row.doubts} tokens marked", markup=False,
            )  # fmt: skip
    _write(json_file, model_dir, rows)
    if any(row.report and not row.doubts for row in rows):
        raise typer.Exit(3)


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="What --json wrote.")],
    out: Annotated[Path, typer.Option(help="The Markdown file to write.")],
) -> None:
    """The tables of results files, as Markdown."""
    parts = []
    for file in files:
        results = json.loads(file.read_text("utf-8"))
        rows = results["rows"]
        if "parted" in rows[0]:
            tables = [continuations([Continued(**row) for row in rows])]
        else:
            measured = [Measured(**row) for row in rows]
            others = any(row.kind not in own_kinds() for row in measured)
            title = "Cosine to the float embedding"
            tables = [likeness(measured, title, by_length=others), truth(measured)]
        parts += [f"`{results['command']}` ({file.name}, {results['model']})\n"]
        parts += [part.markdown() for part in tables]
    out.write_text("\n".join(parts), "utf-8")


def _shown(items: Sequence[Any]) -> Iterable[Any]:
    """The items, with a bar, or a line now and then where there is no terminal."""
    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        for k, item in enumerate(bar.track(items, description="texts")):
            if not screen.is_terminal and k % 25 == 0:
                screen.print(f"{k} of {len(items)}")
            yield item


def _print(tables: Sequence[Table]) -> None:
    for part in tables:
        console().print(part.shown())


def _name(rows: Sequence[Measured]) -> None:
    """Those that were reported or wrong."""
    for row in rows:
        if row.report or row.wrong:
            console().print(
                f"{row.kind} {row.text[:50]!r}: {row.report or 'not reported'}, cosine "
                f"{row.cosine}", markup=False,
            )  # fmt: skip


def _write(path: Path | None, model_dir: Path, rows: Sequence[Any]) -> None:
    if path is None:
        return
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    head = {
        "command": " ".join(["python -m benchmarks.ordinary_texts", *words]),
        "ditto": __version__,
        "model": model_dir.name if model_dir.name != "model" else model_dir.parent.name,
    }
    write_rows(path, head, rows)


if __name__ == "__main__":
    app()
