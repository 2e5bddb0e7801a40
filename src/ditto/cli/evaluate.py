"""``ditto eval``: a model on a task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report, Verbose
from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    Margin,
    ModelFolder,
    ProfileName,
    calibration_texts,
    chosen_profile,
    doubt_line,
    headroom_line,
    table,
)

if TYPE_CHECKING:
    from ditto.evaluation.evaluate import Evaluation
    from ditto.files import Json


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
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
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
    report = Report(json_file)
    with stages(quiet=quiet, verbose=verbose) as shown:
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
                on_stage=shown.stage,
                on_part=shown.part,
            ),
            limit=limit,
            progress=lambda k, n: shown.count(f"{task}, {mode}: example", k, n),
        )
    rows = [[name, _figure(value)] for name, value in found.scores.items()]
    how = mode if mode == "float" else f"{mode}, {found.profile}"
    title = f"{task}: {found.count} examples, {how}"
    report.print(table(title, ["figure"], ["value"], rows))
    report.print(headroom_line(found.headroom))
    if found.cut:
        cut = f"{len(found.cut)} of {found.count} inputs were too long: {found.cut[0]}"
        others = " and others" if len(found.cut) > 1 else ""
        report.print(f"{cut}{others}; they were cut", markup=False)
    for overflow in found.overflows:
        report.print(Text.assemble(("overflow", "red"), f": {overflow}"))
    for doubt in found.doubts:
        report.print(doubt_line(*doubt.split(": ", 1)))
    report.write(_as_json(found))
    if found.overflows or found.doubts:
        raise typer.Exit(ExitCode.DOUBTFUL)


def _figure(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _as_json(found: "Evaluation") -> "Json":
    return {
        "task": found.task,
        "mode": found.mode,
        "profile": found.profile,
        "count": found.count,
        "scores": found.scores,
        "headroom_bits": {k: round(h.bits, 3) for k, h in found.headroom.items()},
        "overflows": found.overflows,
        "doubts": found.doubts,
        "cut": found.cut,
    }
