"""``ditto demo``: what private inference is, in a minute and without a download."""

import time
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.early import early_parties
from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.report import JsonFile, Quiet, Report
from ditto.cli.show import chosen_cache, table
from ditto.cli.words import answer_as_json, shown_text

if TYPE_CHECKING:
    from rich.table import Table

    from ditto.api import Answer
    from ditto.fixedpoint import Array

TEXTS = (
    "A warm, funny film that I would gladly see again.",
    "Two hours of my life that I will never get back.",
    "The acting is fine, but the story is dull and far too long.",
)
_BARS = "▁▂▃▄▅▆▇█"
_KEYS = "keys"
"""How names of arrays begin that hold the keys of a text."""
_BLOCK = 16
"""Bytes; see ``sharing/points.py`` for the form of a key."""
_SHOWN = 8
"""Bytes that are shown of what a party got."""
_BINS = 16


def demo(
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A sentence of your own; may be repeated."),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """See a private answer: no download, no arguments, under a minute.

    A small classifier that comes with Ditto says whether a sentence on a film is
    positive or negative. Three parties, each a process of this machine over TLS links,
    compute it on secret shares; beside their answer stands the float model's, and below
    what each party got to see of the text.
    """
    report, texts = Report(json_file), list(text or TEXTS)
    started = time.monotonic()
    cache = chosen_cache(no_cache=False)
    with as_file(files("ditto") / "demo_model") as folder:
        launched = early_parties(folder, cache, no_serve=True)
        from ditto.api import from_pretrained
        from ditto.api.backends import PartiesBackend

        with stages(quiet=quiet) as shown:
            model = from_pretrained(
                folder,
                on_stage=shown.stage,
                on_part=shown.part,
                trio=launched,
                cache=cache,
            )
            tokens = [model.tokenizer.encode(each).ids for each in texts]
            longest = min(max(map(len, tokens)), model.max_tokens)
            with model:  # all of one length: each is one more plan to make
                answers = model.predict(texts, pad_to=model.bucket(longest))
                exact = model.with_mode("float").predict(texts)
                backend = model.backend
    assert isinstance(backend, PartiesBackend)  # noqa: S101, mode mpc has no other
    seconds = time.monotonic() - started
    report.print(_answers(texts, answers, exact))
    report.print(_views(tokens[-1], backend.dealt))
    run = backend.runs[-1]
    report.print(
        "Any two of the parties together could read the text, none alone can: to "
        "each of them any other text of that length would look the same.\n"
        f"An answer took the parties {run.seconds:.2f} s, {run.rounds} rounds and "
        f"{run.bytes / 1e6:.2f} MB between them; all of this {seconds:.0f} s.\n"
        "Next: `ditto run MODEL_DIR --text ...` asks a model of your own."
    )
    report.write(
        {
            "answers": [
                answer_as_json(answer, each, None)
                | {"float": dict(plain.probabilities or {})}
                for each, answer, plain in zip(texts, answers, exact, strict=True)
            ],
            "bytes": run.bytes,
            "rounds": run.rounds,
            "seconds": run.seconds,
            "all_seconds": seconds,
        }
    )
    if any(answer.doubt or answer.in_range is False for answer in answers):
        raise typer.Exit(ExitCode.DOUBTFUL)


def _answers(
    texts: Sequence[str], answers: "Sequence[Answer]", exact: "Sequence[Answer]"
) -> "Table":
    rows = [
        [shown_text(each), _likeliest(answer), _likeliest(plain)]
        for each, answer, plain in zip(texts, answers, exact, strict=True)
    ]
    headings = ["text", "private answer", "float answer"]
    return table("What only the client learns", headings, [], rows)


def _likeliest(answer: "Answer") -> str:
    """The likeliest label; they come in this order."""
    every = (answer.probabilities or {}).items()
    return next(f"{label} {probability:.1%}" for label, probability in every)


def _views(tokens: Sequence[int], dealt: "Sequence[Mapping[str, Array]]") -> "Table":
    """The first bytes that each party got, and a histogram of all: it is flat."""
    from ditto.runtime import NAMES

    rows = [["the text itself", *_bytes_of(_as_bytes(tokens))]]
    for party, arrays in zip(NAMES, dealt, strict=True):
        keys = [a for name, a in arrays.items() if name.startswith(_KEYS)]
        rows.append([f"party {party}", *_bytes_of(b"".join(map(_drawn, keys)))])
    headings = ["of the last text", "begins with", "how often 00 to ff"]
    return table("What each party got to see", headings, ["bytes"], rows)


def _drawn(keys: "Array") -> bytes:
    """Keys without the salt, which is public, and control bits, of which a byte has
    two: what is left are blocks that look uniform to who has one side's alone."""
    size = keys.shape[-1]
    levels = (size - 3 * _BLOCK) // (_BLOCK + 1)
    return keys[..., _BLOCK : size - levels].tobytes()


def _as_bytes(tokens: Sequence[int]) -> bytes:
    return b"".join(token.to_bytes(4, "little") for token in tokens)


def _bytes_of(content: bytes) -> tuple[str, str, str]:
    """The first, a picture of all, and how many there are."""
    counts = [0] * _BINS
    for byte in content:
        counts[byte * _BINS // 256] += 1
    most = max(counts)
    bars = "".join(_BARS[min(7, 8 * count // most)] for count in counts)
    return content[:_SHOWN].hex(" "), bars, f"{len(content):,}"
