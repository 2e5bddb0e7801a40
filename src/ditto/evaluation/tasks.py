"""GLUE tasks and sentences, from files.

Tab-separated, UTF-8, a header row, no quoting: a quotation mark is a character like any
other. Columns are found by name, so others may stand between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ditto.errors import SetupError
from ditto.files import read_limited

MAX_FILE = 64 << 20
_DEV = "dev.tsv"
_SENTENCE = ("sentence", "text")

_Line = tuple[int, str]


@dataclass(frozen=True)
class Task:
    """A task: the columns of its file, its labels in order, how it is scored."""

    text: str
    pair: str | None
    labels: tuple[str, ...]
    metric: str


@dataclass(frozen=True)
class Example:
    """A text or a pair of texts, and the right label."""

    text: str
    pair: str | None
    label: int


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")

TASKS: dict[str, Task] = {
    "cola": Task("sentence", None, _BINARY, "matthews"),
    "sst2": Task("sentence", None, _BINARY, "accuracy"),
    "mrpc": Task("sentence1", "sentence2", _BINARY, "accuracy_and_f1"),
    "rte": Task("sentence1", "sentence2", _ENTAILMENT, "accuracy"),
    "qnli": Task("question", "sentence", _ENTAILMENT, "accuracy"),
}
"""The tasks; a label is the place of its name in ``labels``, as in GLUE on the Hub."""
_PAIRS = (
    *dict.fromkeys((task.text, task.pair) for task in TASKS.values() if task.pair),
    ("text", "pair"),
)


def read_examples(
    task: str, path: str | Path, limit: int | None = None
) -> list[Example]:
    """The first ``limit`` examples of a file, or of ``dev.tsv`` in a folder."""
    if task not in TASKS:
        raise SetupError(f"No task {task!r}; there are: {', '.join(TASKS)}.")
    found, file = TASKS[task], Path(path)
    if file.is_dir():
        file = file / _DEV
    names = (found.text, *((found.pair,) if found.pair else ()), "label")
    rows = _fields(file, _lines(file), names)
    examples = []
    for number, (*texts, label) in islice(rows, _checked(limit)):
        if label not in found.labels:
            raise SetupError(
                f"{file}, line {number}, column label: {label!r} is none of "
                f"{', '.join(found.labels)}."
            )
        pair = texts[1] if found.pair else None
        examples.append(Example(texts[0], pair, found.labels.index(label)))
    if not examples:
        raise SetupError(f"{file} holds no example after its header.")
    return examples


def read_lines(
    path: str | Path, limit: int | None = None, *, words: int | None = None
) -> list[str]:
    """The first ``limit`` sentences of a file.

    A file ``*.tsv`` is read by its column ``sentence`` or ``text``; any other holds one
    sentence a line. Blank lines are skipped. With ``words`` only the beginnings of
    longer lines count, of so many words each.
    """
    file = Path(path)
    lines = _lines(file)
    texts: Iterable[str] = (line for _, line in lines)
    if file.suffix.lower() == ".tsv":
        columns = lines[0][1].split("\t")
        name = next((name for name in _SENTENCE if name in columns), _SENTENCE[0])
        texts = (text for _, (text,) in _fields(file, lines, (name,)))
    texts = (text for text in texts if text.strip())
    if words is not None:
        split = (text.split() for text in texts)
        texts = (" ".join(w[:words]) for w in split if len(w) > words)
    sentences = [*islice(texts, _checked(limit))]
    if not sentences:
        raise SetupError(f"{file} holds no sentence.")
    return sentences


def read_texts(
    path: str | Path, limit: int | None = None
) -> list[str | tuple[str, str]]:
    """The first ``limit`` texts of a file, or pairs of texts.

    As ``read_lines``; a file ``*.tsv`` with the two columns of a task on pairs, such as
    sentence1 and sentence2, holds pairs.
    """
    file = Path(path)
    if file.suffix.lower() == ".tsv":
        lines = _lines(file)
        columns = lines[0][1].split("\t")
        for names in _PAIRS:
            if set(names) <= set(columns):
                rows = islice(_fields(file, lines, names), _checked(limit))
                return [(one, other) for _, (one, other) in rows]
    return [*read_lines(file, limit)]


def _fields(
    file: Path, lines: Sequence[_Line], names: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """The number of each row's line, and its fields in the columns of these names."""
    (first, header), *rows = lines
    columns = header.split("\t")
    for name in names:
        if name not in columns:
            raise SetupError(
                f"{file}, line {first}: there is no column {name!r}; the columns "
                f"are: {', '.join(columns)}. A header must name them, between tabs."
            )
    places = [columns.index(name) for name in names]
    for number, row in rows:
        fields = row.split("\t")
        if len(fields) != len(columns):
            raise SetupError(
                f"{file}, line {number}: there are {len(fields)} columns; the header "
                f"has {len(columns)}: {', '.join(columns)}."
            )
        yield number, [fields[place] for place in places]


def _lines(file: Path) -> list[_Line]:
    """The lines that are not empty, with their numbers.

    Only a line feed ends a line: texts may hold the other separators of Unicode.
    """
    split = (line.removesuffix("\r") for line in _read(file).split("\n"))
    lines = [(number, line) for number, line in enumerate(split, 1) if line]
    if not lines:
        raise SetupError(f"{file} is empty.")
    return lines


def _read(file: Path) -> str:
    too_large = f"{MAX_FILE} bytes: give a file with fewer lines"
    content = read_limited(file, MAX_FILE, SetupError, too_large)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SetupError(f"{file}, line {line}: the text is not UTF-8.") from None


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise SetupError(f"A limit of {limit}: there must be 1 line at least.")
    return limit
