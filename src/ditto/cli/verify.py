"""``ditto verify``: is a model safe to serve in a profile?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
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
    stages,
    table,
)

if TYPE_CHECKING:
    from ditto.evaluation import Part, Verification

_SAID = {
    "safe": "[green]safe[/]: answers are the float model's, with room to spare",
    "tight": "[yellow]tight[/]: answers are right, but values came close to the ends "
    "of their ranges; calibrate with texts like those, or raise --margin",
    "unsafe": "[red]unsafe[/]: answers part from the float model's; calibrate with "
    "texts like those that do, or raise --margin",
}
_MOST_SHOWN = 5
"""Texts that left their range, of those that did."""


def verify(
    model_dir: ModelFolder,
    calibration: CalibrationFile = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            help="Texts to verify on, one a line; without it, ordinary ones of all "
            "kinds, from a word to 256 tokens.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="How many of them the simulator runs on.", min=1)
    ] = 500,
    layers: Annotated[
        int,
        typer.Option(
            help="How many of them all three run on, layer by layer, cut to --length.",
            min=1,
        ),
    ] = 4,
    length: Annotated[int, typer.Option(help="Tokens of those.", min=4)] = 32,
    margin: Margin = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Annotated[
        str | None, typer.Option(help="What the model is for, if not as saved.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw errors and headroom into this PNG or SVG.")
    ] = None,
) -> None:
    """Find out whether a model is safe to serve.

    The simulator runs the plans on hundreds of texts that were not calibrated on, of
    all lengths, and says how often a value would leave its range: minutes for a small
    model. On a few of them float, simulator and three parties are compared after every
    layer. The table says how far they are from float, and how many doublings every part
    has left. Ends with code 3 if the model is unsafe.
    """
    from ditto.evaluation import OrdinaryText, Setting, read_lines, some_texts
    from ditto.evaluation import verify as verify_model

    if texts:
        many = [OrdinaryText("text", line) for line in read_lines(texts, limit)]
    else:
        many = some_texts(limit)
    known = calibration_texts(calibration)
    if plot:
        from ditto.evaluation.plot import check_matplotlib

        check_matplotlib()
    with stages() as shown:
        found = verify_model(
            model_dir,
            [text.text for text in many[:: -(-len(many) // layers)]],
            Setting(
                chosen_profile(profile, gelu, margin),
                known,
                head=head,
                on_stage=shown.stage,
                on_part=shown.part,
            ),
            length=length,
            many=many,
            progress=lambda k, n: shown.count("simulator: texts", k, n),
        )
    out = console()
    numbers = [
        "size (rms)",
        "simulator: mean",
        "largest",
        "parties: mean",
        "largest",
        "headroom, bits",
    ]
    title = f"Differences to float, profile {found.profile}, {found.texts} texts"
    rows = [_row(part) for part in found.parts]
    out.print(table(title, ["part"], numbers, rows))
    out.print(_tightest(found))
    for said in (*found.overflows, *found.outside)[:_MOST_SHOWN]:
        out.print(Text.assemble(("out of range", "red"), f": {said}"))
    out.print(
        f"{len(found.outside)} of {found.simulated} texts left a range in the "
        f"simulator; {found.agreed:.1%} of the parties' answers are the float model's"
    )
    out.print(_SAID[found.verdict])
    if plot:
        from ditto.evaluation.plot import plot as draw

        draw(found, plot)
        out.print(f"drawn into {plot}")
    if found.verdict == "unsafe":
        raise typer.Exit(DOUBTFUL)


def _row(part: "Part") -> list[str]:
    simulated = part.simulated
    return [
        part.name,
        f"{part.rms:.4g}",
        f"{simulated.mean:.2e}" if simulated else "overflow",
        f"{simulated.largest:.2e}" if simulated else "",
        f"{part.parties.mean:.2e}",
        f"{part.parties.largest:.2e}",
        f"{part.headroom.bits:.2f}" if part.headroom else "",
    ]


def _tightest(found: "Verification") -> str:
    tightest = found.tightest
    if tightest is None:
        return "headroom: nothing was measured"
    return f"tightest: {tightest}, {tightest.bits:.2f} bits left"
