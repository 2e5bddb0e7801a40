"""How long it takes to compile a plan for a model of a well-known size, and what the
plan costs."""

import time
from typing import Annotated

import typer

from benchmarks import show
from benchmarks.layer import with_gelu
from ditto.analysis.estimation import NETWORKS, estimate, tune_rounds
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples


def main(
    preset: Annotated[str, typer.Option(help="bert-base, bert-large, ...")] = (
        "bert-base"
    ),
    length: Annotated[int, typer.Option("--tokens", help="Tokens.", min=2)] = 128,
    profile: Annotated[str, typer.Option(help="How to compute.")] = "ditto",
    gelu: Annotated[str, typer.Option(help="accurate or quad.")] = "accurate",
    rows: Annotated[
        int | None,
        typer.Option(help="Texts that are calibrated on; else as usual.", min=1),
    ] = None,
    json_file: show.JsonFile = None,
) -> None:
    """Seconds from random weights to a plan, calibration on random texts included.

    Bytes and rounds are those of the plan as it is, and tuned for two networks.

    To compare two versions, run it with both, one after the other. About a minute for
    BERT-base on two cores.
    """
    model = random_model(preset)
    samples = RandomSamples(model.config.vocab_size)
    plans = Plans(model, with_gelu(profile, gelu), samples, rows=rows)
    started, cpu = time.perf_counter(), time.process_time()
    plan = plans.plan(Computation(Phase.FORWARD, 1, length))
    seconds = time.perf_counter() - started
    processor = time.process_time() - cpu
    title = f"Compiling {preset}, {length} tokens, profile {profile}"
    tuned = {name: tune_rounds(plan, network) for name, network in NETWORKS.items()}
    costs = {
        name: estimate(each) for name, each in {"as compiled": plan, **tuned}.items()
    }
    row = [f"{len(plan.steps)}", f"{seconds:.1f}", f"{processor:.1f}"]
    columns = ["steps", "seconds", "seconds of processor"]
    for name, cost in costs.items():
        columns += [f"MB, {name}", f"rounds, {name}"]
        row += [f"{cost.bytes / 1e6:.1f}", f"{cost.rounds:.0f}"]
    show.show(title, [], columns, [row], None)
    result = {
        "preset": preset,
        "tokens": length,
        "profile": profile,
        "steps": len(plan.steps),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(processor, 1),
        "cost": {
            name: {"bytes": cost.bytes, "rounds": cost.rounds}
            for name, cost in costs.items()
        },
    }
    show.write(json_file, [result])


if __name__ == "__main__":
    show.run(main)
