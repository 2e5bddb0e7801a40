"""``ditto compile``, ``explain`` and ``estimate``: a plan before it runs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report, Verbose, check_writable
from ditto.cli.show import (
    Audited,
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
from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.analysis import Network
    from ditto.compiler import Profile
    from ditto.files import Json
    from ditto.plan import Plan

LENGTH = 128
"""Tokens of a text, if it is not said."""

ModelOrPlan = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_OR_PLAN",
        help="A Hugging Face folder, or a plan of `ditto compile` or Plan.save.",
    ),
]
Length = Annotated[
    int | None,
    typer.Option(
        "--length",
        "--tokens",
        help=f"Tokens that a text is padded to; {LENGTH} by default.",
        min=2,
    ),
]
Batch = Annotated[
    int | None, typer.Option(help="Texts asked together; 1 by default.", min=1)
]


def compile_(
    model_dir: ModelFolder,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for the plans; made if missing.")
    ],
    length: Length = None,
    batch: Batch = None,
    head: Head = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the plans of a model: what the parties will do, step by step.

    One plan for a text; for a model that generates, one for the prompt and one for each
    further token. A plan holds no weights. `explain` and `estimate` read it.
    """
    report = Report(json_file)
    if out.exists() and not out.is_dir():
        raise SetupError(f"{out} is a file; name a folder.")
    check_writable(out.resolve() / "plan" if out.is_dir() else out)
    chosen = chosen_profile(profile, gelu, margin)
    asked = _Asked(length, batch, head, chosen, calibration, quiet, verbose)
    plans = _compiled(model_dir, asked)
    out.mkdir(exist_ok=True)
    written = {}
    for what, plan in plans.items():
        path = out / f"{what.replace(' ', '-')}.plan"
        plan.save(path)
        written[what] = {"file": str(path), **_described(plan)}
    rows = [
        [what, each["file"], each["steps"], each["digest"][:16]]
        for what, each in written.items()
    ]
    report.print(table("Plans", ["of", "file"], ["steps", "digest"], rows))
    report.write({"plans": written})


def explain(
    model_or_plan: ModelOrPlan,
    steps: Annotated[
        bool, typer.Option("--steps", help="Every step that sends anything.")
    ] = False,
    free: Annotated[
        bool, typer.Option("--all", help="Every step, also those that send nothing.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Also draw the plan into this SVG file.")
    ] = None,
    length: Length = None,
    batch: Batch = None,
    head: Head = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a plan does: bytes and rounds of every part, or of every step.

    Bytes and rounds are of all parties together. They are exact for our protocols, and
    from a measured table of SPU's operations for what SPU computes.
    """
    from ditto.analysis import draw, summary
    from ditto.analysis import explain as explain_steps

    report = Report(json_file)
    if svg:
        check_writable(svg)
    chosen = chosen_profile(profile, gelu, margin)
    asked = _Asked(length, batch, head, chosen, calibration, quiet, verbose)
    plans = _plans(model_or_plan, asked)
    width = Console().width if sys.stdout.isatty() else 120
    for what, plan in plans.items():
        if len(plans) > 1:
            report.print(what)
        if steps or free:
            shown = explain_steps(plan, free=free, width=width)
        else:
            shown = summary(plan, width=width)
        if not report.is_for_scripts:
            typer.echo(shown, nl=False)
    if svg:
        svg.write_text(draw(next(iter(plans.values()))))
        report.print(f"drawn into {svg}", markup=False)
    report.write({"plans": {what: _explained(plan) for what, plan in plans.items()}})


def estimate(
    model_or_plan: ModelOrPlan,
    network: Annotated[
        str | None,
        typer.Option(help="lan (0.4 ms, 5 Gbit/s) or wan (40 ms, 400 Mbit/s)."),
    ] = None,
    rtt: Annotated[
        str | None, typer.Option(help="Round trip, such as 40ms; instead of --network.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Of each party, such as 400mbit.")
    ] = None,
    machine: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The parties' machines: of `ditto bench machine`."
        ),
    ] = None,
    audit: Audited = "off",
    length: Length = None,
    batch: Batch = None,
    head: Head = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate what an answer costs on a network, before anything runs.

    Waiting and sending follow from exact bytes and rounds; computing and memory are
    rough figures for two cores a party. Machines differ by a factor of three: measure
    one of yours with 'ditto bench machine --json FILE', and name it with --machine.
    With --audit the proofs are counted, too: at most so many bytes and rounds.
    """
    from ditto.analysis import USUAL, Machine, party_memory, proofs_of
    from ditto.analysis import estimate as estimate_plan
    from ditto.plan import check_audit, needs_provable
    from ditto.steps.coverage import check_coverage

    report = Report(json_file)
    chosen_network = _network(network, rtt, bandwidth)
    chosen_machine = Machine.read(machine) if machine else USUAL
    level = check_audit(audit)
    chosen = chosen_profile(profile, gelu, margin)
    if needs_provable(level):
        chosen = chosen.replace(provable=True)
    asked = _Asked(length, batch, head, chosen, calibration, quiet, verbose)
    plans = _plans(model_or_plan, asked)
    rows, costs, most = [], {}, []
    for what, plan in plans.items():
        check_coverage(plan, level)
        found = estimate_plan(plan, chosen_network, chosen_machine, level)
        proofs = proofs_of(plan, level)
        most.append(proofs)
        memory = party_memory(plan)
        rows.append(
            [
                what, f"{found.bytes / 1e6:.1f}", f"{found.rounds:g}",
                f"{found.waiting:.2f}", f"{found.sending:.2f}",
                f"{found.computing:.2f}", f"{found.seconds:.2f}",
                f"{memory.bytes / 1e6:.0f}",
            ]
        )  # fmt: skip
        costs[what] = {
            "bytes": found.bytes,
            "rounds": found.rounds,
            "proof_bytes": proofs.bytes,
            "proof_rounds": proofs.rounds,
            "seconds": found.seconds,
            "waiting_seconds": found.waiting,
            "sending_seconds": found.sending,
            "computing_seconds": found.computing,
            "party_memory_bytes": memory.bytes,
            "weights_bytes": memory.weights,
            "digest": plan.digest,
        }
    latency, speed = chosen_network.rtt * 1e3, chosen_network.bandwidth / 1e6
    numbers = ["MB", "rounds", "wait", "send", "compute", "seconds", "party MB"]
    title = f"Estimate: {latency:g} ms round trip, {speed:g} Mbit/s"
    report.print(table(title, ["of"], numbers, rows))
    report.print(
        "MB and rounds of all parties together; wait, send and compute make up the "
        "seconds; party MB: memory of each party."
    )
    if level != "off":
        report.print(
            f"Proofs are of these, at most: {max(p.bytes for p in most) / 1e6:.2f} MB "
            f"in {max(p.rounds for p in most):g} rounds."
        )
    report.write(
        {
            "network": {"rtt": chosen_network.rtt, "bandwidth": speed * 1e6},
            "machine": chosen_machine.as_json(),
            "audit": level,
            "plans": costs,
        }
    )


def _network(name: str | None, rtt: str | None, bandwidth: str | None) -> "Network":
    from ditto.analysis import Network
    from ditto.analysis.estimation import find_network

    if name is not None and (rtt or bandwidth):
        raise SetupError("Give --network, or --rtt and --bandwidth, not both.")
    if rtt or bandwidth:
        return Network.parse(rtt or "0.4ms", bandwidth or "5gbit")
    return find_network(name or "lan")


@dataclass(frozen=True)
class _Asked:
    """What the options say of a model's plans."""

    length: int | None
    batch: int | None
    head: str | None
    profile: "Profile"
    calibration: Path | None
    quiet: bool
    verbose: bool


def _plans(path: Path, asked: _Asked) -> "dict[str, Plan]":
    """The plan of a file, or those of the model in a folder."""
    from ditto.models.hub import find_folder

    path = find_folder(path)
    if path.is_dir():
        return _compiled(path, asked)
    from ditto.steps import load_plan

    options = {"--length": asked.length, "--batch": asked.batch, "--head": asked.head}
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SetupError(f"{given[0]} is for a model's folder; {path} is a plan.")
    return {"plan": load_plan(path)}


def _compiled(model_dir: Path, asked: _Asked) -> "dict[str, Plan]":
    from ditto.api import from_pretrained

    with stages(quiet=asked.quiet, verbose=asked.verbose) as shown:
        model = from_pretrained(
            model_dir,
            mode="simulate",
            profile=asked.profile,
            head=asked.head,
            calibration=calibration_texts(asked.calibration),
            on_stage=shown.stage,
        )
        shown.stage("calibrating and compiling")
        length = asked.length or min(LENGTH, model.max_tokens)
        if length > model.max_tokens:
            raise SetupError(
                f"--length {length}: the model takes {model.max_tokens} tokens at most."
            )
        return model.plans_of(length, asked.batch or 1)


def _described(plan: "Plan") -> "Json":
    return {
        "digest": plan.digest,
        "profile": plan.profile,
        "steps": len(plan.steps),
        "spu_regions": len(plan.regions),
    }


def _explained(plan: "Plan") -> "Json":
    from ditto.analysis import by_part

    parts = {
        part or "(rest)": {"steps": steps, "bytes": sent, "rounds": rounds}
        for part, (steps, sent, rounds) in by_part(plan).items()
    }
    return {**_described(plan), "parts": parts}
