"""The report's tables in which the paper's figures stand beside ours."""

from collections.abc import Sequence

from benchmarks.report import paper_values as paper
from benchmarks.report.results import (
    Row,
    base_of,
    by_series,
    grouped,
    place_name,
    several_sources,
    varied,
    varied_name,
)
from benchmarks.report.text import (
    BORROWED,
    DAGGER,
    NONE,
    WHERE,
    cost_cells,
    escaped,
    markdown_table,
    notes,
    profile_cells,
    ratios_to,
    significant,
    size,
    times,
    where_cells,
)

_CHAIN = ("spu", "puma", "paper", "ditto")


def _theirs(row: Row) -> tuple[list[str], bool]:
    """The paper's figures for a row; whether any is of another network."""
    network, other = paper.network_of(row.network.name)
    theirs = paper.compared(row.called, row.method, row.seq, row.batch, network)
    mark = f" {BORROWED}" if other else ""
    sent = NONE if theirs.gigabytes is None else f"{theirs.gigabytes:.2f} GB"
    seconds = NONE if theirs.seconds is None else f"{theirs.seconds:.2f}{mark}"
    ratios = [times(theirs.less), times(theirs.faster, mark)]
    return [sent, seconds, *ratios], other and theirs.seconds is not None


def headline(rows: Sequence[Row]) -> list[str]:
    lines = []
    named = several_sources(rows)
    ours = ["sent", "rounds", "seconds", "less sent", "faster"]
    theirs = [f"the paper: {n}" for n in ("sent", "seconds", "less sent", "faster")]
    for group in grouped(rows, lambda r: r.place).values():
        cells, further = [], []
        borrowed = None
        for row in group:
            base, what = (
                base_of(row, group),
                [row.called, row.tokens, *profile_cells(row)],
            )
            beside, other = _theirs(row)
            borrowed = row.network.name if other else borrowed
            cells.append([*what, *cost_cells(row), *ratios_to(row, base), *beside])
            if row.next_token:
                ratios = ratios_to(row, base, "next_token")
                further.append([*what, *cost_cells(row.next_token), *ratios])
        texts = ["model", "tokens", "profile", "GeLU"]
        lines += [f"### {escaped(place_name(group[0], named))}", ""]
        lines += markdown_table(texts, ours + theirs, cells)
        lines += notes(group, borrowed=borrowed)
        lines += _unlike(group)
        if further:
            start = "GPT-2's rows are of the first token. Each further one, which the "
            lines += [
                f"{start}paper does not report:",
                "",
                *markdown_table(texts, ours, further),
            ]
            lines += notes(row for row in group if row.next_token)
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
    notes_of = {
        row.profile: [note for note in (row.setting_note, row.input_note) if note]
        for row in rows
    }
    lines = [f"{name}: {'; '.join(note)}." for name, note in notes_of.items() if note]
    return [line for note in lines for line in (escaped(note), "")]


def varying(rows: Sequence[Row], by: str) -> list[str]:
    """One table for each place and model, in the paper's form."""
    lines = []
    named = several_sources(rows)
    for group in varied(rows, by):
        first = group[0]
        values = sorted({getattr(row, by) for row in group})
        cells = []
        for (profile, gelu), same in by_series(group).items():
            at = {getattr(row, by): row for row in reversed(same)}
            figures = [cell for v in values for cell in _beside_puma(at.get(v), rows)]
            cells.append([profile, gelu, *figures])
        network, other = paper.network_of(first.network.name)
        borrowed = None
        for method in paper.METHODS:
            figures = []
            for value in values:
                seq, batch = (value, first.batch) if by == "seq" else (first.seq, value)
                beside = paper.compared(first.called, method, seq, batch, network)
                figures += _beside_their_puma(beside, method, other)
            if set(figures) != {NONE}:
                cells.append([f"the paper's {method}", NONE, *figures])
                borrowed = first.network.name if other else None
        heads = [f"{v} tokens" if by == "seq" else f"batch {v}" for v in values]
        heads = [f"{head}: {what}" for head in heads for what in ("sent", "seconds")]
        lines += [f"### {escaped(varied_name(first, by, named))}", ""]
        lines += markdown_table(["profile", "GeLU"], heads, cells)
        lines += notes(group, borrowed=borrowed)
    if not lines:
        return []
    table = paper.LENGTHS if by == "seq" else paper.BATCHES
    brackets = "In brackets: how many times less than `puma`, or than the paper's PUMA."
    return [*lines, f"{brackets} The paper's figures: {table}.", ""]


def _beside_puma(row: Row | None, rows: Sequence[Row]) -> list[str]:
    """Bytes and seconds, each with its ratio."""
    if row is None:
        return [NONE, NONE]
    base = base_of(row, rows)
    mark = f" {DAGGER}" if row.scaled else ""
    figures = [f"{text}{mark}" for text in (size(row.bytes), significant(row.seconds))]
    if base is None or base is row:
        return figures
    return [f"{a} ({b})" for a, b in zip(figures, ratios_to(row, base), strict=True)]


def _beside_their_puma(
    theirs: paper.Compared, method: str, other: bool = False
) -> list[str]:
    """The paper's GB and seconds, each with its ratio."""
    mark = f" {BORROWED}" if other else ""
    cells = []
    for value, ratio, unit in (
        (theirs.gigabytes, theirs.less, " GB"),
        (theirs.seconds, theirs.faster, mark),
    ):
        against = "" if method == paper.PUMA else f" ({times(ratio)})"
        cells.append(NONE if value is None else f"{value:.2f}{unit}{against}")
    return cells


def networks(rows: Sequence[Row]) -> list[str]:
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
            seconds = [_beside_puma(at.get(place), group)[1] for place in columns]
            cells.append([*what, profile, gelu, *seconds])
        for method in paper.METHODS:
            seconds = []
            for _, network in columns:
                where = model, method, seq, batch, network.lower()
                beside = paper.compared(*where, table=paper.NETWORKS)
                seconds.append(_beside_their_puma(beside, method)[1])
            if set(seconds) != {NONE}:
                cells.append([*what, f"the paper's {method}", NONE, *seconds])
    texts = ["model", "tokens", "profile", "GeLU"]
    return [
        *markdown_table(texts, list(columns.values()), cells),
        *notes(used),
        "In brackets: how many times faster than `puma` in the same file and network. "
        f"The paper's figures: {paper.NETWORKS}; its LAN seconds of GPT2-base differ "
        "there from those of its table 2.",
        "",
    ]


def ablation(rows: Sequence[Row]) -> list[str]:
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
            figures = [size(row.bytes), significant(row.seconds)]
            ratios = ratios_to(row, before) + ratios_to(row, before and first)
            cells.append([*where_cells(row, named), *figures, *ratios])
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
        *markdown_table(WHERE, numbers, cells),
        *notes((row for chain in chains for row in chain), borrowed=borrowed),
        f"The paper's speedups of Ditto: {paper.ABLATION}, where w/o {{a}} is without "
        f"Quad; its other figures: {paper.LENGTHS}.",
        "",
    ]


def _in_chain(row: Row, gelu: str) -> bool:
    return row.profile in _CHAIN[:2] or (row.profile in _CHAIN and row.gelu == gelu)


def _their_ablation(row: Row, named: bool) -> tuple[list[list[str]], bool]:
    """The paper's chain from a row's method on; whether it is of another network."""
    network, other = paper.network_of(row.network.name)
    mark = f" {BORROWED}" if other else ""
    chain = [paper.BASELINE, paper.PUMA, paper.DITTO_WITHOUT_QUAD, paper.DITTO]
    if row.method not in chain[:2]:
        return [], False
    cells = []
    for method in chain[chain.index(row.method) :]:
        what = method, row.seq, row.batch, network
        theirs = paper.compared(row.called, *what)
        less, faster = theirs.less, theirs.faster
        if row.method == paper.BASELINE:
            base = paper.compared(row.called, row.method, *what[1:])
            less = base.less and less and less / base.less
            faster = paper.speedup(row.called, *what)
        if theirs.empty and faster is None:
            continue
        figures = [
            NONE if theirs.gigabytes is None else f"{theirs.gigabytes:.2f} GB",
            NONE if theirs.seconds is None else f"{theirs.seconds:.2f}{mark}",
        ]
        ratios = [NONE, NONE, times(less), times(faster, mark)]
        if method == row.method:
            ratios = [NONE] * 4
        where = [row.called, row.tokens, place_name(row, named)]
        cells.append([*where, f"the paper's {method}", NONE, *figures, *ratios])
    return cells, other and bool(cells)
