"""What the range check costs: a model with it and without, in one session."""

import statistics
from typing import Annotated

import typer

from benchmarks import show
from ditto.api.backends import PartiesBackend
from ditto.client.tokens import pad_batch
from ditto.compiler import find_profile
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.runtime import ProcessTrio


def main(
    preset: Annotated[str, typer.Option(help="bert-base, bert-large, ...")] = (
        "bert-base"
    ),
    length: Annotated[int, typer.Option("--tokens", help="Tokens.", min=2)] = 128,
    layers: Annotated[
        int | None, typer.Option(help="Fewer layers than the model has.", min=1)
    ] = None,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 5,
    json_file: show.JsonFile = None,
) -> None:
    """Bytes, rounds and seconds of the same plan with the range check and without it.

    Random weights, three processes of this machine over TLS links. Runs with and
    without take turns; the ratio of seconds is the median of those of neighbours. About
    five minutes for BERT-base on two cores.
    """
    config = {} if layers is None else {"num_hidden_layers": layers}
    model = random_model(preset, **config)
    samples = RandomSamples(model.config.vocab_size)
    batch = pad_batch([samples.row(1000, length)], length, samples.pad_id)
    job = Computation(Phase.FORWARD, 1, length)
    checked = find_profile("ditto")
    profiles = (checked, checked.replace(range_check=False))
    with ProcessTrio(timeout=900) as trio:
        both = [
            PartiesBackend(Plans(model, profile, samples), trio) for profile in profiles
        ]
        for _ in range(1 + repeat):  # the first run of each is not timed
            for backend in both:
                backend.run(job, [batch.ids, batch.mask])
    runs, bare = ([*backend.runs] for backend in both)
    ratios = [a.seconds / b.seconds for a, b in zip(runs[1:], bare[1:], strict=True)]
    medians = [
        statistics.median(run.seconds for run in some[1:]) for some in (runs, bare)
    ]
    result = {
        "preset": preset,
        "tokens": length,
        "layers": model.config.num_hidden_layers,
        "bytes": [runs[0].bytes, bare[0].bytes],
        "rounds": [runs[0].rounds, bare[0].rounds],
        "seconds": [round(seconds, 3) for seconds in medians],
        "ratios_of_seconds": [round(ratio, 3) for ratio in ratios],
        "more_bytes": round(runs[0].bytes / bare[0].bytes - 1, 4),
        "more_seconds": round(statistics.median(ratios) - 1, 4),
    }
    rows = [
        [name, f"{run.bytes / 1e6:.1f}", f"{run.rounds}", f"{seconds:.2f}"]
        for name, run, seconds in zip(
            ("with the check", "without"), (runs[0], bare[0]), medians, strict=True
        )
    ]
    title = f"The range check, {preset}, {model.config.num_hidden_layers} layers"
    show.show(title, ["plan"], ["MB", "rounds", "seconds"], rows, None)
    typer.echo(
        f"{result['more_bytes']:.1%} more bytes, {result['more_seconds']:.1%} more "
        f"seconds (median of {repeat} neighbours)"
    )
    show.write(json_file, [result])


if __name__ == "__main__":
    show.run(main)
