"""``ditto bench report``: results beside the paper's, as Markdown and pictures.

A results file is what ``ditto bench inference --json`` writes: the machine, the
versions, the command, and one row for every run. A ratio is only ever formed between
two rows of one file and one network, since seconds of two machines do not compare.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path

from ditto.bench import paper_values as paper
from ditto.bench.results import (
    Cost,
    Part,
    Results,
    Row,
    base_of,
    by_series,
    grouped,
    in_order,
    place_name,
    read_all,
    scope_names,
    several_sources,
    varied,
    varied_name,
)
from ditto.errors import SetupError

REPORT = "report.md"
RINGS = {
    "32": "our protocols, 32 bits",
    "64": "our protocols, 64 bits",
    "spu32": "SPU, 32 bits",
    "spu64": "SPU, 64 bits",
    "free": "nothing sent",
}
_CHAIN = ("spu", "puma", "paper", "ditto")
_NONE = "-"
_SMALL = 0.005
"""The part of bytes and of seconds up to which a line is not worth a place."""
_DAGGER, _BORROWED = "†", "‡"


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
    from ditto.bench import figures  # says so if matplotlib is missing

    results = read_all(files)
    given = [row for found in results.values() for row in found.rows]
    rows = in_order(given)
    explained = next((r for r in given if r.profile == "ditto" and r.parts), None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = figures.write_pictures(rows, folder, explained)
        text = markdown(results, rows, [path.name for path in pictures])
        (folder / REPORT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(f"{folder} cannot be written: {error.strerror}.") from None
    return Report(folder / REPORT, tuple(pictures))


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


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else _NONE


def _span(values: Iterable[float], unit: float) -> str:
    said = [significant(value / unit) for value in sorted(values)]
    return said[0] if said[0] == said[-1] else f"{said[0]} to {said[-1]}"


def _times(ratio: float | None, mark: str = "") -> str:
    return _NONE if ratio is None else f"{ratio:.2f}x{mark}"


def _ratios(row: Row, base: Row | None, part: str | None = None) -> list[str]:
    """How many times less it sends than the base, how many times faster it is."""
    if base is None:
        return [_NONE, _NONE]
    cost: Cost | None = getattr(row, part) if part else row
    against: Cost | None = getattr(base, part) if part else base
    if cost is None or against is None:
        return [_NONE, _NONE]
    mark = _DAGGER if row.scaled or base.scaled else ""
    return [
        _times(against.bytes / cost.bytes, mark),
        _times(against.seconds / cost.seconds, mark),
    ]


def _figures(cost: Cost) -> list[str]:
    return [size(cost.bytes), f"{cost.rounds}", significant(cost.seconds)]


# Writing Markdown.


def _text(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(
    texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[str]:
    """Texts to the left, numbers to the right."""
    rule = ["---"] * len(texts) + ["---:"] * len(numbers)
    lines = [[*texts, *numbers], rule, *rows]
    return [f"| {' | '.join(_text(cell) for cell in line)} |" for line in lines] + [""]


def _name(row: Row) -> list[str]:
    return [f"{row.profile} {_DAGGER}" if row.scaled else row.profile, row.gelu]


def _where(row: Row, named: bool) -> list[str]:
    return [row.called, row.tokens, place_name(row, named), *_name(row)]


_WHERE = ("model", "tokens", "network", "profile", "GeLU")


def _notes(rows: Iterable[Row], *, borrowed: str | None = None) -> list[str]:
    """What the marks of a table mean; ``borrowed`` is a network the paper has not."""
    kinds = sorted({(r.measured_layers, r.layers) for r in rows if r.scaled})
    said = ", ".join(f"{measured} of {every}" for measured, every in kinds)
    lines = [f"{_DAGGER} Measured on {said} layers and scaled to all."] if kinds else []
    if borrowed is not None:
        name = _text(borrowed)
        lines += [f"{_BORROWED} In the paper's LAN: it has no network {name}."]
    return [line for note in lines for line in (note, "")]


def markdown(
    results: dict[str, Results], rows: Sequence[Row], pictures: Sequence[str]
) -> str:
    """The report's text; ``pictures`` are the names of those that were made."""

    def picture(name: str, said: str) -> list[str]:
        return [f"![{said}]({name})", ""] if name in pictures else []

    scatter = picture("scatter.png", "Bytes sent against seconds")
    lengths = picture("lengths.png", "Seconds and bytes by length")
    batches = picture("batches.png", "Seconds and bytes by batch")
    breakdown = picture("breakdown.png", "Seconds by scope and kind of step")
    sections = [
        ("Where it was measured", _machines(results, rows)),
        ("Every run", scatter + _headline(rows)),
        ("Varying length", lengths + _varying(rows, "seq")),
        ("Varying batch", batches + _varying(rows, "batch")),
        ("Networks side by side", _networks(rows)),
        ("Ablation", _ablation(rows)),
        ("By ring and by function", breakdown + _breakdown(rows)),
        ("Where the time goes", _spent(rows)),
        ("Memory, uploads and errors", _others(rows)),
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
    for title, found in sections:
        lines += [f"## {title}", "", *found] if found else []
    return "\n".join(lines).rstrip("\n") + "\n"


def _machines(results: dict[str, Results], rows: Sequence[Row]) -> list[str]:
    machines = []
    for label, found in results.items():
        versions = ", ".join(f"{name} {v}" for name, v in found.versions.items())
        machines.append([label, found.cpu, versions, str(found.cores)])
    networks = []
    for same in grouped(rows, lambda r: (r.place, r.network.backend)).values():
        trips = [r.network.rtt for r in same if r.network.rtt is not None]
        rates = [r.network.bandwidth for r in same if r.network.bandwidth is not None]
        trip = f"{_span(trips, 1e-3)} ms" if trips else _NONE
        rate = f"{_span(rates, 1e9)} Gbit/s" if rates else _NONE
        backend = same[0].network.backend or _NONE
        networks.append([*same[0].place, backend, trip, rate])
    commands = [
        f"    {' '.join(f'{found.command}  # {label}'.split())}"
        for label, found in results.items()
    ]
    measured = ["round trip", "bandwidth"]
    return [
        *_table(["file", "CPU", "versions"], ["cores"], machines),
        "Networks as measured:",
        "",
        *_table(["file", "network", "made by"], measured, networks),
        paper.SETUP,
        "",
        "Commands:",
        "",
        *commands,
        "",
    ]


def _theirs(row: Row) -> tuple[list[str], bool]:
    """The paper's figures for a row; whether any is of another network."""
    network, other = paper.network_of(row.network.name)
    found = paper.compared(row.called, row.method, row.seq, row.batch, network)
    mark = f" {_BORROWED}" if other else ""
    sent = _NONE if found.gigabytes is None else f"{found.gigabytes:.2f} GB"
    seconds = _NONE if found.seconds is None else f"{found.seconds:.2f}{mark}"
    ratios = [_times(found.less), _times(found.faster, mark)]
    return [sent, seconds, *ratios], other and found.seconds is not None


def _headline(rows: Sequence[Row]) -> list[str]:
    lines = []
    named = several_sources(rows)
    ours = ["sent", "rounds", "seconds", "less sent", "faster"]
    theirs = [f"the paper: {n}" for n in ("sent", "seconds", "less sent", "faster")]
    for group in grouped(rows, lambda r: r.place).values():
        cells, further = [], []
        borrowed = None
        for row in group:
            base, what = base_of(row, group), [row.called, row.tokens, *_name(row)]
            beside, other = _theirs(row)
            borrowed = row.network.name if other else borrowed
            cells.append([*what, *_figures(row), *_ratios(row, base), *beside])
            if row.next_token:
                ratios = _ratios(row, base, "next_token")
                further.append([*what, *_figures(row.next_token), *ratios])
        texts = ["model", "tokens", "profile", "GeLU"]
        lines += [f"### {_text(place_name(group[0], named))}", ""]
        lines += _table(texts, ours + theirs, cells)
        lines += _notes(group, borrowed=borrowed)
        lines += _unlike(group)
        if further:
            said = "GPT-2's rows are of the first token. Each further one, which the "
            lines += [
                f"{said}paper does not report:",
                "",
                *_table(texts, ours, further),
            ]
            lines += _notes(row for row in group if row.next_token)
    return [
        *lines,
        f"The paper's figures: {paper.LENGTHS} and {paper.BATCHES}; seconds in its "
        f"WAN: {paper.NETWORKS}. Its Ditto stands beside `paper` and `ditto` with "
        "Quad, its Baseline beside `spu`, its MPCFormer beside MPCFormer with Quad.",
        "",
        paper.CLAIMS,
        "",
    ]


def _unlike(rows: Sequence[Row]) -> list[str]:
    """What a baseline does otherwise, in its own words."""
    found = {
        row.profile: [note for note in (row.setting_note, row.input_note) if note]
        for row in rows
    }
    lines = [f"{name}: {'; '.join(said)}." for name, said in found.items() if said]
    return [line for said in lines for line in (_text(said), "")]


def _varying(rows: Sequence[Row], by: str) -> list[str]:
    """One table for each place and model, in the paper's form."""
    lines = []
    named = several_sources(rows)
    for group in varied(rows, by):
        first = group[0]
        values = sorted({getattr(row, by) for row in group})
        cells = []
        for (profile, gelu), same in by_series(group).items():
            at = {getattr(row, by): row for row in reversed(same)}
            found = [cell for v in values for cell in _beside_puma(at.get(v), rows)]
            cells.append([profile, gelu, *found])
        network, other = paper.network_of(first.network.name)
        borrowed = None
        for method in paper.METHODS:
            found = []
            for value in values:
                seq, batch = (value, first.batch) if by == "seq" else (first.seq, value)
                beside = paper.compared(first.called, method, seq, batch, network)
                found += _beside_their_puma(beside, method, other)
            if set(found) != {_NONE}:
                cells.append([f"the paper's {method}", _NONE, *found])
                borrowed = first.network.name if other else None
        heads = [f"{v} tokens" if by == "seq" else f"batch {v}" for v in values]
        heads = [f"{head}: {what}" for head in heads for what in ("sent", "seconds")]
        lines += [f"### {_text(varied_name(first, by, named))}", ""]
        lines += _table(["profile", "GeLU"], heads, cells)
        lines += _notes(group, borrowed=borrowed)
    if not lines:
        return []
    table = paper.LENGTHS if by == "seq" else paper.BATCHES
    said = "In brackets: how many times less than `puma`, or than the paper's PUMA."
    return [*lines, f"{said} The paper's figures: {table}.", ""]


def _beside_puma(row: Row | None, rows: Sequence[Row]) -> list[str]:
    """Bytes and seconds, each with its ratio."""
    if row is None:
        return [_NONE, _NONE]
    base = base_of(row, rows)
    mark = f" {_DAGGER}" if row.scaled else ""
    said = [f"{text}{mark}" for text in (size(row.bytes), significant(row.seconds))]
    if base is None or base is row:
        return said
    return [f"{a} ({b})" for a, b in zip(said, _ratios(row, base), strict=True)]


def _beside_their_puma(
    found: paper.Compared, method: str, other: bool = False
) -> list[str]:
    """The paper's GB and seconds, each with its ratio."""
    mark = f" {_BORROWED}" if other else ""
    cells = []
    for value, ratio, unit in (
        (found.gigabytes, found.less, " GB"),
        (found.seconds, found.faster, mark),
    ):
        against = "" if method == paper.PUMA else f" ({_times(ratio)})"
        cells.append(_NONE if value is None else f"{value:.2f}{unit}{against}")
    return cells


def _networks(rows: Sequence[Row]) -> list[str]:
    groups = [
        group
        for group in grouped(rows, lambda r: r.setting).values()
        if len({row.network.name for row in group}) > 1
    ]
    used = [row for group in groups for row in group]
    if not used:
        return []
    named = several_sources(used)
    columns = {row.place: f"{place_name(row, named)}: seconds" for row in used}
    cells = []
    for group in groups:
        model, seq, batch = group[0].called, group[0].seq, group[0].batch
        what = [model, group[0].tokens]
        for (profile, gelu), same in by_series(group).items():
            at = {row.place: row for row in reversed(same)}
            found = [_beside_puma(at.get(place), group)[1] for place in columns]
            cells.append([*what, profile, gelu, *found])
        for method in paper.METHODS:
            found = []
            for _, network in columns:
                where = model, method, seq, batch, network.lower()
                beside = paper.compared(*where, table=paper.NETWORKS)
                found.append(_beside_their_puma(beside, method)[1])
            if set(found) != {_NONE}:
                cells.append([*what, f"the paper's {method}", _NONE, *found])
    texts = ["model", "tokens", "profile", "GeLU"]
    return [
        *_table(texts, list(columns.values()), cells),
        *_notes(used),
        "In brackets: how many times faster than `puma` in the same file and network. "
        f"The paper's figures: {paper.NETWORKS}; its LAN seconds of GPT2-base differ "
        "there from those of its table 2.",
        "",
    ]


def _ablation(rows: Sequence[Row]) -> list[str]:
    """The longest chains. One has one GeLU; ``spu`` and ``puma`` keep their own."""
    chains = []
    for group in grouped(rows, lambda r: (r.place, r.setting)).values():
        for gelu in dict.fromkeys(r.gelu for r in group if r.profile in _CHAIN[2:]):
            chains.append([row for row in group if _in_chain(row, gelu)])
    most = max((len(chain) for chain in chains), default=0)
    chains = [chain for chain in chains if len(chain) == most > 1]
    cells, named = [], several_sources(rows)
    borrowed = None
    for k, chain in enumerate(chains):
        first = chain[0]
        for before, row in zip([None, *chain], chain, strict=False):
            found = [size(row.bytes), significant(row.seconds)]
            ratios = _ratios(row, before) + _ratios(row, before and first)
            cells.append([*_where(row, named), *found, *ratios])
        if chains[k + 1 :] and chains[k + 1][0] is first:
            continue  # the same setting with another GeLU follows
        beside, other = _their_ablation(first, named)
        cells += beside
        borrowed = first.network.name if other else borrowed
    if not cells:
        return []
    numbers = ["sent", "seconds", "less sent than above", "faster than above"]
    numbers += ["less sent than first", "faster than first"]
    return [
        *_table(_WHERE, numbers, cells),
        *_notes((row for chain in chains for row in chain), borrowed=borrowed),
        f"The paper's speedups of Ditto: {paper.ABLATION}, where w/o {{a}} is without "
        f"Quad; its other figures: {paper.LENGTHS}.",
        "",
    ]


def _in_chain(row: Row, gelu: str) -> bool:
    return row.profile in _CHAIN[:2] or (row.profile in _CHAIN and row.gelu == gelu)


def _their_ablation(row: Row, named: bool) -> tuple[list[list[str]], bool]:
    """The paper's chain from a row's method on; whether it is of another network."""
    network, other = paper.network_of(row.network.name)
    mark = f" {_BORROWED}" if other else ""
    chain = [paper.BASELINE, paper.PUMA, paper.DITTO_WITHOUT_QUAD, paper.DITTO]
    if row.method not in chain[:2]:
        return [], False
    cells = []
    for method in chain[chain.index(row.method) :]:
        what = method, row.seq, row.batch, network
        found = paper.compared(row.called, *what)
        less, faster = found.less, found.faster
        if row.method == paper.BASELINE:
            base = paper.compared(row.called, row.method, *what[1:])
            less = base.less and less and less / base.less
            faster = paper.speedup(row.called, *what)
        if found.empty and faster is None:
            continue
        said = [
            _NONE if found.gigabytes is None else f"{found.gigabytes:.2f} GB",
            _NONE if found.seconds is None else f"{found.seconds:.2f}{mark}",
        ]
        ratios = [_NONE, _NONE, _times(less), _times(faster, mark)]
        if method == row.method:
            ratios = [_NONE] * 4
        where = [row.called, row.tokens, place_name(row, named)]
        cells.append([*where, f"the paper's {method}", _NONE, *said, *ratios])
    return cells, other and bool(cells)


def _breakdown(rows: Sequence[Row]) -> list[str]:
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
        lines += [f"### {_text(where)}", ""]
        for heading, key in ways:
            cells = [line for row in group for line in _sums(row, key)]
            numbers = ["sent", "of all", "rounds", "seconds", "of all"]
            lines += _table(["profile", "GeLU", heading], numbers, cells)
        lines += _notes(group)
    return lines


def _sums(row: Row, key: Callable[[Part], str]) -> list[list[str]]:
    """Bytes, rounds and seconds by key, the slowest first, the small ones as one."""
    found = grouped(row.parts, key)
    all_sent = sum(part.bytes for part in row.parts)
    all_seconds = sum(part.seconds for part in row.parts)
    small = [
        name
        for name, parts in found.items()
        if sum(p.bytes for p in parts) <= _SMALL * all_sent
        and sum(p.seconds for p in parts) <= _SMALL * all_seconds
    ]
    if len(small) > 1:
        found["(others)"] = [part for name in small for part in found.pop(name)]
    cells = []
    for name, parts in sorted(
        found.items(), key=lambda i: -sum(p.seconds for p in i[1])
    ):
        sent, seconds = sum(p.bytes for p in parts), sum(p.seconds for p in parts)
        rounds = f"{sum(p.rounds for p in parts):.0f}"
        figures = [size(sent), _share(sent, all_sent), rounds, significant(seconds)]
        cells.append([*_name(row), name, *figures, _share(seconds, all_seconds)])
    return cells


def _spent(rows: Sequence[Row]) -> list[str]:
    having = [row for row in rows if row.spent]
    kinds = list(dict.fromkeys(kind for row in having for kind in row.spent))
    cells, named = [], several_sources(rows)
    for row in having:
        whole = sum(row.spent.values())
        found = [
            f"{significant(row.spent[kind])} ({_share(row.spent[kind], whole)})"
            if kind in row.spent
            else _NONE
            for kind in kinds
        ]
        both = [significant(whole), significant(row.seconds)]
        cells.append([*_where(row, named), *found, *both])
    if not cells:
        return []
    return [
        *_table(_WHERE, [*kinds, "together", "median of the runs"], cells),
        *_notes(having),
        "Seconds of the slowest party, in one run.",
        "",
    ]


def _others(rows: Sequence[Row]) -> list[str]:
    named = several_sources(rows)
    cells = []
    for row in rows:
        found = [
            f"{_span(row.runs, 1)} in {len(row.runs)}" if row.runs else None,
            significant(sum(row.cpu_seconds)) if row.cpu_seconds else None,
            row.peak_rss_mb and f"{row.peak_rss_mb:.0f} MB",
            row.upload_bytes and f"{row.upload_bytes / 1e6:.3f} MB",
            None if row.mean_abs_error is None else f"{row.mean_abs_error:.2g}",
            None if row.mean_abs_value is None else f"{row.mean_abs_value:.2g}",
        ]
        if any(found):
            cells.append([*_where(row, named), *(str(f or _NONE) for f in found)])
    if not cells:
        return []
    numbers = ["seconds of the runs", "CPU seconds", "peak of a party"]
    numbers += ["client sends", "mean error", "mean size"]
    return [
        *_table(_WHERE, numbers, cells),
        *_notes(rows),
        "CPU seconds are of all parties together. The error is the mean absolute "
        "difference to the same model in float, the size the mean absolute answer.",
        "",
    ]
