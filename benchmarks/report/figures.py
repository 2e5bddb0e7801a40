"""The report's pictures. Importing this module needs matplotlib.

Colours are Okabe and Ito's, which colour-blind people tell apart; markers and line
styles say the same again. What is ours is filled, what is the paper's is hollow.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from benchmarks.report import paper_values as paper
from benchmarks.report.breakdown import RINGS
from benchmarks.report.results import (
    Row,
    by_series,
    grouped,
    place_name,
    scope_names,
    several_sources,
    varied,
    varied_name,
)
from benchmarks.report.text import significant
from ditto.errors import SetupError

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
except ImportError:
    raise SetupError(
        "A report's pictures need matplotlib: pip install 'ditto-mpc[bench]'."
    ) from None

_STYLES = {
    "spu": ("#000000", "s"),
    "puma": ("#0072B2", "^"),
    "mpcformer": ("#009E73", "D"),
    "mpcformer quad+softmax": ("#009E73", "D"),
    "mpcformer quad+2relu": ("#CC79A7", "v"),
    "paper": ("#E69F00", "o"),
    "ditto": ("#D55E00", "*"),
}
"""Colour and marker of a profile."""
_SPARE = (("#56B4E9", "P"), ("#8C6D31", "X"), ("#666666", "h"), ("#999933", "p"))
_METHODS = {
    paper.BASELINE: "spu",
    paper.MPCFORMER: "mpcformer",
    paper.PUMA: "puma",
    paper.DITTO: "ditto",
}
"""The profile whose colour a method of the paper has."""
_RING_COLOURS = {
    "32": "#56B4E9",
    "64": "#0072B2",
    "spu32": "#F3C45C",
    "spu64": "#D55E00",
    "free": "#BDBDBD",
}
_DARK = ("64", "spu64")
_MARKER_SIZES = {"*": 15.0, "^": 9.5, "v": 9.5, "P": 10.0, "X": 10.0}
_SCOPE, _STEP = 0.4, 1.35
"""Inches that a scope and a kind of step are high; the latter's name may stand."""
_MAX_DEPTH = 6
_REST = "not in steps"
_GREYS = ("#D9D9D9", "#E6E6E6", "#F0F0F0")
_DPI = 150
_MAX_PANELS = 8
"""Rows of panels in one picture; what goes beyond is in the tables."""


def write_pictures(
    rows: Sequence[Row], folder: Path, explained: Row | None
) -> list[Path]:
    """All pictures that there are rows for; the breakdown is of ``explained``."""
    figures = {"scatter.png": scatter(rows)}
    for name, by in (("lengths.png", "seq"), ("batches.png", "batch")):
        if varied(rows, by):
            figures[name] = lines(rows, by)
    if explained and sum(part.seconds for part in explained.parts) > 0:
        figures["breakdown.png"] = breakdown(explained)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=_DPI, bbox_inches="tight")
    return [folder / name for name in figures]


def _plain(text: str) -> str:
    """Text in which a dollar is a dollar."""
    return text.replace("$", r"\$")


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _solid(style: tuple[str, str], *, line: bool) -> dict[str, Any]:
    colour, marker = style
    return {
        "color": colour,
        "marker": marker,
        "markersize": _MARKER_SIZES.get(marker, 8.5),
        "linestyle": "-" if line else "none",
        "linewidth": 1.6,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "zorder": 3,
    }


def _hollow(method: str, *, line: bool) -> dict[str, Any]:
    colour, marker = _STYLES[_METHODS[method]]
    return _solid((colour, marker), line=line) | {
        "markersize": _MARKER_SIZES.get(marker, 8.5) - 1.5,
        "markeredgecolor": colour,
        "markerfacecolor": "none" if not line else "white",
        "markeredgewidth": 1.4,
        "linestyle": (0, (4, 3)) if line else "none",
        "linewidth": 1.1,
        "zorder": 2,
    }


class _Legend:
    """Styles of all that is drawn, and the list of them beside the panels."""

    def __init__(self, rows: Sequence[Row], *, line: bool) -> None:
        self._line = line
        self._styles: dict[tuple[str, str], tuple[str, str]] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._methods: set[str] = set()
        self._borrowed = False
        self._scaled = any(row.scaled for row in rows)
        spare = list(_SPARE)
        every = list(by_series(rows))
        for profile, gelu in every:
            gelus = sorted((g for p, g in every if p == profile), key="quad".__eq__)
            style = _STYLES.get(profile.lower())
            if style is None or gelu != gelus[-1]:  # the colour we know is Quad's
                style = spare.pop(0) if spare else _SPARE[-1]
            self._styles[profile, gelu] = style
            named = profile if len(gelus) == 1 else f"{profile}, {gelu}"
            self._labels[profile, gelu] = _plain(named)

    def ours(self, row: Row) -> dict[str, Any]:
        """How a row is drawn."""
        return _solid(self._styles[row.series], line=self._line)

    def theirs(self, method: str, *, borrowed: bool) -> dict[str, Any]:
        """How a method of the paper is drawn."""
        self._methods.add(method)
        self._borrowed |= borrowed
        return _hollow(method, line=self._line)

    def draw(self, figure: Figure) -> None:
        """To the right of the panels, ours above the paper's."""
        blank: dict[str, Any] = {"linestyle": "none", "marker": ""}
        handles = [Line2D([], [], label="measured", **blank)]
        handles += [
            Line2D([], [], label=self._labels[s], **_solid(style, line=self._line))
            for s, style in self._styles.items()
        ]
        notes = ["† fewer layers measured,\nscaled to all"] if self._scaled else []
        if self._methods:
            where = "the paper, in its LAN" if self._borrowed else "the paper"
            handles.append(Line2D([], [], label=f"\n{where}", **blank))
        handles += [
            Line2D([], [], label=method, **_hollow(method, line=self._line))
            for method in paper.METHODS
            if method in self._methods
        ]
        handles += [Line2D([], [], label=f"\n{note}", **blank) for note in notes]
        legend = figure.legend(
            handles=handles, loc="outside right upper", frameon=False, fontsize="medium"
        )
        for text in legend.get_texts():
            if text.get_text().strip().startswith(("measured", "the paper")):
                text.set_fontweight("bold")


def _log_ticks(axes: Axes, which: str) -> None:
    """Plain numbers, the fewer of a power of ten the longer the axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    subs: tuple[float, ...] = (1.0,)
    if high / low < 1500:
        subs = (1.0, 2.0, 5.0) if high / low > 15 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _tidy(axes: Axes) -> None:
    axes.grid(True, color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _mark_scaled(axes: Axes, row: Row, x: float, y: float) -> None:
    if row.scaled:
        where: dict[str, Any] = {"xytext": (5, -9), "textcoords": "offset points"}
        axes.annotate("†", (x, y), fontsize=9, **where)


# Bytes against seconds.


def scatter(rows: Sequence[Row]) -> Figure:
    """Bytes against seconds: a row of panels for each network, a column a model."""
    panels = _scatter_panels(rows)
    places = list(dict.fromkeys(place for place, _ in panels))[:_MAX_PANELS]
    models = list(dict.fromkeys(model for _, model in panels))[:_MAX_PANELS]
    figure = _figure(2.6 + 3.7 * len(models), 0.8 + 3.3 * len(places))
    grid = figure.subplots(
        len(places), len(models), sharex="all", sharey="row", squeeze=False
    )
    legend = _Legend([row for panel in panels.values() for row in panel], line=False)
    named = several_sources(rows)
    for i, place in enumerate(places):
        for j, model in enumerate(models):
            axes, panel = grid[i][j], panels.get((place, model))
            if panel is None:
                axes.set_axis_off()
                continue
            axes.set_xscale("log")
            axes.set_yscale("log")
            _paper_points(axes, panel[0], legend)
            for row in panel:
                at = row.bytes / 1e9, row.seconds
                axes.plot(*at, **legend.ours(row))
                _mark_scaled(axes, row, *at)
            first = panel[0]
            title = f"{first.called}, {first.tokens} tokens"
            title += f"{chr(10) if named else ', '}{place_name(first, named)}"
            axes.set_title(_plain(title), loc="left", fontsize="medium")
            axes.margins(0.12)
            _tidy(axes)
            below = i + 1 < len(places) and (places[i + 1], model) in panels
            axes.tick_params(labelbottom=not below, labelleft=j == 0)
            axes.set_xlabel("" if below else "GB sent by all parties")
            axes.set_ylabel("seconds" if j == 0 else "")
    for axes in figure.axes:
        if axes.axison:
            _log_ticks(axes, "x")
            _log_ticks(axes, "y")
    legend.draw(figure)
    return figure


def _scatter_panels(
    rows: Sequence[Row],
) -> dict[tuple[tuple[str, str], str], list[Row]]:
    """One setting for each place and model: the paper's, or the one most run."""
    panels = {}
    for key, group in grouped(rows, lambda r: (r.place, r.model)).items():
        settings = grouped(group, lambda r: (r.seq, r.batch))
        known = [s for m, s in paper.SETTINGS.items() if m in group[0].called]
        chosen = max(settings, key=lambda s: (s in known, len(settings[s])))
        panels[key] = settings[chosen]
    return panels


def _paper_points(axes: Axes, row: Row, legend: _Legend) -> None:
    """The paper's runs of a row's setting."""
    network, other = paper.network_of(row.network.name)
    for method in paper.METHODS:
        theirs = paper.compared(row.called, method, row.seq, row.batch, network)
        if theirs.gigabytes is not None and theirs.seconds is not None:
            style = legend.theirs(method, borrowed=other)
            axes.plot([theirs.gigabytes], [theirs.seconds], **style)


# Lines.


def lines(rows: Sequence[Row], by: str) -> Figure:
    """Seconds and bytes against ``seq`` or ``batch``, a line for each profile."""
    groups = varied(rows, by)[:_MAX_PANELS]
    figure = _figure(11.5, 0.5 + 3.3 * len(groups))
    grid = figure.subplots(len(groups), 2, squeeze=False)
    legend = _Legend([row for group in groups for row in group], line=True)
    named = several_sources(rows)
    for group, (times, sizes) in zip(groups, grid, strict=True):
        first = group[0]
        values = sorted({getattr(row, by) for row in group})
        _paper_lines(times, sizes, first, by, values, legend)
        for same in by_series(group).values():
            at, style = [getattr(row, by) for row in same], legend.ours(same[0])
            times.plot(at, [row.seconds for row in same], **style)
            sizes.plot(at, [row.bytes / 1e9 for row in same], **style)
            for x, row in zip(at, same, strict=True):
                _mark_scaled(times, row, x, row.seconds)
                _mark_scaled(sizes, row, x, row.bytes / 1e9)
        for axes, what in ((times, "seconds"), (sizes, "GB sent by all parties")):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.xaxis.set_major_locator(FixedLocator(values))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            axes.set_xlabel("tokens" if by == "seq" else "batch")
            axes.set_ylabel(what)
            axes.margins(0.08)
            _log_ticks(axes, "y")
            _tidy(axes)
        title = _plain(varied_name(first, by, named))
        times.set_title(title, loc="left", fontsize="medium")
    legend.draw(figure)
    return figure


def _paper_lines(
    times: Axes, sizes: Axes, row: Row, by: str, values: Sequence[int], legend: _Legend
) -> None:
    """The paper's lines, at those values that it has."""
    network, other = paper.network_of(row.network.name)
    for method in paper.METHODS:
        points = []
        for value in values:
            seq, batch = (value, row.batch) if by == "seq" else (row.seq, value)
            theirs = paper.compared(row.called, method, seq, batch, network)
            if theirs.gigabytes is not None and theirs.seconds is not None:
                points.append((value, theirs.seconds, theirs.gigabytes))
        if points:
            x, seconds, sent = zip(*points, strict=True)
            style = legend.theirs(method, borrowed=other)
            times.plot(x, seconds, **style)
            sizes.plot(x, sent, **style)


# Where the seconds of one run are.


@dataclass
class _Box:
    """A scope or a kind of step: its seconds, and what is in it."""

    name: str
    ring: str | None = None
    seconds: float = 0.0
    inner: dict[tuple[str, str | None], "_Box"] = field(default_factory=dict)

    def within(self, name: str, ring: str | None = None) -> "_Box":
        return self.inner.setdefault((name, ring), _Box(name, ring))

    @property
    def depth(self) -> int:
        return 1 + max((box.depth for box in self.inner.values()), default=0)

    @property
    def label(self) -> str:
        return f"{_plain(self.name)} {significant(self.seconds)} s"


def _boxes(row: Row) -> _Box:
    run = _Box(row.profile)
    for part in row.parts:
        chain = [run]
        for name in scope_names(part.scope)[:_MAX_DEPTH]:
            chain.append(chain[-1].within(name))
        chain.append(chain[-1].within(part.what, part.ring))
        for box in chain:
            box.seconds += part.seconds
    rest = row.seconds - run.seconds
    if rest > 0.005 * row.seconds and not row.scaled:
        run.within(_REST).seconds = rest
        run.seconds = row.seconds
    return run


def breakdown(row: Row) -> Figure:
    """An icicle: the run, its scopes, kinds of step; as wide as their seconds."""
    run = _boxes(row)
    depth = run.depth
    above, below, high = 0.6, 1.5, (depth - 1) * _SCOPE + _STEP
    height = above + high + below
    figure = Figure(figsize=(13, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, below / height, 0.96, high / height))
    axes.set_xlim(0, run.seconds)
    axes.set_ylim(high, 0)
    axes.set_yticks([])
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    letters = iter(ascii_lowercase)
    listed = [
        f"{letter} = {box.label}".replace(" ", "\u00a0")  # wrapped between them only
        for box, letter in _place(axes, run, 0.0, 0, high, letters)
    ]
    wrapped = textwrap.fill(", ".join(listed), 170, break_long_words=False)
    figure.text(0.02, 0.72 / height, wrapped, va="top", fontsize=8.5)
    title = (
        f"{row.called}, {row.tokens} tokens, {row.network.name}: {row.profile}, GeLU "
        f"{row.gelu}, {significant(row.seconds)} s; {row.layers} layers together"
    )
    if row.scaled:
        title += f" († {row.measured_layers} measured, scaled to all)"
    axes.set_title(_plain(title), loc="left", fontsize="medium")
    used = [ring for ring in _RING_COLOURS if any(p.ring == ring for p in row.parts)]
    figure.legend(
        handles=[Patch(color=_RING_COLOURS[ring], label=RINGS[ring]) for ring in used],
        loc="center",
        bbox_to_anchor=(0.5, 0.95 / height),
        ncols=5,
        frameon=False,
        fontsize="small",
    )
    return figure


def _place(
    axes: Axes, box: _Box, left: float, level: int, floor: float, letters: Iterator[str]
) -> list[tuple[_Box, str]]:
    """Draw a box and what is in it; returns those that bear a letter for a name."""
    top = level * _SCOPE
    bottom = floor if box.ring is not None else top + _SCOPE
    colour = _GREYS[min(level, len(_GREYS) - 1)]
    if box.ring is not None:
        colour = _RING_COLOURS.get(box.ring, "#999999")
    where = (left, top), box.seconds, bottom - top
    shape = Rectangle(*where, facecolor=colour, edgecolor="white", linewidth=1.0)
    axes.add_patch(shape)
    lettered = _write(axes, shape, box, letters)
    narrowest = axes.get_xlim()[1] / 2000  # what is less than a dot wide
    inside = sorted(box.inner.values(), key=lambda b: (b.name == _REST, -b.seconds))
    for inner in inside:
        if inner.seconds > narrowest:
            lettered += _place(axes, inner, left, level + 1, floor, letters)
        left += inner.seconds
    return lettered


def _write(
    axes: Axes, shape: Rectangle, box: _Box, letters: Iterator[str]
) -> list[tuple[_Box, str]]:
    """The longest text that fits, lying or standing; else a letter, if that does."""
    extent = shape.get_window_extent()
    x, y = shape.get_center()
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
    style["color"] = "white" if box.ring in _DARK else "black"
    name = _plain(box.name)
    ways = [(box.label, 0), (name, 0)]
    if box.ring is not None:
        broken = f"{name}\n{significant(box.seconds)} s"
        ways = [(box.label, 0), (broken, 0), (box.label, 90), (name, 90)]
    for label, rotation in ways:
        style["rotation"] = rotation
        text = axes.text(x, y, label, **style)
        needed = text.get_window_extent()
        if needed.width < extent.width - 4 and needed.height < extent.height - 4:
            return []
        text.remove()
    letter = next(letters, None) if extent.width > 8 else None
    if letter is None:
        return []
    style["rotation"] = 0
    axes.text(x, y, letter, **style)
    return [(box, letter)]
