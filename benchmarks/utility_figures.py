"""Pictures of the utility table: losses, activations beside their types, the frontier.

python benchmarks/utility_figures.py --work utility --data GLUE
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from matplotlib.figure import Figure

from benchmarks import show
from benchmarks.utility import OUT
from ditto.client import Tokenizer, pad_batch
from ditto.compiler import find_profile
from ditto.evaluation.tasks import read_examples
from ditto.files import Json
from ditto.fixedpoint import Array, FxpType
from ditto.models import load_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import TextSamples
from ditto.plan import Plan
from ditto.simulation import Nearest
from ditto.simulation.machine import Machine, encode_inputs
from ditto.training.log import LOG, read_log

STAGES = ("hidden", "logits", "quantized")
TOKENS = 32
_PICTURES = OUT.with_suffix("")
_PERCENTILES = (1, 25, 50, 75, 99)


def loss_curves(students: Sequence[Path], file: Path) -> None:
    """The loss of every stage, a line for each student."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    shown = [
        stage for stage in STAGES if any((s / stage / LOG).is_file() for s in students)
    ]
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for panel, stage in zip(panels, shown, strict=True):
        for student in students:
            log = student / stage / LOG
            lines = read_log(log) if log.is_file() else []
            points = [(line["step"], line["loss"]) for line in lines if "loss" in line]
            name = f"{student.parent.name.rsplit('-', 1)[0]}, {student.name}"
            panel.semilogy(*np.array(points or [(np.nan, np.nan)]).T, label=name)
        panel.set_title(f"stage {stage}", loc="left")
        panel.set_xlabel("step")
    panels[0].set_ylabel("loss")
    panels[-1].legend(fontsize="small")
    figure.savefig(file)


def activations(model_dir: Path, texts: Sequence[str], file: Path) -> None:
    """How large values are in every part of a student, and what their types hold."""
    tokenizer = Tokenizer.load(model_dir)
    plans = Plans(
        load_model(model_dir), find_profile("ditto"), TextSamples(tokenizer, texts)
    )
    plan = plans.plan(Computation(Phase.FORWARD, 1, TOKENS))
    sizes: dict[str, list[Array]] = defaultdict(list)
    kinds: dict[str, FxpType] = {}
    for text in texts:
        row = tokenizer.encode(text, max_length=TOKENS)
        batch = pad_batch([row], TOKENS, tokenizer.pad_id)
        arguments = (plans.model.params, batch.ids, batch.mask)
        for part, kind, values in _results(plan, arguments):
            sizes[part].append(values)
            kinds[part] = kind
    figure = Figure(figsize=(11, 5), layout="constrained")
    panel = figure.subplots()
    for place, part in enumerate(sizes):
        magnitudes = np.abs(np.concatenate(sizes[part]))
        logs = np.log2(magnitudes[magnitudes > 0])
        low, first, middle, third, high = np.percentile(logs, _PERCENTILES)
        panel.plot([place, place], [low, high], color="tab:blue", linewidth=1)
        panel.plot([place, place], [first, third], color="tab:blue", linewidth=5)
        panel.plot(place, middle, "w_")
        panel.plot(place, logs.max(), "k.", markersize=4)
        wide = [place - 0.4, place + 0.4]
        for end, color in ((kinds[part].max_value, "red"), (kinds[part].ulp, "green")):
            panel.plot(wide, [np.log2(end)] * 2, color=f"tab:{color}")
    panel.set_xticks(range(len(sizes)), [*sizes], rotation=70, ha="right", fontsize=7)
    panel.set_ylabel("log2 |value|")
    panel.set_title(
        "what every part makes: 1 to 99 % and quartiles (blue), largest (black), and "
        "of its type the limit (red) and the unit (green)",
        loc="left",
        fontsize=9,
    )
    figure.savefig(file)


def _results(
    plan: Plan, arguments: tuple[object, ...]
) -> list[tuple[str, FxpType, Array]]:
    """The last value of every part, with its type."""
    leaves = jax.tree_util.tree_leaves(arguments)
    last: dict[str, int] = {}
    for step in plan.steps:
        for v in step.outputs:
            if plan.values[v].is_shared:
                last["/".join(step.scope.split("/")[:2])] = v
    with jax.enable_x64(True):
        values = Machine(plan).run(encode_inputs(plan, leaves, Nearest()))
        return [
            (
                part,
                plan.values[v].fxp,
                np.asarray(values[v]).ravel() * plan.values[v].fxp.ulp,
            )
            for part, v in last.items()
        ]


def frontier(rows: Sequence[Json], file: Path) -> None:
    """What a row loses against what it sends: a panel for each column."""
    columns = sorted({(row["model"], row["task"]) for row in rows})
    figure = Figure(figsize=(4.5 * len(columns), 4), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False)[0]
    for panel, column in zip(panels, columns, strict=True):
        cells = [
            row
            for row in rows
            if (row["model"], row["task"]) == column and row["mode"] == "simulate"
        ]
        for cell in cells:
            x, y = cell["bytes"] / 1e6, cell["drop_points"]
            panel.plot(x, y, "o" if cell["row"].startswith("ditto") else "s")
            panel.annotate(cell["row"], (x, y), fontsize=7, xytext=(4, 3),
                           textcoords="offset points")  # fmt: skip
        panel.axhline(0, color="grey", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xlabel("MB of an answer")
        panel.set_title(" ".join(column), loc="left")
    panels[0].set_ylabel("points lost to float")
    figure.savefig(file)


def main(
    work: Annotated[Path, typer.Option(help="The work folder of utility.py.")],
    data: Annotated[Path, typer.Option(help="GLUE's folder.")],
    results: Annotated[Path, typer.Option(help="The results of utility.py.")] = OUT,
    out: Annotated[Path, typer.Option(help="Where pictures go.")] = _PICTURES,
) -> None:
    """Draw the pictures of the utility table."""
    out.mkdir(parents=True, exist_ok=True)
    students = sorted(path.parent for path in work.glob("*/*/hidden"))
    if students:
        loss_curves(students, out / "losses.svg")
    quad = next((s for s in students if (s / "config.json").is_file()), None)
    if quad is not None:
        examples = read_examples("cola", data / "cola", 16)
        activations(quad, [each.text for each in examples], out / "activations.svg")
    frontier(json.loads(results.read_text())["rows"], out / "frontier.svg")


if __name__ == "__main__":
    show.run(main)
