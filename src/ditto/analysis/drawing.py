"""A plan as a picture: what is computed where, and what goes over the wire.

Time runs down. Left to right: our protocols in the low ring, SPU in the low ring, SPU
in the high ring. A line is a value that passes on, the wider the more bytes the step
sent that made it; a dashed one changes its type. A bar shows the bytes of each step.
"""

from dataclasses import dataclass
from html import escape
from math import sqrt

from ditto.analysis.cost import predict
from ditto.analysis.explanation import describe
from ditto.plan import Plan
from ditto.steps import Recast, Site, definition

LANES = (
    ("low ring, native", "#2a9d5c"),
    ("low ring, SPU", "#2a7fb8"),
    ("high ring, SPU", "#e07b39"),
)
RECAST = "#8e5bb5"
_WIDTH, _HEIGHT, _LEFT, _TOP = 290, 34, 170, 60
_GAP, _LANE = 22, 330
MAX_BOXES = 400


@dataclass(frozen=True)
class _Box:
    step: int
    lane: int
    row: int
    label: str
    bytes: float
    recast: bool


def draw(plan: Plan) -> str:
    """SVG of the steps that send something; the rest are lines between them."""
    boxes = _boxes(plan)
    height = _TOP + (len(boxes) + 1) * (_HEIGHT + _GAP)
    width = _LEFT + len(LANES) * _LANE
    most = max((box.bytes for box in boxes), default=1.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_legend(),
        *_scopes(plan, boxes),
        *_edges(plan, boxes, most),
        *(_rectangle(plan, box, most) for box in boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _boxes(plan: Plan) -> list[_Box]:
    found: list[_Box] = []
    for i, cost in enumerate(predict(plan)):
        site = Site.of(plan, i)
        changes = isinstance(site.step.kind, Recast)
        if (cost.bytes or changes) and len(found) < MAX_BOXES:
            label, lane = describe(site), _lane(site)
            found.append(_Box(i, lane, len(found), label, cost.bytes, changes))
    return found


def _lane(site: Site) -> int:
    region = definition(site.step).region_used()
    if region is None:
        return 0
    return 1 if site.plan.regions[region].bits == 32 else 2


def _place(box: _Box) -> tuple[int, int]:
    return _LEFT + box.lane * _LANE, _TOP + box.row * (_HEIGHT + _GAP)


def _legend() -> list[str]:
    texts = []
    for lane, (name, colour) in enumerate(LANES):
        x = _LEFT + lane * _LANE
        texts.append(
            f'<text x="{x}" y="24" fill="{colour}" font-weight="bold">{name}</text>'
        )
    texts.append(
        f'<text x="{_LEFT}" y="42" fill="{RECAST}">recast (dashed line: another type)'
        f"</text>"
    )
    return texts


def _scopes(plan: Plan, boxes: list[_Box]) -> list[str]:
    """The name of a scope where it begins."""
    found, last = [], None
    for box in boxes:
        scope = plan.steps[box.step].scope
        if scope != last:
            y = _place(box)[1] + _HEIGHT // 2 + 4
            found.append(
                f'<text x="8" y="{y}" fill="#555">{escape(scope[-26:])}</text>'
            )
            last = scope
    return found


def _edges(plan: Plan, boxes: list[_Box], most: float) -> list[str]:
    """From each box to those whose values came from it, through free steps."""
    shown = {box.step: box for box in boxes}
    origin: dict[int, set[int]] = {}
    lines = []
    for i, step in enumerate(plan.steps):
        sources = set[int]().union(*(origin.get(v, set()) for v in step.inputs))
        if i in shown:
            lines += [_edge(shown[s], shown[i], most) for s in sorted(sources)]
            sources = {i}
        for v in step.outputs:
            origin[v] = sources
    return lines


def _edge(a: _Box, b: _Box, most: float) -> str:
    """Straight down to the next row, or around the left of the boxes between."""
    (ax, ay), (bx, by) = _place(a), _place(b)
    changes = b.recast or a.recast or a.lane != b.lane
    dash = ' stroke-dasharray="5 3"' if changes else ""
    width = 1 + 5 * sqrt(a.bytes / most)
    if a.lane == b.lane and b.row > a.row + 1:
        y1, y2 = ay + _HEIGHT // 2, by + _HEIGHT // 2
        out = ax - 12 - 9 * min(b.row - a.row, 10)
        path = f"M{ax},{y1} C{out},{y1 + 10} {out},{y2 - 10} {bx},{y2}"
    else:
        x1, y1, x2, y2 = ax + _WIDTH // 2, ay + _HEIGHT, bx + _WIDTH // 2, by
        path = f"M{x1},{y1} C{x1},{y1 + 20} {x2},{y2 - 20} {x2},{y2}"
    return (
        f'<path d="{path}" fill="none" stroke="#888" stroke-opacity="0.7" '
        f'stroke-width="{width:.1f}"{dash}/>'
    )


def _rectangle(plan: Plan, box: _Box, most: float) -> str:
    x, y = _place(box)
    colour = RECAST if box.recast else LANES[box.lane][1]
    bar = (_WIDTH - 2) * box.bytes / most
    out = plan.values[plan.steps[box.step].outputs[0]]
    label = escape(box.label[:34])
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
        f'fill="white" stroke="{colour}" stroke-width="1.5"/>'
        f'<rect x="{x + 1}" y="{y + 1}" width="{bar:.1f}" height="{_HEIGHT - 2}" '
        f'rx="4" fill="{colour}" fill-opacity="0.35"/>'
        f'<text x="{x + 8}" y="{y + 14}">{label}</text>'
        f'<text x="{x + 8}" y="{y + 28}" fill="#444">{escape(str(out))}, '
        f"{box.bytes / 1e6:.2f} MB</text>"
    )
