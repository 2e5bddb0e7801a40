"""``ditto verify``: is a model safe to serve in a profile?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report, Verbose, check_writable
from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    Head,
    Margin,
    ModelFolder,
    ProfileName,
    calibration_texts,
    chosen_profile,
    table,
)

if TYPE_CHECKING:
    from ditto.compiler import RangeReport
    from ditto.evaluation import Part, Verification
    from ditto.files import Json

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
            help="Texts to verify on, one per line; without it, ordinary ones of all "
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
    head: Head = None,
    json_file: JsonFile = None,
    ranges_file: Annotated[
        Path | None,
        typer.Option(
            "--ranges",
            help="Write every range and what holds it here, as JSON. It tells of the "
            "weights: keep it to yourself.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw errors and headroom into this PNG or SVG.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find out whether a model is safe to serve.

    The simulator runs the plans on hundreds of texts that were not calibrated on, of
    all lengths, and says how often a value would leave its range: minutes for a small
    model. On a few of them float, simulator and three parties are compared after every
    layer. The table has the size of a part in float, how far simulator and parties are
    from it, and the headroom: how many doublings it has left. A second table says, by
    layer, how many ranges cannot be left (proven), cannot be left unnoticed (caught),
    or rest on the calibration texts (sampled). Ends with code 3 if the model is unsafe.
    """
    from ditto.evaluation import OrdinaryText, Setting, read_lines, some_texts
    from ditto.evaluation import verify as verify_model

    report = Report(json_file)
    for path in filter(None, (ranges_file, plot)):
        check_writable(path)
    if texts:
        many = [OrdinaryText("text", line) for line in read_lines(texts, limit)]
    else:
        many = some_texts(limit)
    known = calibration_texts(calibration)
    if plot:
        from ditto.evaluation.plot import check_matplotlib

        check_matplotlib()
    with stages(quiet=quiet, verbose=verbose) as shown:
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
    numbers = ["rms", "sim mean", "sim max", "MPC mean", "MPC max", "bits"]
    title = f"Differences to float, profile {found.profile}, {found.texts} texts"
    rows = [_row(part) for part in found.parts]
    report.print(table(title, ["part"], numbers, rows))
    if found.ranges.ranges:
        report.print(ranges_table(found.ranges))
    report.print(_tightest(found))
    for said in (*found.overflows, *found.outside)[:_MOST_SHOWN]:
        report.print(Text.assemble(("out of range", "red"), f": {said}"))
    report.print(
        f"{len(found.outside)} of {found.simulated} texts left a range in the "
        f"simulator; {found.agreed:.1%} of the parties' answers are the float model's"
    )
    report.print(_SAID[found.verdict])
    report.write(_as_json(found))
    if ranges_file:
        written = json.dumps(found.ranges.as_json(), indent=1)
        ranges_file.write_text(written + "\n", "utf-8")
        report.print(f"ranges written into {ranges_file}", markup=False)
    if plot:
        from ditto.evaluation.plot import plot as draw

        draw(found, plot)
        report.print(f"drawn into {plot}", markup=False)
    if found.verdict == "unsafe":
        raise typer.Exit(ExitCode.DOUBTFUL)


def ranges_table(ranges: "RangeReport") -> Table:
    """By layer, how many ranges hold by a proof, by a check, by samples."""
    rows = [
        [name or "(top)", *(f"{n}" for n in part.counts().values()), _share(part)]
        for name, part in (*ranges.parts().items(), ("all", ranges))
    ]
    numbers = [*ranges.counts(), "certain"]
    return table("What holds the ranges", ["part"], numbers, rows)


def _as_json(found: "Verification") -> "Json":
    return {
        "verdict": found.verdict,
        "profile": found.profile,
        "simulated_texts": found.simulated,
        "left_a_range": len(found.outside),
        "compared_texts": found.texts,
        "overflows": list(found.overflows),
        "agreed": found.agreed,
        "tightest_bits": found.tightest.bits if found.tightest else None,
        "ranges": found.ranges.counts(),
        "parts": [
            {
                "part": part.name,
                "rms": part.rms,
                "simulator_mean": part.simulated.mean if part.simulated else None,
                "simulator_max": part.simulated.largest if part.simulated else None,
                "parties_mean": part.parties.mean,
                "parties_max": part.parties.largest,
                "headroom_bits": part.headroom.bits if part.headroom else None,
            }
            for part in found.parts
        ],
    }


def _share(part: "RangeReport") -> str:
    return f"{part.certain():.1%}"


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
