"""How far a training run is: a bar on a terminal, lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from ditto.training.progress import Progress as Where

WIDEST = 80


class Watch(Protocol):
    """Follows a run."""

    def stage(self, what: str) -> None:
        """Something is being done beside training."""

    def count(self, what: str, done: int, total: int) -> None:
        """So many examples are measured."""

    def progress(self, where: "Where") -> None:
        """A step is done, noted or evaluated."""


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watch]:
    """A bar that is gone when the run is done; where there is no terminal a line for
    each line of the log; nothing if ``quiet``."""
    terminal = Console(stderr=True)
    if quiet:
        yield _Silent()
    elif not terminal.is_terminal:
        terminal.width = WIDEST
        yield _Lines(terminal)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=terminal, transient=True) as bar:
            yield _Bar(bar, terminal)


class _Silent(Watch):
    def stage(self, what: str) -> None:
        pass

    def count(self, what: str, done: int, total: int) -> None:
        pass

    def progress(self, where: "Where") -> None:
        pass


class _Lines(Watch):
    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal

    def stage(self, what: str) -> None:
        self._terminal.print(what, markup=False, highlight=False)

    def count(self, what: str, done: int, total: int) -> None:
        if done == 0:
            self.stage(f"measuring {total} examples: {what}")

    def progress(self, where: "Where") -> None:
        if where.is_logged or where.scores:
            line = evaluated_line(where) if where.scores else step_line(where)
            self._terminal.print(line, markup=False, highlight=False, soft_wrap=True)


class _Bar(_Lines):
    """The bar, and a line above it for each evaluation."""

    def __init__(self, bar: Progress, terminal: Console) -> None:
        super().__init__(terminal)
        self._bar = bar
        self._task = bar.add_task("loading", total=None)

    def stage(self, what: str) -> None:
        self._bar.update(self._task, description=what, total=None)

    def count(self, what: str, done: int, total: int) -> None:
        text = f"{what}: example {done + 1}/{total}"
        self._bar.update(self._task, description=text, completed=done, total=total)

    def progress(self, where: "Where") -> None:
        if where.scores:
            super().progress(where)
        text = f"{where.step}/{where.total_steps} loss {where.loss:.3f}"
        self._bar.update(
            self._task,
            description=text,
            completed=where.step,
            total=where.total_steps,
        )


def step_line(where: "Where") -> str:
    """The figures of the log."""
    return (
        f"step {where.step}/{where.total_steps}  epoch {where.epoch:.2f}  "
        f"loss {where.loss:.4f}  rate {where.learning_rate:.2e}  "
        f"{where.seconds_per_step:.2f} s a step"
    )


def evaluated_line(where: "Where") -> str:
    """The scores of an evaluation."""
    figures = "  ".join(f"{name} {score:.4f}" for name, score in where.scores.items())
    best = "  best" if where.is_best else ""
    return f"eval {where.step}: {figures}{best}"
