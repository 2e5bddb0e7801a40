"""``ditto generate``: text that follows a prompt nobody sees."""

import warnings
from typing import Annotated

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


def generate(
    model_dir: ModelFolder,
    prompt: Annotated[str, typer.Option(help="What the text begins with.")],
    tokens: Annotated[int, typer.Option(help="How many to generate.", min=1)] = 20,
    temperature: Annotated[
        float, typer.Option(help="0 takes the likeliest token; above, one is drawn.")
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(help="Draw from the k likeliest tokens only; 0: from all.")
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(help="Draw from the likeliest that hold this probability."),
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Repeats a draw.")] = None,
    inside: Annotated[
        bool,
        typer.Option(
            "--inside",
            help="Let the parties choose the likeliest token: the client then learns "
            "the tokens only, not the logits.",
        ),
    ] = False,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
) -> None:
    """Continue a prompt that nobody sees, token by token.

    Keys and values of what came before stay with the three parties as shares, so each
    further token costs one position and not the whole text again. The tokens appear as
    they come; below stands what the float model would have said, and the cost. A token
    whose logits are further from the float model's than they may be is named, and the
    command ends with code 3.
    """
    from ditto.client import Sampling
    from ditto.errors import AnswerWarning
    from ditto.inference import from_pretrained
    from ditto.inference.backends import PartiesBackend

    sampling = Sampling(temperature, top_k, top_p, seed)
    warnings.simplefilter("ignore", AnswerWarning)  # told below
    out = console()
    model, stream = None, None
    try:
        with stages() as shown:
            model = from_pretrained(
                model_dir,
                profile=chosen_profile(profile, gelu, margin),
                calibration=calibration_texts(calibration),
                on_stage=shown.stage,
                on_part=shown.part,
            )
            stream = model.generate(prompt, tokens, sampling=sampling, inside=inside)
            first = next(stream)
        made = [first]
        typer.echo(prompt + first.texts[0], nl=False)
        for token in stream:
            made.append(token)
            typer.echo(token.texts[0], nl=False)
        typer.echo("\n")
        ids = [token.ids[0] for token in made]
        backend = model.backend
    finally:
        if stream is not None:
            stream.close()
        if model is not None:
            model.close()
    if temperature == 0 or seed is not None:
        plain = model.also("float")
        due = [t.ids[0] for t in plain.generate(prompt, tokens, sampling=sampling)]
        out.print(_compared(ids, due, plain.tokenizer.decode(due)), markup=False)
    doubts = {k: d for k, token in enumerate(made, 1) for d in token.doubts if d}
    for k, doubt in doubts.items():
        out.print(doubt_line(f"token {k}", doubt))
    if isinstance(backend, PartiesBackend):
        begun, *later = backend.runs
        rows = [
            [what, f"{r.bytes / 1e6:.2f}", f"{r.rounds:.0f}", f"{r.seconds:.2f}"]
            for what, r in (("first", begun), *(("second", r) for r in later[:1]))
        ]
        numbers = ["MB", "rounds", "seconds"]
        out.print(table("Cost of a token, all parties", ["token"], numbers, rows))
        out.print(cost_table(backend.runs, f"Cost of all {len(ids)} tokens, by part"))
    if doubts:
        raise typer.Exit(DOUBTFUL)


def _compared(ids: list[int], due: list[int], text: str) -> str:
    """How the tokens are to those of the float model."""
    pairs = enumerate(zip(ids, due, strict=False), 1)
    parting = next((k for k, (got, exact) in pairs if got != exact), None)
    if parting is None:
        return f"The float model says the same {len(ids)} tokens."
    return f"The float model parts from it at token {parting}: {text!r}"
