"""What is learnt from: labelled texts of a file with columns, or plain text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ditto.errors import SetupError
from ditto.evaluation.columns import column_names, read_columns, read_text
from ditto.evaluation.tasks import PAIR_COLUMNS, TASKS, TEXT_COLUMNS, Task
from ditto.training.settings import TrainingSettings

MAX_LABELS = 1000
"""A column with more different values holds no names of classes."""


@dataclass(frozen=True)
class LabelledText:
    """A text or a pair of texts, and its label as the file says it."""

    text: str
    pair: str | None
    label: str


@dataclass(frozen=True)
class Columns:
    """Where a file has what."""

    text: str
    pair: str | None
    label: str

    @property
    def names(self) -> list[str]:
        """Those that are read, in order."""
        return [name for name in (self.text, self.pair, self.label) if name is not None]


def find_task(settings: TrainingSettings) -> Task | None:
    """The task that is named, if one is."""
    if settings.task_name is None:
        return None
    if settings.task_name not in TASKS:
        raise SetupError(
            f"There is no task {settings.task_name!r}; there are: {', '.join(TASKS)}. "
            "For files of your own leave task_name out and name the columns."
        )
    return TASKS[settings.task_name]


def find_columns(settings: TrainingSettings, file: Path) -> Columns:
    """The columns of a file: as they are named, as the task has them, or as they are
    usually called."""
    task = find_task(settings)
    text, pair = settings.text_column, settings.text_pair_column
    if text is None and task is not None:
        text, pair = task.text, pair or task.pair
    if text is None:
        present = column_names(file)
        for names in PAIR_COLUMNS:
            if set(names) <= set(present):
                text, pair = names[0], pair or names[1]
                break
        else:
            text = next((name for name in TEXT_COLUMNS if name in present), None)
    if text is None:
        raise SetupError(
            f"{file}: which column has the texts? Name it with text_column; the "
            f"columns are: {', '.join(column_names(file))}."
        )
    return Columns(text, pair, settings.label_column)


def read_labelled(
    file: Path, columns: Columns, limit: int | None = None
) -> list[LabelledText]:
    """The first ``limit`` examples of a file."""
    rows = islice(read_columns(file, columns.names), limit)
    examples = [
        LabelledText(fields[0], fields[1] if columns.pair else None, fields[-1])
        for _, fields in rows
    ]
    if not examples:
        raise SetupError(f"{file} holds no example after its header.")
    return examples


def label_names(examples: Sequence[LabelledText]) -> tuple[str, ...]:
    """The labels of examples: whole numbers by size, others by the alphabet."""
    names = {example.label for example in examples}
    if len(names) > MAX_LABELS:
        raise SetupError(
            f"The label column has {len(names)} different values; a classifier has at "
            f"most {MAX_LABELS}. Is it the right column?"
        )
    if len(names) < 2:
        raise SetupError(
            f"The label column has no value but {names.pop()!r}: there is nothing to "
            "learn."
        )
    if all(name.removeprefix("-").isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def label_ids(
    examples: Sequence[LabelledText], labels: Sequence[str], file: Path
) -> list[int]:
    """The place of each example's label among the names."""
    places = {name: place for place, name in enumerate(labels)}
    for example in examples:
        if example.label not in places:
            known = ", ".join(labels[:10])
            raise SetupError(
                f"{file} has a label {example.label!r}, which is none of: {known}."
            )
    return [places[example.label] for example in examples]


def read_plain_text(file: Path) -> str:
    """The text that a language model learns from."""
    text = read_text(file)
    if not text.strip():
        raise SetupError(f"{file} holds no text.")
    return text
