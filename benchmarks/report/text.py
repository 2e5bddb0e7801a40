"""How a report writes numbers, tables and the notes below them."""

from collections.abc import Iterable, Sequence
from math import floor, log10

from benchmarks.report.results import Cost, Row, place_name

NONE = "-"
DAGGER, BORROWED = "†", "‡"


# Writing numbers.


def size(count: float) -> str:
    """MB with one decimal, or GB with two."""
    if count < 999.95e6:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e9:.2f} GB"


def significant(value: float) -> str:
    """Three significant digits, never an exponent."""
    if value <= 0:
        return "0"
    rounded = float(f"{value:.2e}")
    return f"{rounded:.{max(0, 2 - floor(log10(rounded)))}f}"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else NONE


def span(values: Iterable[float], unit: float) -> str:
    ends = [significant(value / unit) for value in sorted(values)]
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"


def times(ratio: float | None, mark: str = "") -> str:
    return NONE if ratio is None else f"{ratio:.2f}x{mark}"


def ratios_to(row: Row, base: Row | None, part: str | None = None) -> list[str]:
    """How many times less it sends than the base, how many times faster it is."""
    if base is None:
        return [NONE, NONE]
    cost: Cost | None = getattr(row, part) if part else row
    against: Cost | None = getattr(base, part) if part else base
    if cost is None or against is None:
        return [NONE, NONE]
    mark = DAGGER if row.scaled or base.scaled else ""
    return [
        times(against.bytes / cost.bytes, mark),
        times(against.seconds / cost.seconds, mark),
    ]


def cost_cells(cost: Cost) -> list[str]:
    return [size(cost.bytes), f"{cost.rounds}", significant(cost.seconds)]


# Writing Markdown.


def escaped(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;")


def markdown_table(
    texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[str]:
    """Texts to the left, numbers to the right."""
    rule = ["---"] * len(texts) + ["---:"] * len(numbers)
    lines = [[*texts, *numbers], rule, *rows]
    return [f"| {' | '.join(escaped(cell) for cell in line)} |" for line in lines] + [
        ""
    ]


def profile_cells(row: Row) -> list[str]:
    return [f"{row.profile} {DAGGER}" if row.scaled else row.profile, row.gelu]


def where_cells(row: Row, named: bool) -> list[str]:
    return [row.called, row.tokens, place_name(row, named), *profile_cells(row)]


WHERE = ("model", "tokens", "network", "profile", "GeLU")


def notes(rows: Iterable[Row], *, borrowed: str | None = None) -> list[str]:
    """What the marks of a table mean; ``borrowed`` is a network the paper has not."""
    kinds = sorted({(r.measured_layers, r.layers) for r in rows if r.scaled})
    counts = ", ".join(f"{measured} of {every}" for measured, every in kinds)
    lines = (
        [f"{DAGGER} Measured on {counts} layers and scaled to all."] if kinds else []
    )
    if borrowed is not None:
        name = escaped(borrowed)
        lines += [f"{BORROWED} In the paper's LAN: it has no network {name}."]
    return [line for note in lines for line in (note, "")]
