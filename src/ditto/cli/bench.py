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


@bench.command("machine")
@with_named_values
def bench_machine(
    repeat: Annotated[
        int, typer.Option(help="Timed runs of each, after one that warms up.", min=1)
    ] = 6,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure how fast this machine is, for 'ditto estimate --machine FILE'.

    Three parties of this machine run a few small random models, in about a minute. What
    their processor needs is explained by what plans count: products, weights that are
    read, bytes and rounds. The table has these rates, beside those that 'ditto
    estimate' takes without a file. A machine that does something else meanwhile looks
    slower than it is.
    """
    from ditto.analysis import USUAL
    from ditto.bench.inference import machine
    from ditto.bench.machine import fit, measure_machine

    report = Report(json_file)
    with stages(quiet=quiet, verbose=verbose) as shown:
        measured = measure_machine(shown.stage, repeat=repeat)
    found = fit(measured)
    here, usual = found.as_json(), USUAL.as_json()
    rows = [
        [what, f"{here[name] * scale:.3g}", f"{usual[name] * scale:.3g}"]
        for name, (what, scale) in RATES.items()
    ]
    report.print(table("Seconds of a party's processor", ["for"], MACHINES, rows))
    probes = [
        {
            "what": each.what,
            "processor_seconds": round(each.seconds, 4),
            "estimated_seconds": round(each.work.seconds(found), 4),
        }
        for each in measured
    ]
    report.write({**machine(), "machine": here, "probes": probes})


RATES = {
    "multiplication": ("1e9 products of integers", 1e9),
    "byte_read": ("1 GB of weights", 1e9),
    "byte_sent": ("1 GB sent by all", 1e9),
    "spu_byte_sent": ("1 GB sent by SPU", 1e9),
    "round": ("1,000 rounds", 1e3),
}
MACHINES = ["here", "usual"]


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
