"""What ``ditto eval`` shows of a classifier: a row for each profile and mode."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from ditto.cli.report import Report
from ditto.cli.show import headroom_line, table

if TYPE_CHECKING:
    from ditto.evaluation.comparison import Comparison, Row
    from ditto.files import Json


def show_comparison(found: "Comparison", report: Report) -> None:
    """The table, and the tightest place of every profile."""
    names = list(found.rows[0].scores) if found.rows else []
    headings = [*names, "texts", "as float", "as sim.", "gap"]
    headings += ["bits", "s", "MB", "rounds"]
    rows = [_cells(row, names) for row in found.rows]
    kept = [k for k in range(len(headings)) if any(r[1 + k] != "-" for r in rows)]
    shown = [[row[0], *(row[1 + k] for k in kept)] for row in rows]
    title = f"{found.task}: scores with 95 % intervals; s, MB and rounds per text"
    report.print(table(title, ["who"], [headings[k] for k in kept], shown))
    for profile, headroom in found.headroom.items():
        report.print(f"{profile}:")
        report.print(headroom_line(headroom))


def _cells(row: "Row", names: list[str]) -> list[str]:
    scores = [
        "{:.3f} ({:.2f}-{:.2f})".format(row.scores[n], *row.intervals[n]) for n in names
    ]
    megabytes = None if row.bytes is None else row.bytes / 1e6
    return [
        f"{row.profile} {row.mode}".strip(),
        *scores,
        str(row.count),
        _cell(row.as_in_float, ".1%"),
        _cell(row.as_in_simulator, ".1%"),
        _cell(row.largest_difference, ".4f"),
        _cell(row.headroom_bits, ".2f"),
        _cell(row.seconds, ".3f"),
        _cell(megabytes, ".1f"),
        _cell(row.rounds, ".0f"),
    ]


def _cell(figure: float | None, form: str) -> str:
    return "-" if figure is None else format(figure, form)


def comparison_json(found: "Comparison", mode: str, profile: str) -> "Json":
    """All of it; scores, count and headroom beside the rows are the last row's."""
    last = found.rows[-1]
    headroom = found.headroom.get(last.profile, {})
    return {
        "task": found.task,
        "mode": mode,
        "profile": profile,
        "count": last.count,
        "scores": last.scores,
        "headroom_bits": {part: round(h.bits, 3) for part, h in headroom.items()},
        "overflows": found.overflows,
        "doubts": found.doubts,
        "cut": found.cut,
        "rows": [asdict(row) for row in found.rows],
    }
