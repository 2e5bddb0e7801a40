"""The learning curve of a run: lines of JSON, and if wanted TensorBoard's file."""

import json
from collections.abc import Mapping
from pathlib import Path

from ditto.files import Json
from ditto.training.event_file import EventFile

LOG = "trainer_log.jsonl"


class TrainingLog:
    """Appends to ``trainer_log.jsonl`` in a folder.

    Of a run that is resumed, lines after the step that it goes on from are dropped:
    they will be written again.
    """

    def __init__(self, folder: Path, step: int, *, tensorboard: bool = False) -> None:
        self._path = folder / LOG
        kept = [line for line in read_log(self._path) if line["step"] <= step]
        text = "".join(f"{json.dumps(line)}\n" for line in kept if step)
        self._path.write_text(text)
        self._events = EventFile(folder / "runs") if tensorboard else None

    def add(self, step: int, epoch: float, figures: Mapping[str, float]) -> None:
        """Note figures of a step."""
        line: Json = {"step": step, "epoch": round(epoch, 4), **figures}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if self._events is not None:
            self._events.add(step, figures)


def read_log(path: Path) -> list[Json]:
    """The lines of a log, those that were cut short left out."""
    lines: list[Json] = []
    for text in path.read_text().splitlines() if path.is_file() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines
