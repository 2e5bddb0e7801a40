"""``ditto serve --local``: three parties that stay, so that answers come at once."""

from pathlib import Path
from typing import Annotated

import typer

from ditto.cli.progress import stages
from ditto.cli.report import Quiet, Verbose, console
from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    Head,
    Margin,
    NoCache,
    PreparedLengths,
    ProfileName,
    calibration_texts,
    chosen_cache,
    chosen_profile,
)
from ditto.files import warm_socket


def serve(
    model_dirs: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL_DIR...", help="Hugging Face folders."),
    ],
    local: Annotated[
        bool,
        typer.Option("--local", help="On this machine, for this user. Required."),
    ] = False,
    length: PreparedLengths = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Keep three parties with models and their shares ready.

    `ditto run`, `ditto generate` and `from_pretrained` of the same user find it and
    use its parties, if model, profile, calibration and head are the same; they start
    none of their own. It sees what they see: texts and answers in the clear.

    This is a convenience on one machine, no service between organisations. Ctrl-C ends
    it and its parties.
    """
    cache = chosen_cache(no_cache)
    from ditto.api import from_pretrained
    from ditto.api.warm_service import WarmService, serve_forever
    from ditto.errors import SetupError
    from ditto.party import LocalDeployment

    if not local:
        raise SetupError(
            "Say `ditto serve --local` to keep three parties of this machine ready. A "
            "party of a deployment is started by `ditto party serve`."
        )
    deployment = LocalDeployment(cache=cache or None)
    try:
        with stages(quiet=quiet, verbose=verbose) as shown:
            deployment.launch()
            service = WarmService(deployment)
            for folder in model_dirs:
                shown.stage(f"loading {folder}")
                model = from_pretrained(
                    folder,
                    profile=chosen_profile(profile, gelu, margin),
                    head=head,
                    calibration=calibration_texts(calibration),
                    mode="float",
                    cache=cache,
                )
                service.serve_model(model, length or [16], shown.stage)
        out, path = console(), warm_socket()
        names = ", ".join(folder.resolve().name for folder in model_dirs)
        serve_forever(
            service,
            path,
            lambda: out.print(
                f"ready: {names}, at {path}; Ctrl-C ends it", markup=False
            ),
        )
    finally:
        deployment.interrupt()
        deployment.close()
