"""What a command is doing, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Stages(Protocol):
    """Follows a model through its preparation and its layers."""

    def stage(self, what: str) -> None:
        """Something is being prepared."""

    def count(self, what: str, done: int, total: int) -> None:
        """So many of something are done."""

    def part(self, part: str, step: int, steps: int) -> None:
        """The parties are at a part of the model."""


@contextmanager
def stages(*, quiet: bool = False, verbose: bool = False) -> Iterator[Stages]:
    """A bar on a terminal, gone when the work is done; a line for every stage if
    ``verbose``; nothing if ``quiet``."""
    if verbose:
        lines = _Lines()
        yield lines
        lines.end()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    terminal = Console(stderr=True)
    quiet = quiet or not terminal.is_terminal
    with Progress(*columns, console=terminal, transient=True, disable=quiet) as bar:
        yield _Bar(bar)


class _Bar(Stages):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("loading", total=None)

    def stage(self, what: str) -> None:
        self._bar.update(self._task, description=what, total=None)

    def count(self, what: str, done: int, total: int) -> None:
        self._bar.update(
            self._task, description=f"{what} {done}/{total}", completed=done,
            total=total,
        )  # fmt: skip

    def part(self, part: str, step: int, steps: int) -> None:
        self._bar.update(
            self._task, description=f"three parties: {part}", completed=step,
            total=steps,
        )  # fmt: skip


class _Lines(Stages):
    """A line when a stage ends, with the seconds that it took."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what, self._since = "loading", clock()

    def stage(self, what: str) -> None:
        if what != self._what:
            self.end()
            self._what, self._since = what, self._clock()

    def count(self, what: str, done: int, total: int) -> None:
        del done
        self.stage(f"{what}, {total} in all")

    def part(self, part: str, step: int, steps: int) -> None:
        del step, steps
        self.stage(f"three parties: {part}")

    def end(self) -> None:
        """Say how long the last stage took."""
        print(  # noqa: T201
            f"{self._clock() - self._since:8.2f} s  {self._what}", file=sys.stderr
        )
