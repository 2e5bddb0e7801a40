"""The rows as tables, on the screen and as Markdown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table as Shown

from benchmarks.ordinary_texts.measure import Continued, Measured, agreement
from ditto.cli.show import table


@dataclass(frozen=True)
class Table:
    """Texts to the left, numbers to the right."""

    title: str
    texts: Sequence[str]
    numbers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def shown(self) -> Shown:
        """For the screen."""
        return table(self.title, self.texts, self.numbers, self.rows)

    def markdown(self) -> str:
        """For a file."""
        rule = ["---"] * len(self.texts) + ["---:"] * len(self.numbers)
        lines = ([*self.texts, *self.numbers], rule, *self.rows)
        body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"**{self.title}**\n\n{body}\n"


def likeness(rows: Sequence[Measured], title: str, *, by_length: bool) -> Table:
    """By kind of text or by length: what was reported, and how alike embeddings are."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        key = f"{row.length} tokens" if by_length else row.kind
        groups.setdefault(key, []).append(row)
    lines = [[name, *_figures(group)] for name, group in groups.items()]
    return Table(
        title,
        ["length" if by_length else "kind"],
        ["texts", "reported", "least, simulator", "asked", "least, parties", "wrong"],
        [*lines, ["all", *_figures(rows)]],
    )


def _figures(rows: Sequence[Measured]) -> list[str]:
    asked = [row.cosine for row in rows if row.cosine is not None]
    simulated = [row.simulated for row in rows if row.simulated is not None]
    return [
        str(len(rows)),
        str(sum(row.report is not None for row in rows)),
        f"{min(simulated):.4f}" if simulated else "",
        str(len(asked)),
        f"{min(asked):.4f}" if asked else "",
        str(sum(row.wrong for row in rows)),
    ]


def truth(rows: Sequence[Measured]) -> Table:
    """Report against truth."""
    lines = [[what, str(count)] for what, count in agreement(rows).items()]
    return Table("Report and truth", ["the parties were asked"], ["texts"], lines)


def continuations(rows: Sequence[Continued]) -> Table:
    """Prompts that go on as in float, and what was said of those that do not."""
    other = [row for row in rows if not row.same]
    counts = {
        "prompts": len(rows),
        "all tokens as float": len(rows) - len(other),
        "left a range in the simulator": sum(bool(r.report) for r in rows),
        "marked by the answer itself": sum(r.doubts > 0 for r in rows),
        "left a range and were not marked": sum(
            bool(r.report) and not r.doubts for r in rows
        ),
    }
    title = "Greedy continuations"
    return Table(
        title, ["what"], ["prompts"], [[what, str(n)] for what, n in counts.items()]
    )


def write_rows(path: Path, head: dict[str, Any], rows: Sequence[Any]) -> None:
    """A results file: one row a line."""
    lines = ",\n".join(json.dumps(row.as_json(), ensure_ascii=False) for row in rows)
    start = json.dumps(head, ensure_ascii=False, indent=1).rstrip("\n}")
    path.write_text(f'{start},\n "rows": [\n{lines}\n]}}\n', "utf-8")
