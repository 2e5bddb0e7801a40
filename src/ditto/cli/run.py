"""``ditto run``: a private answer about a text, beside the float answer."""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    cost_table,
    doubt_line,
    stages,
    table,
)

if TYPE_CHECKING:
    from ditto.inference import Answer


def run(
    model_dir: ModelFolder,
    text: Annotated[
        list[str], typer.Option("--text", help="What to ask; may be repeated.")
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Second texts, for tasks on pairs; one for each --text."),
    ] = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Annotated[
        str | None,
        typer.Option(help="What the model is for: classify, tag, fill, pooled, mean."),
    ] = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    length: Annotated[
        int | None,
        typer.Option(help="Pad to this many tokens instead of the next bucket.", min=2),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts asked together.", min=1)] = 1,
    hide_length: Annotated[
        bool,
        typer.Option("--hide-length", help="Keep secret how much of it is padding."),
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the answers here.")
    ] = None,
) -> None:
    """Ask a model about a text that nobody sees.

    Three parties, each a process of this machine over TLS links, compute on secret
    shares of the text and of the weights. Beside their answer stands the float model's,
    and below what it cost by part of the model. An answer further from the float
    model's than it may be is marked, and the command ends with code 3.
    """
    from ditto.errors import AnswerWarning
    from ditto.inference import from_pretrained
    from ditto.inference.backends import PartiesBackend

    with stages() as shown:
        model = from_pretrained(
            model_dir,
            profile=chosen_profile(profile, gelu, margin),
            head=head,
            calibration=calibration_texts(calibration),
            hides_length=hide_length,
            on_stage=shown.stage,
            on_part=shown.part,
        )
        with model, warnings.catch_warnings():
            warnings.simplefilter("ignore", AnswerWarning)  # told below
            answers = model.predict(text, pair, batch=batch, length=length)
            backend = model.backend
        due = model.also("float").predict(text, pair, length=length)
    if json_file:
        json_file.write_text(json.dumps([_as_json(a) for a in answers]) + "\n")
    out = console()
    rows = [
        [asked, _shown(got), _shown(exact), _difference(got)]
        for asked, got, exact in zip(text, answers, due, strict=True)
    ]
    texts = ["text", "private answer", "float answer"]
    out.print(table("Answers", texts, ["difference"], rows))
    doubtful = [(k, a.doubt) for k, a in enumerate(answers, 1) if a.doubt]
    for k, doubt in doubtful:
        out.print(doubt_line(f"the answer to text {k}", doubt))
    if isinstance(backend, PartiesBackend):
        out.print(cost_table(backend.runs, f"Cost, all parties, profile {profile}"))
        sent = sum(backend.uploaded) / 1e3
        out.print(f"the client sent {sent:.1f} kB of keys and shares to the parties")
    if doubtful:
        raise typer.Exit(DOUBTFUL)


def _shown(answer: "Answer") -> str:
    values = answer.values
    if answer.label is not None:
        return f"{answer.label}  {_numbers(values)}"
    if values.ndim == 2:
        return " ".join(str(int(k)) for k in values.argmax(-1))
    return _numbers(values)


def _numbers(values: Any) -> str:
    shown = ", ".join(f"{v:+.3f}" for v in values[:4])
    return f"[{shown}{', …' if len(values) > 4 else ''}]"


def _difference(answer: "Answer") -> str:
    shown = "" if answer.difference is None else f"{answer.difference:.1%}"
    return f"{shown} (!)" if answer.doubt else shown


def _as_json(answer: "Answer") -> dict[str, Any]:
    return {
        "label": answer.label,
        "values": answer.values.tolist(),
        "difference": answer.difference,
        "doubt": answer.doubt,
    }
