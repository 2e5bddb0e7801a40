"""GLUE tasks and sentences, from files.

Tab-separated with a header row, or lines of text; see ``columns``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ditto.errors import SetupError
from ditto.evaluation.columns import checked_limit, numbered_lines, tab_separated

_DEV = "dev.tsv"
TEXT_COLUMNS = ("sentence", "text")


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
PAIR_COLUMNS = (
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
    rows = tab_separated(file, numbered_lines(file), names)
    examples = []
    for number, (*texts, label) in islice(rows, checked_limit(limit)):
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
    lines = numbered_lines(file)
    texts: Iterable[str] = (line for _, line in lines)
    if file.suffix.lower() == ".tsv":
        columns = lines[0][1].split("\t")
        name = next((name for name in TEXT_COLUMNS if name in columns), TEXT_COLUMNS[0])
        texts = (text for _, (text,) in tab_separated(file, lines, (name,)))
    texts = (text for text in texts if text.strip())
    if words is not None:
        split = (text.split() for text in texts)
        texts = (" ".join(w[:words]) for w in split if len(w) > words)
    sentences = [*islice(texts, checked_limit(limit))]
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
        lines = numbered_lines(file)
        columns = lines[0][1].split("\t")
        for names in PAIR_COLUMNS:
            if set(names) <= set(columns):
                rows = islice(tab_separated(file, lines, names), checked_limit(limit))
                return [(one, other) for _, (one, other) in rows]
    return [*read_lines(file, limit)]
