"""Right answers on ordinary texts, by three processes over TLS.

    python -m benchmarks.ordinary_texts texts MODEL_DIR     every ordinary text
    python -m benchmarks.ordinary_texts more MODEL_DIR      2,000 of GLUE and WikiText
    python -m benchmarks.ordinary_texts prompts MODEL_DIR   greedy continuations

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
    agreement,
    continue_text,
    glue_and_wikitext,
    in_order,
    measure,
)
from ditto import __version__, from_pretrained
from ditto.cli.show import console, table
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
    _print(rows, "Ordinary texts")
    _write(json_file, model_dir, {"rows": [row.as_json() for row in rows]})
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
    _print(rows, "GLUE and WikiText")
    _write(json_file, model_dir, {"rows": [row.as_json() for row in rows]})
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
    _print_continued(rows, tokens)
    _write(json_file, model_dir, {"rows": [row.as_json() for row in rows]})
    if any(not row.same and not row.doubts and row.report for row in rows):
        raise typer.Exit(3)


def _shown(items: Sequence[Any]) -> Iterable[Any]:
    """The items, with a bar, or a line now and then where there is no terminal."""
    screen = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        for k, item in enumerate(bar.track(items, description="texts")):
            if not screen.is_terminal and k % 25 == 0:
                screen.print(f"{k} of {len(items)}")
            yield item


def _print(rows: Sequence[Measured], title: str) -> None:
    out = console()
    kinds = list(dict.fromkeys((row.kind, 0) for row in rows))
    if len({row.length for row in rows}) < len(kinds):
        kinds = list(dict.fromkeys((row.kind, row.length) for row in rows))
    lines = []
    for kind, length in sorted(kinds):
        group = [r for r in rows if r.kind == kind and length in (0, r.length)]
        lines.append([kind, length or "any", *_figures(group)])
    lines.append(["all", "any", *_figures(rows)])
    numbers = [
        "texts", "reported", "least cosine: simulator", "asked", "parties", "wrong",
    ]  # fmt: skip
    out.print(table(title, ["kind", "tokens"], numbers, lines))
    pairs = [[what, count] for what, count in agreement(rows).items()]
    out.print(table("Report and truth", ["of the texts that the parties were asked"],
                    ["texts"], pairs))  # fmt: skip
    for row in rows:
        if row.report or row.wrong:
            out.print(
                f"{row.kind} {row.text[:50]!r}: {row.report or 'not reported'}, cosine "
                f"{row.cosine}", markup=False,
            )  # fmt: skip


def _figures(rows: Sequence[Measured]) -> list[str]:
    asked = [row.cosine for row in rows if row.cosine is not None]
    simulated = [row.simulated for row in rows if row.simulated is not None]
    return [
        str(len(rows)),
        str(sum(row.report is not None for row in rows)),
        f"{min(simulated):.5f}" if simulated else "",
        str(len(asked)),
        f"{min(asked):.5f}" if asked else "",
        str(sum(row.wrong for row in rows)),
    ]


def _print_continued(rows: Sequence[Continued], tokens: int) -> None:
    out = console()
    same, reported = sum(r.same for r in rows), sum(bool(r.report) for r in rows)
    lines = [
        ["prompts", len(rows)],
        [f"all {tokens} tokens as float", same],
        ["left a range in the simulator", reported],
        ["marked by the answer itself", sum(r.doubts > 0 for r in rows)],
    ]
    out.print(table("Greedy continuations", ["what"], ["prompts"], lines))
    for row in rows:
        if not row.same or row.report:
            out.print(
                f"{row.kind} {row.text[:50]!r}: parts at token {row.parted}, "
                f"{row.report or 'in range'}, {row.doubts} tokens marked", markup=False,
            )  # fmt: skip


def _write(path: Path | None, model_dir: Path, found: dict[str, Any]) -> None:
    if path is None:
        return
    head = {
        "command": " ".join(["python -m benchmarks.ordinary_texts", *sys.argv[1:]]),
        "ditto": __version__,
        "model": model_dir.name if model_dir.name != "model" else model_dir.parent.name,
    }
    path.write_text(json.dumps(head | found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    app()
