"""What commands share: tables, progress, options that mean the same everywhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ditto.compiler import Profile
    from ditto.compiler.local import Run
    from ditto.compiler.simulator import Headroom
    from ditto.inference.samples import Text as Sample

ModelFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_DIR",
        help="A Hugging Face folder: config.json, safetensors, tokenizer files.",
    ),
]
ProfileName = Annotated[
    str, typer.Option("--profile", help="How to compute: ditto, puma, spu or paper.")
]
Gelu = Annotated[
    str | None,
    typer.Option(
        help="quad, for models distilled with it, or accurate (the default of ditto)."
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        help="Texts like those that will be asked, one a line, or a TSV with a column "
        "'sentence', or with pairs: 'sentence1' and 'sentence2'. Without it, everyday "
        "texts of many kinds.",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="How many times further than on the calibration any value may go: 2 "
        "unless told. More is safer and less exact.",
        min=1,
        max=64,
    ),
]
DOUBTFUL = 3
"""The exit code of a command whose answers are not to be trusted."""


def chosen_profile(
    name: str, gelu: str | None, margin: float | None = None
) -> "Profile":
    """The profile of the options."""
    from ditto.compiler.profile import find_profile

    given = {"gelu": gelu, "margin": margin}
    changes = {field: value for field, value in given.items() if value is not None}
    profile = find_profile(name)
    return profile.replace(**changes) if changes else profile


def calibration_texts(path: Path | None) -> "list[Sample] | None":
    """The texts of the option, if it is given."""
    from ditto.evaluation import read_texts

    return None if path is None else read_texts(path, 64)


def doubt_line(what: str, doubt: str) -> Text:
    """What is said of an answer that is not to be trusted."""
    return Text.assemble(("not to be trusted", "red"), f": {what}: {doubt}.")


def console() -> Console:
    """Where results go; a file or a pipe has no edge to wrap at."""
    found = Console()
    if not found.is_terminal:
        found.width = 120
    return found


def table(
    title: str, texts: Sequence[str], numbers: Sequence[str], rows: Sequence[Any]
) -> Table:
    """Texts to the left, numbers to the right."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    made.min_width = len(title)
    for heading in texts:
        made.add_column(heading, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))  # no cell is markup
    return made


class Stages:
    """A bar that follows a model through its preparation and its layers."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("loading", total=None)

    def stage(self, what: str) -> None:
        """Something is being prepared."""
        self._bar.update(self._task, description=what, total=None)

    def count(self, what: str, done: int, total: int) -> None:
        """So many of something are done."""
        self._bar.update(
            self._task,
            description=f"{what} {done}/{total}",
            completed=done,
            total=total,
        )

    def part(self, part: str, step: int, steps: int) -> None:
        """The parties are at a part of the model."""
        self._bar.update(
            self._task,
            description=f"three parties: {part}",
            completed=step,
            total=steps,
        )


@contextmanager
def stages() -> Iterator[Stages]:
    """A progress bar on standard error, gone when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Stages(bar)


def cost_table(runs: "Sequence[Run]", title: str) -> Table:
    """Bytes, rounds and seconds of every part of a model."""
    from ditto.party.holdings import part_of

    found: dict[str, list[float]] = {}
    for run in runs:
        for step in run.steps:
            sums = found.setdefault(part_of(step.scope) or "(rest)", [0.0, 0.0, 0.0])
            for k, value in enumerate((step.bytes, step.rounds, step.seconds)):
                sums[k] += value
    rows = [
        [part, f"{sent / 1e6:.2f}", f"{rounds:.0f}", f"{seconds:.2f}"]
        for part, (sent, rounds, seconds) in found.items()
        if sent
    ]
    total = [sum(run.bytes for run in runs) / 1e6, sum(run.rounds for run in runs)]
    made = table(title, ["part"], ["MB", "rounds", "seconds"], rows)
    made.add_section()
    seconds = sum(run.seconds for run in runs)
    made.add_row("all", f"{total[0]:.2f}", f"{total[1]:.0f}", f"{seconds:.2f}")
    return made


def headroom_line(headroom: "dict[str, Headroom]") -> str:
    """The tightest place, in a sentence."""
    if not headroom:
        return "headroom: not measured"
    tightest = min(headroom.values(), key=lambda h: h.bits)
    return f"headroom: {tightest.bits:.2f} bits at the tightest place: {tightest}"
