"""What holds the ranges of a model's plan: proofs, checks that cannot miss, samples."""

from typing import Annotated

import typer

from benchmarks import show
from ditto.api import from_pretrained
from ditto.compiler import RangeReport, find_profile
from ditto.compiler.bounds.report import KINDS
from ditto.models import PRESETS, Head, random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples


def main(
    model_dir: Annotated[
        str, typer.Argument(help="A model's folder, or a preset such as bert-base.")
    ],
    length: Annotated[int, typer.Option("--tokens", help="Tokens.", min=2)] = 128,
    profile: Annotated[str, typer.Option(help="How to compute.")] = "ditto",
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
) -> None:
    """Count, by layer, the ranges that are proven, caught, and sampled.

    The file that --json writes tells of the weights: it is the owner's. A preset has
    random weights.
    """
    plans = _plans(model_dir, profile)
    generates = plans.model.head is Head.TEXT_GENERATION
    phase = Phase.PREFILL if generates else Phase.FORWARD
    report = plans.ranges(Computation(phase, 1, length))
    rows = [_row(name, part) for name, part in report.parts().items()]
    rows.append(_row("all", report))
    numbers = [*KINDS, "proven", "caught", "sampled", "certain", "certain recasts"]
    show.show(
        f"Ranges of {model_dir}, {length} tokens, profile {profile}",
        ["part"],
        numbers,
        rows,
        markdown_file,
    )
    show.write(json_file, report.as_json())


def _plans(model_dir: str, profile: str) -> Plans:
    if model_dir in PRESETS:
        model = random_model(model_dir)
        samples = RandomSamples(model.config.vocab_size)
        return Plans(model, find_profile(profile), samples)
    return from_pretrained(model_dir, profile=profile, mode="simulate").plans


def _row(name: str, part: RangeReport) -> list[str]:
    kinds = [sum(part.counts(kind).values()) for kind in KINDS]
    return [
        name or "(top)",
        *(f"{n}" for n in (*kinds, *part.counts().values())),
        f"{part.certain():.1%}",
        f"{part.certain('recast'):.1%}",
    ]


if __name__ == "__main__":
    show.run(main)
