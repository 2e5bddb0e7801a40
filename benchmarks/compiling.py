"""How long it takes to compile a plan for a model of a well-known size."""

import time
from typing import Annotated

import typer

from benchmarks import show
from ditto.compiler import find_profile
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
    json_file: show.JsonFile = None,
) -> None:
    """Seconds from random weights to a plan, calibration on the usual samples included.

    To compare two versions, run it with both, one after the other. About a minute for
    BERT-base on two cores.
    """
    model = random_model(preset)
    plans = Plans(model, find_profile(profile), RandomSamples(model.config.vocab_size))
    started, cpu = time.perf_counter(), time.process_time()
    plan = plans.plan(Computation(Phase.FORWARD, 1, length))
    seconds = time.perf_counter() - started
    processor = time.process_time() - cpu
    title = f"Compiling {preset}, {length} tokens, profile {profile}"
    row = [f"{len(plan.steps)}", f"{seconds:.1f}", f"{processor:.1f}"]
    show.show(title, [], ["steps", "seconds", "seconds of processor"], [row], None)
    result = {
        "preset": preset,
        "tokens": length,
        "profile": profile,
        "steps": len(plan.steps),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(processor, 1),
    }
    show.write(json_file, [result])


if __name__ == "__main__":
    show.run(main)
