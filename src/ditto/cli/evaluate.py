"""``ditto eval``: a model on a task."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.text import Text

from ditto.cli.show import (
    DOUBTFUL,
    CalibrationFile,
    Gelu,
    Margin,
    ModelFolder,
    ProfileName,
    calibration_texts,
    chosen_profile,
    console,
    doubt_line,
    headroom_line,
    table,
)


def evaluate(
    model_dir: ModelFolder,
    task: Annotated[
        str,
        typer.Option(
            help="cola, sst2, mrpc, rte or qnli; cosine: embeddings against the float "
            "model's; greedy: texts against the float model's."
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            help="A folder with dev.tsv or a TSV file, in GLUE's form; for cosine and "
            "greedy also a text file with one sentence or prompt a line."
        ),
    ],
    mode: Annotated[
        str, typer.Option(help="Who computes: float, simulate or mpc.")
    ] = "simulate",
    limit: Annotated[
        int | None, typer.Option(help="Only the first examples.", min=1)
    ] = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Annotated[
        str | None, typer.Option(help="What the model is for, if not as saved.")
    ] = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    length: Annotated[
        int | None,
        typer.Option(help="Pad all texts to this many tokens: one plan.", min=2),
    ] = None,
    tokens: Annotated[
        int, typer.Option(help="Tokens of a continuation, for greedy.", min=1)
    ] = 20,
    words: Annotated[
        int | None,
        typer.Option(
            help="Take the first words of longer lines only, for cosine and greedy.",
            min=1,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(help="Texts asked together, for cosine and greedy.", min=1)
    ] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here.")
    ] = None,
) -> None:
    """Score a model on real data, in float, in the simulator or by three parties.

    Beside the task's score stands how often the answer is the float model's, and the
    headroom: how close any value came to the end of its range. Inputs that leave a
    range in the simulator are listed, and with three parties those whose answer is
    further from the float model's than it may be; the command then ends with code 3.
    """
    from ditto.errors import SetupError
    from ditto.evaluation import Setting
    from ditto.evaluation import evaluate as score_model

    if mode not in ("float", "simulate", "mpc"):
        raise SetupError(f"--mode is float, simulate or mpc, got {mode!r}.")
    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(f"{task}, {mode}", total=limit)
        found = score_model(
            model_dir,
            task,
            data,
            mode,  # type: ignore[arg-type]
            Setting(
                chosen_profile(profile, gelu, margin),
                calibration_texts(calibration),
                length,
                tokens,
                words,
                batch,
                head,
                on_stage=lambda what: bar.update(shown, description=what),
                on_part=lambda part, *_: bar.update(shown, description=part),
            ),
            limit=limit,
            progress=lambda k, n: bar.update(shown, completed=k, total=n),
        )
    out = console()
    rows = [[name, _figure(value)] for name, value in found.scores.items()]
    title = f"{task}: {found.count} examples, {mode}, {found.profile}"
    out.print(table(title, ["figure"], ["value"], rows))
    out.print(headroom_line(found.headroom))
    for overflow in found.overflows:
        out.print(Text.assemble(("overflow", "red"), f": {overflow}"))
    for doubt in found.doubts:
        out.print(doubt_line(*doubt.split(": ", 1)))
    if json_file:
        json_file.write_text(json.dumps(_as_json(found), indent=2) + "\n")
    if found.overflows or found.doubts:
        raise typer.Exit(DOUBTFUL)


def _figure(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _as_json(found: Any) -> dict[str, Any]:
    return {
        "task": found.task,
        "mode": found.mode,
        "profile": found.profile,
        "count": found.count,
        "scores": found.scores,
        "headroom_bits": {k: round(h.bits, 3) for k, h in found.headroom.items()},
        "overflows": found.overflows,
        "doubts": found.doubts,
    }
