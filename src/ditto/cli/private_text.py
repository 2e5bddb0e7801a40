"""A private text comes from a file, from standard input or from a prompt, so that it
need not stand on the command line, where the shell keeps it and every user sees it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ditto.errors import SetupError
from ditto.files import read_limited

LIMIT = 16 << 20
"""Bytes of a file of texts."""
STANDARD_INPUT = "-"

TextFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="Ask about every line of this file; two texts with a tab between them are "
        "a pair. `-`: lines of standard input.",
    ),
]


def read_texts(
    texts: Sequence[str] | None, file: Path | None, pairs: Sequence[str] | None
) -> tuple[list[str], list[str] | None]:
    """The texts of the options, and their second texts if there are any.

    ``-`` is all of standard input. Without an option, standard input is read, and a
    person who sits there is asked.
    """
    if file is not None:
        if texts or pairs:
            raise SetupError("Give --file, or --text and --pair, not both.")
        return _split(_lines(file))
    if texts:
        return [_one(text) for text in texts], list(pairs) if pairs else None
    if pairs:
        raise SetupError("--pair is the second text of a --text, and there is none.")
    return [_one(STANDARD_INPUT)], None


def read_prompt(prompt: str | None) -> str:
    """The text of ``--prompt``, of standard input if it is ``-`` or left out."""
    return _one(STANDARD_INPUT if prompt is None else prompt)


def _one(text: str) -> str:
    if text != STANDARD_INPUT:
        return text
    if sys.stdin is None or sys.stdin.closed:
        raise SetupError("There is no text: give --text, --file or standard input.")
    if sys.stdin.isatty():
        return str(typer.prompt("text (nobody else sees it)", err=True))
    text = sys.stdin.read(LIMIT + 1)
    if len(text) > LIMIT:
        raise SetupError(f"Standard input has more than {LIMIT >> 20} MiB.")
    return text.rstrip("\n")


def _lines(file: Path) -> list[str]:
    content = _one(STANDARD_INPUT) if str(file) == STANDARD_INPUT else _read(file)
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise SetupError(f"{file} has no text.")
    return lines


def _read(file: Path) -> str:
    try:
        return read_limited(file, LIMIT, SetupError, f"{LIMIT >> 20} MiB").decode()
    except UnicodeDecodeError:
        raise SetupError(f"{file} is not a text in UTF-8.") from None


def _split(lines: list[str]) -> tuple[list[str], list[str] | None]:
    """Texts, or pairs of texts if all lines are pairs."""
    parts = [line.split("\t") for line in lines]
    counts = {len(part) for part in parts}
    if counts == {1}:
        return lines, None
    if counts == {2}:
        return [part[0] for part in parts], [part[1] for part in parts]
    raise SetupError(
        "Every line is one text, or two with one tab between them; lines with "
        f"{', '.join(str(n) for n in sorted(counts))} parts were found."
    )
