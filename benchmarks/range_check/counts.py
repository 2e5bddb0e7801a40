"""What was found, row by row, counted and as tables."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.ordinary_texts.tables import Table
from benchmarks.range_check.inputs import Case
from benchmarks.range_check.subject import Asked, Outcome

_FIGURES = ("inputs", "flagged", "missed", "false", "asked", "same", "retried")
"""Of a category: inputs; flagged; wrong and not flagged; flagged and inside all ranges;
asked of the parties too; with the simulator's verdict; right when asked again."""


@dataclass(frozen=True)
class Row:
    """One case of one model. No text is kept."""

    model: str
    category: str
    number: int
    ordinary: bool
    tokens: int
    length: int
    pair: bool
    flagged: bool
    inside: bool
    difference: float | None
    """None if the answer is no number."""
    wrong: bool
    bits: float | None
    """Left at the tightest place; None if it ran against a pole."""
    place: str
    parties_flagged: bool | None = None
    """By three parties, if they were asked."""
    parties_wrong: bool | None = None
    """Whether what they answered at once was wrong, if they did."""
    retried_right: bool | None = None
    """Whether a second run with wide ranges gave the right answer."""

    @classmethod
    def of(cls, model: str, case: Case, outcome: Outcome) -> "Row":
        """Of what the simulator says."""
        return cls(
            model, case.category, case.number, case.ordinary, len(case.row.ids),
            case.length, case.pair, outcome.flagged, outcome.inside,
            _finite(outcome.difference), outcome.wrong, _finite(outcome.tightest.bits),
            f"{outcome.tightest.scope} {outcome.tightest.kind}",
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, str, int]:
        """The same for the same case in every run."""
        return self.model, self.category, self.number

    @property
    def wrong_unflagged(self) -> bool:
        """Whether an answer was wrong, and nobody could notice."""
        return bool(self.parties_wrong) or (self.wrong and not self.flagged)

    @property
    def alarm(self) -> bool:
        """Whether it was flagged, by the simulator or by the parties."""
        return self.flagged or bool(self.parties_flagged)

    @property
    def false_alarm(self) -> bool:
        """Whether it was flagged though no value left its range."""
        return self.alarm and self.inside

    def asked(self, answer: Asked) -> "Row":
        """With what the parties said."""
        return replace(
            self,
            parties_flagged=answer.flagged,
            parties_wrong=None if answer.flagged else not answer.right,
            retried_right=answer.right if answer.flagged else None,
        )


def _finite(x: float) -> float | None:
    return round(x, 6) if math.isfinite(x) else None


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """The figures that matter."""
    all_rows = list(rows)
    inputs = [row for row in all_rows if not row.ordinary]
    ordinary = [row for row in all_rows if row.ordinary]
    asked = [row for row in all_rows if row.parties_flagged is not None]
    return {
        "inputs": len(inputs),
        "flagged": sum(row.alarm for row in inputs),
        "wrong_unflagged": sum(row.wrong_unflagged for row in all_rows),
        "false_alarms": sum(row.false_alarm for row in all_rows),
        "retried_right": sum(row.retried_right is True for row in inputs),
        "ordinary": len(ordinary),
        "ordinary_flagged": sum(row.alarm for row in ordinary),
        "ordinary_retried_right": sum(row.retried_right is True for row in ordinary),
        "mpc_checked": len(asked),
        "mpc_same_verdict": sum(row.flagged == row.parties_flagged for row in asked),
    }


def by_category(model: str, rows: Iterable[Row]) -> Table:
    """One line for each category of a model."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.model == model:
            groups.setdefault(row.category, []).append(row)
    total = [row for group in groups.values() for row in group]
    lines = [[name, *_figures(group)] for name, group in groups.items()]
    return Table(
        f"{model}: inputs, and what was said of their answers",
        ["category"],
        list(_FIGURES),
        [*lines, ["all", *_figures(total)]],
    )


def overall(rows: Iterable[Row]) -> Table:
    """The figures that matter, of all models together."""
    lines = [[name.replace("_", " "), str(n)] for name, n in counts(rows).items()]
    return Table("Together", ["what"], ["cases"], lines)


def _figures(rows: Sequence[Row]) -> list[str]:
    return [str(figure) for figure in _numbers(rows)]


def _numbers(rows: Sequence[Row]) -> list[int]:
    """In the order of ``_FIGURES``."""
    asked = [row for row in rows if row.parties_flagged is not None]
    return [
        len(rows),
        sum(row.alarm for row in rows),
        sum(row.wrong_unflagged for row in rows),
        sum(row.false_alarm for row in rows),
        len(asked),
        sum(row.flagged == row.parties_flagged for row in asked),
        sum(row.retried_right is True for row in rows),
    ]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, one on each line."""
    return [Row(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def append_row(path: Path, row: Row) -> None:
    """Add a row to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def write_results(path: Path, head: dict[str, object], rows: Sequence[Row]) -> None:
    """The figures of all models, of each, and of each category."""
    models = sorted({row.model for row in rows})
    figures = {
        **head,
        **counts(rows),
        "models": {model: _of_model(model, rows) for model in models},
    }
    path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def _of_model(model: str, rows: Sequence[Row]) -> dict[str, object]:
    mine = [row for row in rows if row.model == model]
    groups: dict[str, list[Row]] = {}
    for row in mine:
        groups.setdefault(row.category, []).append(row)
    categories = {
        name: dict(zip(_FIGURES, _numbers(group), strict=True))
        for name, group in groups.items()
    }
    return {**counts(mine), "categories": categories}
