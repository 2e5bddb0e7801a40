"""``ditto owner``: models go to a deployment, are listed and retired."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.help import with_named_values
from ditto.cli.progress import stages
from ditto.cli.remote import CredentialsFolder, DeploymentFile
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
    table,
)

if TYPE_CHECKING:
    from ditto.cli.progress import Stages
    from ditto.files import Json
    from ditto.owner.remote import RemotePublisher

owner = typer.Typer(
    help="Publish models to a deployment, list them, retire them.",
    no_args_is_help=True,
)


@owner.command()
@with_named_values
def publish(
    model_dir: ModelFolder,
    deployment: DeploymentFile,
    credentials: CredentialsFolder,
    name: Annotated[
        str,
        typer.Option(help="What clients ask for, with a version: acme/minilm:1."),
    ],
    length: ExportedLengths = None,
    batch: BatchSizes = None,
    tokens: MostTokens = 20,
    public_system: PublicSystem = None,
    pairs: Pairs = False,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    hide_length: HideLength = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Share a model out to the three parties of a deployment.

    Plans are made as by `ditto export`; each party gets the plans and its own shares,
    in pieces with digests. If it breaks off, the same command goes on where it stopped.
    The owner approves the digests of the plans: nothing else runs with the weights. A
    name with its version is published once; retire it, or take the next version.
    """
    from ditto.models.hub import find_folder
    from ditto.wire.catalogue import check_name

    report = Report(json_file)
    check_name(name)
    publisher = _open(deployment, credentials)
    model_dir = find_folder(model_dir)
    options: Json = {
        "name": name,
        "owner": publisher.owner,
        "files": {
            file.name: [file.stat().st_size, file.stat().st_mtime_ns]
            for file in sorted(model_dir.iterdir())
            if file.is_file()
        },
        "lengths": length or [128],
        "rest": [
            batch,
            tokens,
            pairs,
            profile,
            gelu,
            head,
            margin,
            hide_length,
            public_system,
        ],
        "calibration": calibration_texts(calibration),
    }

    def export(out: Path, shown: "Stages") -> None:
        from ditto.api import from_pretrained
        from ditto.api.export import export_model

        model = from_pretrained(
            model_dir,
            profile=chosen_profile(profile, gelu, margin),
            head=head,
            calibration=calibration_texts(calibration),
            hide_length=hide_length,
            check=False,
            on_stage=shown.stage,
            public_prefix=public_prefix(model_dir, public_system),
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
                owner=publisher.owner,
                name=name,
                on_stage=shown.stage,
            )

    try:
        with stages(quiet=quiet, verbose=verbose) as shown:
            bundle = _bundle_folder(options)
            if not bundle.exists():
                export(bundle, shown)
            release = publisher.publish(
                bundle,
                shown.stage,
                lambda sent, total: shown.count("MB sent", sent >> 20, total >> 20),
            )
            shutil.rmtree(bundle, ignore_errors=True)
    finally:
        publisher.close()
    report.print(
        f"{release.name}: served by all three parties as release {release.digest}",
        markup=False,
    )
    report.write({**release.model_dump(mode="json"), "digest": release.digest})


@owner.command("ls")
@with_named_values
def list_models(
    deployment: DeploymentFile,
    credentials: CredentialsFolder,
    json_file: JsonFile = None,
) -> None:
    """List the models of a deployment, and whether all three parties serve them."""
    report = Report(json_file)
    publisher = _open(deployment, credentials)
    try:
        statuses = publisher.statuses()
    finally:
        publisher.close()
    names = sorted({m.release.name for status in statuses for m in status.models})
    rows, listed = [], []
    for name in names:
        found = [
            next((m for m in status.models if m.release.name == name), None)
            for status in statuses
        ]
        agreed = all(model is not None and model.agreed for model in found)
        first = next(model for model in found if model is not None)
        at = sum(model is not None for model in found)
        where = "all three" if agreed else f"{at} of 3, not agreed"
        rows.append([name, first.release.owner, first.digest[:12], where])
        listed.append(
            {
                "name": name,
                "owner": first.release.owner,
                "digest": first.digest,
                "agreed": agreed,
            }
        )
    report.print(table("Models", ["name", "owner", "release", "served by"], [], rows))
    report.write(listed)


@owner.command()
@with_named_values
def retire(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in acme/minilm:1.")],
    deployment: DeploymentFile,
    credentials: CredentialsFolder,
) -> None:
    """Have all parties serve a model no longer, and remove its shares."""
    publisher = _open(deployment, credentials)
    try:
        publisher.retire(name)
    finally:
        publisher.close()
    typer.echo(f"{name} is retired")


def _open(deployment: Path, credentials: Path) -> "RemotePublisher":
    from ditto.owner.remote import RemotePublisher
    from ditto.trust import load_credentials
    from ditto.wire.agreement import read_agreement

    agreement = read_agreement(deployment)
    mine = load_credentials(credentials, agreement.trusted_domains)
    return RemotePublisher(agreement, mine)


def _bundle_folder(options: "Json") -> Path:
    """Where the shares wait until they are sent: a private folder of these options."""
    from ditto.files import cache_folder, private_folder

    text = json.dumps(options, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return private_folder(cache_folder() / "publishing") / key
