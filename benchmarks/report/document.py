"""The document: results beside the paper's, as Markdown and pictures.

A results file is what ``python -m benchmarks.inference --json`` writes: the machine,
the versions, the command, and one row for every run. A ratio is only ever formed
between two rows of one file and one network, since seconds of two machines do not
compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report.breakdown import breakdown, machines, others, spent
from benchmarks.report.comparison import ablation, headline, networks, varying
from benchmarks.report.results import Results, Row, in_order, read_all
from ditto.errors import SetupError

REPORT = "report.md"


@dataclass(frozen=True)
class Report:
    """Where the report is."""

    markdown: Path
    pictures: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files written."""
        return self.markdown, *self.pictures


def write_report(files: Sequence[Path], folder: Path) -> Report:
    """Read results and write ``report.md`` and its pictures; needs matplotlib."""
    from benchmarks.report import figures  # says so if matplotlib is missing

    results = read_all(files)
    unordered = [row for file in results.values() for row in file.rows]
    rows = in_order(unordered)
    explained = next((r for r in unordered if r.profile == "ditto" and r.parts), None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = figures.write_pictures(rows, folder, explained)
        text = markdown(results, rows, [path.name for path in pictures])
        (folder / REPORT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(f"{folder} cannot be written: {error.strerror}.") from None
    return Report(folder / REPORT, tuple(pictures))


def markdown(
    results: dict[str, Results], rows: Sequence[Row], pictures: Sequence[str]
) -> str:
    """The report's text; ``pictures`` are the names of those that were made."""

    def picture(name: str, caption: str) -> list[str]:
        return [f"![{caption}]({name})", ""] if name in pictures else []

    scatter = picture("scatter.png", "Bytes sent against seconds")
    lengths = picture("lengths.png", "Seconds and bytes by length")
    batches = picture("batches.png", "Seconds and bytes by batch")
    icicle = picture("breakdown.png", "Seconds by scope and kind of step")
    sections = [
        ("Where it was measured", machines(results, rows)),
        ("Every run", scatter + headline(rows)),
        ("Varying length", lengths + varying(rows, "seq")),
        ("Varying batch", batches + varying(rows, "batch")),
        ("Networks side by side", networks(rows)),
        ("Ablation", ablation(rows)),
        ("By ring and by function", icicle + breakdown(rows)),
        ("Where the time goes", spent(rows)),
        ("Memory, uploads and errors", others(rows)),
    ]
    lines = [
        "# Measured, and beside it the paper",
        "",
        "Bytes and rounds are of all parties together. Seconds are the median of "
        "the runs. A ratio is `puma` divided by the row: how many times less it sends, "
        "how many times faster it is. Ratios are formed within one file and one "
        "network only. GB are 10^9 bytes.",
        "",
    ]
    for title, content in sections:
        lines += [f"## {title}", "", *content] if content else []
    return "\n".join(lines).rstrip("\n") + "\n"
