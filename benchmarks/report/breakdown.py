"""The report's tables of our own runs: machines, costs by part, time, memory."""

from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.report import paper_values as paper
from benchmarks.report.results import (
    Part,
    Results,
    Row,
    grouped,
    place_name,
    scope_names,
    several_sources,
)
from benchmarks.report.text import (
    NONE,
    WHERE,
    escaped,
    markdown_table,
    notes,
    profile_cells,
    share,
    significant,
    size,
    span,
    where_cells,
)

RINGS = {
    "32": "our protocols, 32 bits",
    "64": "our protocols, 64 bits",
    "spu32": "SPU, 32 bits",
    "spu64": "SPU, 64 bits",
    "free": "nothing sent",
}
_SMALL = 0.005
"""The part of bytes and of seconds up to which a line is not worth a place."""


def machines(results: dict[str, Results], rows: Sequence[Row]) -> list[str]:
    machines = []
    for label, file in results.items():
        versions = ", ".join(f"{name} {v}" for name, v in file.versions.items())
        machines.append([label, file.cpu, versions, str(file.cores)])
    networks = []
    for same in grouped(rows, lambda r: (r.place, r.network.backend)).values():
        trips = [r.network.rtt for r in same if r.network.rtt is not None]
        rates = [r.network.bandwidth for r in same if r.network.bandwidth is not None]
        trip = f"{span(trips, 1e-3)} ms" if trips else NONE
        rate = f"{span(rates, 1e9)} Gbit/s" if rates else NONE
        backend = same[0].network.backend or NONE
        networks.append([*same[0].place, backend, trip, rate])
    commands = [
        f"    {' '.join(f'{file.command}  # {label}'.split())}"
        for label, file in results.items()
    ]
    measured = ["round trip", "bandwidth"]
    return [
        *markdown_table(["file", "CPU", "versions"], ["cores"], machines),
        "Networks as measured:",
        "",
        *markdown_table(["file", "network", "made by"], measured, networks),
        paper.SETUP,
        "",
        "Commands:",
        "",
        *commands,
        "",
    ]


def breakdown(rows: Sequence[Row]) -> list[str]:
    """Of every model and network, in the setting that was measured most."""
    lines = []
    named = several_sources(rows)
    ways: tuple[tuple[str, Callable[[Part], str]], ...] = (
        ("ring", lambda part: RINGS.get(part.ring, part.ring)),
        ("function", lambda part: part.what),
        ("scope", lambda part: scope_names(part.scope)[-1]),
    )
    measured = Counter(row.setting for row in rows)
    having = [row for row in rows if row.parts]
    for same in grouped(having, lambda r: (r.place, r.model)).values():
        settings = grouped(same, lambda r: r.setting)
        group = settings[max(settings, key=lambda setting: measured[setting])]
        first = group[0]
        where = f"{first.called}, {first.tokens} tokens, {place_name(first, named)}"
        lines += [f"### {escaped(where)}", ""]
        for heading, key in ways:
            cells = [line for row in group for line in _sums(row, key)]
            numbers = ["sent", "of all", "rounds", "seconds", "of all"]
            lines += markdown_table(["profile", "GeLU", heading], numbers, cells)
        lines += notes(group)
    return lines


def _sums(row: Row, key: Callable[[Part], str]) -> list[list[str]]:
    """Bytes, rounds and seconds by key, the slowest first, the small ones as one."""
    by_name = grouped(row.parts, key)
    all_sent = sum(part.bytes for part in row.parts)
    all_seconds = sum(part.seconds for part in row.parts)
    small = [
        name
        for name, parts in by_name.items()
        if sum(p.bytes for p in parts) <= _SMALL * all_sent
        and sum(p.seconds for p in parts) <= _SMALL * all_seconds
    ]
    if len(small) > 1:
        by_name["(others)"] = [part for name in small for part in by_name.pop(name)]
    cells = []
    for name, parts in sorted(
        by_name.items(), key=lambda i: -sum(p.seconds for p in i[1])
    ):
        sent, seconds = sum(p.bytes for p in parts), sum(p.seconds for p in parts)
        rounds = f"{sum(p.rounds for p in parts):.0f}"
        figures = [size(sent), share(sent, all_sent), rounds, significant(seconds)]
        cells.append([*profile_cells(row), name, *figures, share(seconds, all_seconds)])
    return cells


def spent(rows: Sequence[Row]) -> list[str]:
    having = [row for row in rows if row.spent]
    kinds = list(dict.fromkeys(kind for row in having for kind in row.spent))
    cells, named = [], several_sources(rows)
    for row in having:
        whole = sum(row.spent.values())
        seconds = [
            f"{significant(row.spent[kind])} ({share(row.spent[kind], whole)})"
            if kind in row.spent
            else NONE
            for kind in kinds
        ]
        both = [significant(whole), significant(row.seconds)]
        cells.append([*where_cells(row, named), *seconds, *both])
    if not cells:
        return []
    return [
        *markdown_table(WHERE, [*kinds, "together", "median of the runs"], cells),
        *notes(having),
        "Seconds of the slowest party, in one run.",
        "",
    ]


def others(rows: Sequence[Row]) -> list[str]:
    named = several_sources(rows)
    cells = []
    for row in rows:
        figures = [
            f"{span(row.runs, 1)} in {len(row.runs)}" if row.runs else None,
            significant(sum(row.cpu_seconds)) if row.cpu_seconds else None,
            row.peak_rss_mb and f"{row.peak_rss_mb:.0f} MB",
            row.upload_bytes and f"{row.upload_bytes / 1e6:.3f} MB",
            None if row.mean_abs_error is None else f"{row.mean_abs_error:.2g}",
            None if row.mean_abs_value is None else f"{row.mean_abs_value:.2g}",
        ]
        if any(figures):
            cells.append([*where_cells(row, named), *(str(f or NONE) for f in figures)])
    if not cells:
        return []
    numbers = ["seconds of the runs", "CPU seconds", "peak of a party"]
    numbers += ["client sends", "mean error", "mean size"]
    return [
        *markdown_table(WHERE, numbers, cells),
        *notes(rows),
        "CPU seconds are of all parties together. The error is the mean absolute "
        "difference to the same model in float, the size the mean absolute answer.",
        "",
    ]
