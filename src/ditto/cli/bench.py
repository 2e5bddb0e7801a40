"""``ditto bench``: what a model costs on this machine, and what a service gives."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ditto.cli.bench_serve import bench_serve
from ditto.cli.help import with_named_values
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
    table,
)

if TYPE_CHECKING:
    from ditto.frames import Json


class _ModelByDefault(TyperGroup):
    """``ditto bench MODEL_DIR`` is ``ditto bench model MODEL_DIR``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the usual command before what names none."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["model", *args]
        return super().parse_args(ctx, args)


bench = typer.Typer(
    cls=_ModelByDefault,
    help="Measure a model on this machine (`ditto bench MODEL_DIR`), or a service.",
    no_args_is_help=True,
)
bench.command("serve")(with_named_values(bench_serve))


@bench.command("model")
@with_named_values
def bench_model(
    model_dir: ModelFolder,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens of a text: 128 for encoders, 32 for decoders.", min=2
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts asked together.", min=1)] = 1,
    repeat: Annotated[
        int, typer.Option(help="Timed runs, after one that counts.", min=1)
    ] = 3,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure a model as a client asks it: one answer, or a first token and a next.

    Three parties, each a process of this machine over TLS links, run the plan that
    'ditto run' or 'ditto generate' would run. Bytes and rounds are of all parties
    together and exact; seconds are the median of the timed runs, each of its slowest
    party. The client's megabytes are the keys and shares that it sends to the parties.
    The error is the mean absolute difference to the same model in float. Party MB is
    the peak of a party's memory.
    """
    from ditto.bench.inference import Setting, bench_folder, machine

    report = Report(json_file)
    with stages(quiet=quiet, verbose=verbose) as shown:
        row = bench_folder(
            model_dir,
            chosen_profile(profile, gelu, margin),
            Setting(length, batch, repeat),
            calibration=calibration_texts(calibration),
            on_stage=shown.stage,
            on_part=shown.part,
        )
    command = " ".join(["ditto", *sys.argv[1:]])
    report.write({**machine(), "command": command, "rows": [row]})
    title = f"{row['model']}, profile {row['profile']}, all parties together"
    report.print(table(title, ["what"], COLUMNS, cost_lines(row)))


COLUMNS = ["MB", "rounds", "seconds", "party MB", "client MB", "error"]
"""Party MB: the peak of memory of each."""


def cost_lines(row: "Json") -> list[list[str]]:
    """What was measured, a line for an answer or for each kind of token."""
    tokens = f"{row['seq']} tokens"
    if row["batch"] > 1:
        tokens += f" x {row['batch']}"
    if row["measured_layers"] < row["layers"]:
        tokens += f", from {row['measured_layers']} layers"
    costs = [(tokens, row)]
    if "next_token" in row:
        costs = [
            (f"first token after {tokens}", row["first_token"]),
            ("each further token", row["next_token"]),
        ]
    return [
        [
            what,
            f"{cost['bytes'] / 1e6:.1f}",
            f"{cost['rounds']}",
            f"{cost['seconds']:.2f}",
            f"{row['peak_rss_mb']}",
            f"{cost.get('upload_bytes', 0) / 1e6:.3f}",
            f"{cost['mean_abs_error']:.4f}",
        ]
        for what, cost in costs
    ]
