"""``ditto export``: a bundle that a client and three parties run without the model."""

from pathlib import Path
from typing import Annotated

import typer

from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report, Verbose
from ditto.cli.show import (
    BatchSizes,
    CalibrationFile,
    ExportedLengths,
    Gelu,
    Head,
    HideLength,
    Margin,
    ModelFolder,
    MostTokens,
    Pairs,
    ProfileName,
    PublicSystem,
    calibration_texts,
    chosen_profile,
    public_prefix,
)


def export(
    model_dir: ModelFolder,
    out: Annotated[
        Path, typer.Option("--out", help="The bundle's folder; it must not exist.")
    ],
    length: ExportedLengths = None,
    batch: BatchSizes = None,
    tokens: MostTokens = 20,
    public_system: PublicSystem = None,
    pairs: Pairs = False,
    owner: Annotated[str, typer.Option(help="Who owns the weights.")] = "local",
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    hide_length: HideLength = False,
    provable: Annotated[
        bool,
        typer.Option(
            "--provable", help="With provable recasts: for runs with --audit recasts."
        ),
    ] = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write what a deployment of a model needs.

    The bundle has a folder for the client (tokenizer, labels, input specifications,
    plan digests) and one for each of the three parties (plans and its shares of the
    weights). Give each its own folder only: any two of the parties' folders together
    are the weights. `ditto run BUNDLE` runs it here.
    """
    from ditto.api import from_pretrained
    from ditto.api.export import export_model
    from ditto.models.hub import find_folder
    from ditto.owner.bundle import check_new

    report = Report(json_file)
    check_new(out)
    model_dir = find_folder(model_dir)
    with stages(quiet=quiet, verbose=verbose) as shown:
        model = from_pretrained(
            model_dir,
            profile=chosen_profile(profile, gelu, margin),
            head=head,
            calibration=calibration_texts(calibration),
            hide_length=hide_length,
            check=False,
            on_stage=shown.stage,
            public_prefix=public_prefix(model_dir, public_system),
            audit="recasts" if provable else "off",
        )
        with model:
            export_model(
                model,
                model_dir,
                out,
                lengths=length or [128],
                batch_sizes=batch or [1],
                tokens=tokens,
                pairs=pairs,
                owner=owner,
                on_stage=shown.stage,
            )
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    report.print(f"{out}: {size / 1e6:.1f} MB", markup=False)
    report.write({"bundle": str(out), "bytes": size})
