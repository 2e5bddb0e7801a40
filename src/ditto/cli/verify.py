"""``ditto verify``: is a model safe to serve in a profile?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    ModelFolder,
    ProfileName,
    chosen_profile,
    console,
    stages,
    table,
)

if TYPE_CHECKING:
    from ditto.evaluation import Part, Verification

_SAID = {
    "safe": "[green]safe[/]: answers are the float model's, with room to spare",
    "tight": "[yellow]tight[/]: answers are right, but inputs not much larger would "
    "overflow; calibrate with more texts, or raise the margin",
    "unsafe": "[red]unsafe[/]: answers part from the float model's",
}


def verify(
    model_dir: ModelFolder,
    calibration: CalibrationFile = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            help="Texts to verify on; without it, the last eighth of the calibration.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Texts to verify on.", min=1)] = 4,
    length: Annotated[int, typer.Option(help="Tokens of a text.", min=4)] = 32,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Annotated[
        str | None, typer.Option(help="What the model is for, if not as saved.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw errors and headroom into this PNG or SVG.")
    ] = None,
) -> None:
    """Find out whether a model is safe to serve: float, simulator, three parties.

    All three run on the same texts, which were not calibrated on, and are compared
    after every layer. The table says how far the simulator and the parties are from
    float, and how many doublings every part has left before it overflows. Ends with
    code 1 if the model is unsafe.
    """
    from ditto.evaluation import Setting, read_lines
    from ditto.evaluation import verify as verify_model
    from ditto.inference.sample_text import SAMPLE_TEXT

    known = read_lines(calibration, 128) if calibration else list(SAMPLE_TEXT)
    if texts:
        asked = read_lines(texts, limit)
    else:
        apart = max(1, len(known) // 8)
        known, asked = known[:-apart] or known, known[-apart:][:limit]
    with stages() as shown:
        found = verify_model(
            model_dir,
            asked,
            Setting(
                chosen_profile(profile, gelu),
                known,
                head=head,
                on_stage=shown.stage,
                on_part=shown.part,
            ),
            length=length,
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
    for overflow in found.overflows:
        out.print(f"[red]overflow[/]: {overflow}", highlight=False)
    out.print(f"{found.agreed:.1%} of the answers are the float model's")
    out.print(_SAID[found.verdict])
    if plot:
        from ditto.evaluation.plot import plot as draw

        draw(found, plot)
        out.print(f"drawn into {plot}")
    if found.verdict == "unsafe":
        raise typer.Exit(1)


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
    return (
        f"tightest: {tightest.tensor} in {tightest.scope}, {tightest.largest:.4g} of "
        f"{tightest.type.max_value:.4g}, {tightest.bits:.2f} bits left"
    )
