"""``ditto eval``: a model on a task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ditto.cli.comparison import comparison_json, show_comparison
from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report, Verbose
from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    Head,
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
    from ditto.evaluation.comparison import Comparison
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
        str,
        typer.Option(help="Who computes: float, simulate, mpc, or several of them."),
    ] = "simulate",
    limit: Annotated[
        int | None, typer.Option(help="Only the first examples.", min=1)
    ] = None,
    mpc_examples: Annotated[
        int,
        typer.Option(
            help="How many examples the parties run, evenly spaced over the data.",
            min=1,
        ),
    ] = 20,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
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

    ``--mode float,simulate,mpc --profile ditto,paper`` gives a table with a row for
    each: the score with its 95 % interval, how many labels are the float model's and
    the simulator's, the headroom (how close any value came to the end of its range),
    seconds an example, and what the parties sent for one. The parties run
    ``--mpc-examples`` of the examples, the others all.

    Inputs that leave a range in the simulator are listed, and with three parties those
    whose answer is further from the float model's than it may be; the command then
    ends with code 3.
    """
    from ditto.errors import SetupError
    from ditto.evaluation import TASKS, Setting, compare_modes
    from ditto.evaluation import evaluate as score_model

    modes, names = (_listed(text) for text in (mode, profile))
    for each in modes:
        if each not in ("float", "simulate", "mpc"):
            raise SetupError(f"--mode is float, simulate or mpc, got {each!r}.")
    profiles = [chosen_profile(name, gelu, margin) for name in names]
    report = Report(json_file)
    with stages(quiet=quiet, verbose=verbose) as shown:
        setting = Setting(
            profiles[0],
            calibration_texts(calibration),
            length,
            tokens,
            words,
            batch,
            head,
            on_stage=shown.stage,
            on_part=shown.part,
        )
        if task in TASKS:
            compared = compare_modes(
                model_dir,
                task,
                data,
                modes,  # type: ignore[arg-type]
                profiles,
                setting,
                limit=limit,
                mpc_examples=mpc_examples,
                progress=lambda who, k, n: shown.count(f"{task}, {who}: example", k, n),
            )
            found: Evaluation | Comparison = compared
        else:
            if len(modes) * len(profiles) != 1:
                raise SetupError(f"Task {task} takes one --mode and one --profile.")
            found = score_model(
                model_dir,
                task,
                data,
                mode,  # type: ignore[arg-type]
                setting,
                limit=limit,
                progress=lambda k, n: shown.count(f"{task}, {mode}: example", k, n),
            )
    if task in TASKS:
        show_comparison(compared, report)
        document = comparison_json(compared, mode, profile)
    else:
        document = _show_likeness(found, report)  # type: ignore[arg-type]
    _show_warnings(found, report)
    report.write(document)
    if found.overflows or found.doubts:
        raise typer.Exit(ExitCode.DOUBTFUL)


def _listed(text: str) -> list[str]:
    """What is separated by commas, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",")))


def _show_likeness(found: "Evaluation", report: Report) -> "Json":
    rows = [[name, _figure(value)] for name, value in found.scores.items()]
    how = found.mode if found.mode == "float" else f"{found.mode}, {found.profile}"
    title = f"{found.task}: {found.count} examples, {how}"
    report.print(table(title, ["figure"], ["value"], rows))
    report.print(headroom_line(found.headroom))
    return _as_json(found)


def _show_warnings(found: "Evaluation | Comparison", report: Report) -> None:
    if found.cut:
        cut = f"{len(found.cut)} inputs were too long: {found.cut[0]}"
        others = " and others" if len(found.cut) > 1 else ""
        report.print(f"{cut}{others}; they were cut", markup=False)
    for overflow in found.overflows:
        report.print(Text.assemble(("overflow", "red"), f": {overflow}"))
    for doubt in found.doubts:
        report.print(doubt_line(*doubt.split(": ", 1)))


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
