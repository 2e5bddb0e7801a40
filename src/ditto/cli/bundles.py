"""Bundles where commands take a model: asked through three local parties."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ditto.cli.exit_codes import ExitCode
from ditto.cli.report import Report
from ditto.cli.show import LEFT, doubt_line, table
from ditto.cli.words import (
    answer_as_json,
    put_warnings_in_words,
    shown_answer,
    shown_text,
)
from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.cli.progress import Stages
    from ditto.client.asking import Client, Generated
    from ditto.client.out_of_range import OnOutOfRange
    from ditto.client.reading import Prediction
    from ditto.client.sampling import Sampling

SCRIPTS = ("json_file", "quiet", "verbose")
"""Options that every command takes."""


def is_bundle(path: Path) -> bool:
    """Whether a folder was written by ``ditto export``."""
    from ditto.wire.manifest import is_bundle

    return is_bundle(path)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_options(context: typer.Context, *taken: str) -> None:
    """Refuse options that were settled when the bundle was exported."""
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in ("model_dir", *taken)
        and _is_given(context, str(parameter.name))
    ]
    if given:
        raise SetupError(
            f"{', '.join(given)} cannot be chosen for a bundle: that was settled when "
            f"it was exported. Leave it out, or export the model with it."
        )


@contextmanager
def open_client(
    bundle: Path, policy: "OnOutOfRange", shown: "Stages"
) -> "Iterator[Client]":
    """A client of three local parties, each with its own folder of the bundle."""
    from ditto.client.asking import Client
    from ditto.client.bundle import read_client_bundle
    from ditto.party import LocalDeployment, load_local_bundle
    from ditto.runtime import ProcessTrio

    read = read_client_bundle(bundle / "client")
    shown.stage("starting three parties")
    with ProcessTrio(timeout=600.0) as trio:
        shown.stage("the parties load their shares")
        load_local_bundle(trio, bundle)

        def on_progress(rank: int, progress: dict[str, int | str]) -> None:
            if rank == 0:
                step, steps = int(progress["step"]), int(progress["steps"])
                shown.part(str(progress["scope"]), step, steps)

        yield Client(read, LocalDeployment(trio), on_progress, policy)


def ask_bundle(
    bundle: Path,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    policy: "OnOutOfRange",
    asked: Mapping[str, Any],
    report: Report,
    shown: "Stages",
) -> None:
    """Report the private answers of a bundle."""
    put_warnings_in_words()
    with open_client(bundle, policy, shown) as client:
        predictions = client.predict(texts, text_pairs, **asked)
    report_answers(report, texts, text_pairs, predictions)


def report_answers(
    report: Report,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    predictions: "Sequence[Prediction]",
) -> None:
    """Report private answers that no float answer stands beside."""
    seconds: Sequence[str | None] = text_pairs or [None] * len(texts)
    each = list(zip(predictions, texts, seconds, strict=True))
    rows = [
        [shown_text(text, second), shown_answer(answer)]
        for answer, text, second in each
    ]
    report.print(table("Answers", ["text", "private answer"], [], rows))
    report.write({"answers": [answer_as_json(*one) for one in each]})
    left = [k for k, p in enumerate(predictions, 1) if p.in_range is False]
    for k in left:
        report.print(doubt_line(f"the answer to text {k}", LEFT))
    if left:
        raise typer.Exit(ExitCode.DOUBTFUL)


def continue_bundle(
    bundle: Path,
    prompt: str,
    tokens: int,
    sampling: "Sampling",
    policy: "OnOutOfRange",
    report: Report,
    shown: "Stages",
) -> None:
    """Report the text that follows a prompt, as it comes."""
    put_warnings_in_words()
    with open_client(bundle, policy, shown) as client:
        report_text(report, prompt, client.stream(prompt, tokens, sampling))


def report_text(report: Report, prompt: str, stream: "Iterator[Generated]") -> None:
    """Report tokens as they come."""
    text, left = "", []
    report.stream(prompt)
    for k, generated in enumerate(stream, 1):
        text += generated.text
        report.stream(generated.text)
        if generated.in_range is False:
            left.append(k)
    report.stream("\n")
    report.write({"prompt": prompt, "text": text, "in_range": not left})
    for k in left:
        report.print(doubt_line(f"token {k}", LEFT))
    if left:
        raise typer.Exit(ExitCode.DOUBTFUL)
