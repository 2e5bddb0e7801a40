"""approximate: replace functions by the profile's version of them.

Steps
    exp in softmax     summands: the parties take the exponentials of what they hold
                       (``protocols.exponential``), on cells as far down as the grid of
                       the coarse maximum says.
                       puma: (1 + x/32)^32, and 0 where x < -14.
    other exp          squarings: (1 + y + y^2/2)^(2^n), y = x/2^n, with n so large that
                       it is good down to the smallest x with its margin: small results
                       keep their precision.
    gelu               quad, puma's two polynomials, or as silu.
    reciprocal, rsqrt  of few values, a table (``tabulate``); else SPU's, of an argument
                       that is scaled to where SPU is good.
    silu, sigmoid, tanh  parabolas; where the range is too wide for them, the argument
                       is clamped first, at the price of two comparisons.

What is good on a range only says so (``within``), for the simulator to look at.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ditto.compiler.builder import Builder, rewrite
from ditto.compiler.calibrate import Range
from ditto.compiler.passes.pieces import FittedPieces, nearest_pieces
from ditto.compiler.passes.shapes import SHAPES
from ditto.compiler.passes.tabulate import ends_below_grid, tabulated
from ditto.compiler.profile import Profile
from ditto.plan import Graph
from ditto.protocols.blocks import MOST_LEVELS

_GELUS = ("gelu", "gelu_tanh")
_NOTHING = -20.0
"""exp of this, beside one, is nothing in 32 bits."""
EXP_CELL = 4.0
"""The width of a cell of exp: of the widths, the one with the fewest bits."""
_EXP_TABLE_FRAC, _EXP_FACTOR_FRAC = 16, 10
"""Bits of what two sides bring to exp: off by less than 1/1000 up to exp(0.5)."""
_EXP_FRAC = 12
"""The finest that exp takes its operand."""
_EXP_SLACK = 2.0**-5
"""How far above its bound an operand of exp may be rounded, and how far below."""
_MAX_SQUARINGS = 7
_SCALED = {"reciprocal": 5, "rsqrt": 12, "sqrt": 12, "log": 5}
"""Functions that SPU computes in a range of its own, and log2 of where it does so well:
neither the argument nor the result then loses much to the 18 fraction bits."""
_EXP_ERROR, _ABOVE_ERROR = 1 / 900, 1 / 64
"""Of exp below zero, and relative above it."""
_ERROR_OF_SIZE = 1 / 120
"""The largest error of a fit beside the usual size of its results: some are small. A
quarter of the error costs a tenth to two fifths more of a function's bytes."""
_FINEST_FIT = 4
"""How many times finer than the profile says a fit may get: nothing is all there is of
some results."""
_FEW = 64
"""So many times fewer values than the widest product has are fitted as finely as may
be, at no price that is seen: a pooler's, next to the answer."""
_ABOVE_ZERO, _ABOVE_MAXIMUM = 0.1, 2.5
"""How far above zero squarings alone are good enough: in a softmax, which takes less
than the maximum away, the same relative error does less harm."""


def approximate(
    graph: Graph, known: list[Range] | None, secret: list[bool], profile: Profile
) -> Graph:
    """Replace every secret function that the profile has a version of."""
    wide = (*SHAPES, "dot_general")
    most = max((math.prod(n.shape) for n in graph.nodes if n.op in wide), default=0)

    def rule(
        builder: Builder, old: Graph, i: int, inputs: tuple[int, ...]
    ) -> int | None:
        node = old.nodes[i]
        if not secret[i]:
            return None
        here = profile.at(node.scope)
        ring = "high" if here.engine == "rings-in-spu" else ""
        write = _Writer(builder, node.scope, ring)
        operand = None if known is None or not node.inputs else known[node.inputs[0]]
        if node.op in ("exp_negative", "exp"):
            grid = ends_below_grid(old, node.inputs[0])
            return _exp(write, node.op, inputs[0], operand, grid, here)
        if node.op in _SCALED and known is not None and here.engine == "rings":
            operand = known[node.inputs[0]]
            found = tabulated(old, i, known, here.margin)
            if found is not None:
                source, params = found
                return write.emit("table_function", builder.place[source], **params)
            return write.rescaled(node.op, inputs[0], operand, here.margin)
        if node.op in _GELUS and here.gelu == "quad":
            if here.engine == "rings":
                return write.quad(inputs[0])
            return _Writer(builder, node.scope, "").quad_as_printed(inputs[0])
        if node.op in _GELUS and here.gelu == "puma":
            return write.puma_gelu(inputs[0])
        if node.op in SHAPES and here.engine == "rings" and here.gelu != "stock":
            assert known is not None  # noqa: S101  (this engine needs calibration)
            size = 2 ** (math.floor(16 * math.log2(known[i].rms)) / 16)
            finest = here.fit_error / _FINEST_FIT
            relative = max(size * _ERROR_OF_SIZE, finest)
            error = min(here.fit_error, relative)  # of few sizes: few fits serve all
            if math.prod(node.shape) * _FEW <= most:
                error = finest
            reach = known[node.inputs[0]].largest * here.margin
            return write.fitted(node.op, inputs[0], reach, error, max(error, relative))
        return None

    return rewrite(graph, rule)


def _exp(
    write: "_Writer",
    op: str,
    x: int,
    operand: Range | None,
    grid: tuple[float, float] | None,
    here: Profile,
) -> int | None:
    if here.exp == "puma" and op == "exp_negative":
        return write.puma_exp(x)
    if here.exp == "summands" and operand is not None:
        if grid is not None and _cells(*grid) < MOST_LEVELS:
            return write.exp_on(x, *grid)
        highest = _ABOVE_ZERO if op == "exp" else _ABOVE_MAXIMUM
        return write.ranged_exp(x, operand, here.margin, highest)
    if op == "exp_negative":
        return write.emit("exp", x, accuracy=None)
    return None


def _cells(low: float, high: float) -> int:
    """Of exp between two numbers."""
    return math.ceil((high - low + 2 * _EXP_SLACK) / EXP_CELL)


def squarings(left: float) -> int:
    """n of the exp by squarings, for a range of this length below zero."""
    return next(n for n in range(1, 64) if exp_range(n)[0] <= -left)


@lru_cache(maxsize=64)
def exp_range(n: int) -> tuple[float, float]:
    """Where n squarings give exp: below zero within the error, above nearly so.

    The error is e^x |x|^3 / (6 * 4^n) near zero; far below, y^2/2 outgrows 1 + y, and
    beyond x = -2^(n+1) the squares grow without end.
    """
    x = -np.linspace(0.0, 2.0 ** (n + 1), 1 << 14)
    y = np.ldexp(x, -n)
    wrong = np.abs((1 + y + y * y / 2) ** 2.0**n - np.exp(x)) > _EXP_ERROR
    return float(x[np.argmax(wrong) - 1]), (6 * _ABOVE_ERROR * 4.0**n) ** (1 / 3)


@dataclass(frozen=True)
class _Writer:
    """Writes functions into the new graph, in one scope."""

    builder: Builder
    scope: str
    ring: str
    """A hint where the function belongs."""

    def emit(self, op: str, *inputs: int, **params: object) -> int:
        return self.builder.emit(
            op, *inputs, scope=self.scope, ring=self.ring, **params
        )

    def number(self, value: float) -> int:
        return self.builder.constant(np.float32(value))

    def add(self, x: int, y: int | float) -> int:
        return self.emit("add", x, y if isinstance(y, int) else self.number(y))

    def times(self, x: int, y: int | float) -> int:
        return self.emit("mul", x, y if isinstance(y, int) else self.number(y))

    def squared_exp(self, x: int, n: int) -> int:
        y = self.times(x, 2.0**-n)
        half = self.times(self.times(y, y), 0.5)
        e = self.add(self.add(half, y), 1.0)
        for _ in range(n):
            e = self.times(e, e)
        return e

    def exp_on(self, x: int, low: float, high: float) -> int:
        """exp between the ends of a grid, on whole cells below the higher one.

        Levels are a power of two: those to spare lie below. None tell what leaves the
        range: that is seen on the grid.
        """
        levels = max(8, 1 << _cells(low, high).bit_length())
        return self.emit(
            "exponential",
            x,
            low=high + _EXP_SLACK - EXP_CELL * (levels - 1),
            high=high + _EXP_SLACK,
            width=EXP_CELL,
            table_frac=_EXP_TABLE_FRAC,
            factor_frac=_EXP_FACTOR_FRAC,
            most_frac=_EXP_FRAC,
            far_words=0,
        )

    def ranged_exp(self, x: int, operand: Range, margin: float, highest: float) -> int:
        """exp on a range: what is above zero becomes a public factor, and what is far
        below is clamped if that is cheaper than squaring on."""
        top = math.ceil(8 * operand.high) / 8 if operand.high > highest else 0.0
        below = self.add(x, -top) if top else x
        left = max((top - operand.low) * margin, 0.1)
        if squarings(left) > _MAX_SQUARINGS:
            below = self.emit("max", below, self.number(_NOTHING))
            left = -_NOTHING * 1.2
        n = squarings(left)
        low, high = exp_range(n)
        e = self.squared_exp(self.emit("within", below, low=low, high=high), n)
        return self.times(e, math.exp(top)) if top else e

    def rescaled(self, op: str, x: int, operand: Range, margin: float) -> int | None:
        """SPU's function of x / 2^p, put right afterwards; both are free."""
        if operand.largest == 0:
            return None
        power = math.ceil(math.log2(operand.largest * margin)) - _SCALED[op]
        if op in ("rsqrt", "sqrt"):
            power = 2 * math.ceil(power / 2)
        if abs(power) < 2:
            return None
        params = {} if op == "reciprocal" else {"accuracy": None}
        y = self.emit(op, self.times(x, 2.0**-power), **params)
        match op:
            case "reciprocal":
                return self.times(y, 2.0**-power)
            case "rsqrt":
                return self.times(y, 2.0 ** -(power // 2))
            case "sqrt":
                return self.times(y, 2.0 ** (power // 2))
        return self.add(y, power * math.log(2))

    def puma_exp(self, x: int) -> int:
        e = self.add(self.times(x, 1 / 32), 1.0)
        for _ in range(5):
            e = self.times(e, e)
        inside = self.emit("gt", x, self.number(-14.0))
        return self.emit("select_n", inside, self.builder.full(e, 0.0), e)

    def quad(self, x: int) -> int:
        shifted = self.add(x, 1.0)
        return self.add(self.times(self.times(shifted, shifted), 0.125), 0.375)

    def quad_as_printed(self, x: int) -> int:
        squared = self.times(self.times(x, x), 0.125)
        return self.add(self.add(squared, self.times(x, 0.25)), 0.5)

    def puma_gelu(self, x: int) -> int:
        x2 = self.times(x, x)
        x3, x4 = self.times(x2, x), self.times(x2, x2)
        x6 = self.times(x3, x3)
        outer = self.add(
            self.add(
                self.times(x3, -0.011034134030615728),
                self.times(x2, -0.11807612951181953),
            ),
            self.add(self.times(x, -0.42226581151983866), -0.5054031199708174),
        )
        inner = self.add(
            self.add(
                self.times(x6, 0.0018067462606141187),
                self.times(x4, -0.037688200365904236),
            ),
            self.add(
                self.times(x2, 0.3603292692789629),
                self.add(self.times(x, 0.5), 0.008526321541038084),
            ),
        )
        below = self.emit("lt", x, self.number(-4.0))
        low = self.emit("lt", x, self.number(-1.95))
        high = self.emit("gt", x, self.number(3.0))
        in_outer = self.emit("xor", below, low)
        in_inner = self.emit("xor", low, self.emit("not", high))
        pieces = ((high, x), (in_outer, outer), (in_inner, inner))
        terms = [
            self.times(
                self.emit(
                    "convert_element_type",
                    bit,
                    new_dtype=np.float32,
                    weak_type=False,
                    sharding=None,
                ),
                value,
            )
            for bit, value in pieces
        ]
        return self.add(self.add(terms[0], terms[1]), terms[2])

    def fitted(
        self, name: str, x: int, reach: float, error: float, coarse: float
    ) -> int:
        """By pieces; where the range is too wide for any, x is clamped first."""
        radius = math.ceil(8 * max(reach, 0.5)) / 8
        pieces = nearest_pieces(name, radius, error, coarse)
        if pieces is not None:
            return self.piecewise(name, x, pieces)
        shape = SHAPES[name]
        right, left = self.beyond(x, shape.edge)
        inside = self.add(self.emit("sub", x, right), left)
        pieces = nearest_pieces(name, shape.edge, error, math.inf)
        assert pieces is not None  # noqa: S101  (within some error there are)
        middle = self.piecewise(name, inside, pieces)
        return self.add(middle, right) if shape.rises else middle

    def piecewise(self, name: str, x: int, found: FittedPieces) -> int:
        """The piece at x of its cell."""
        return self.emit(
            "piecewise_quadratic",
            x,
            function=name,
            low=found.low,
            high=found.high,
            width=found.width,
            **vars(found.pieces),
        )

    def beyond(self, x: int, edge: float) -> tuple[int, int]:
        """How far x lies above the edge, and how far below minus the edge."""
        rows, bound = self.builder.nodes[x].shape, self.number(edge)
        sides = (x, self.emit("neg", x))
        if not rows:
            right, left = (self.emit("max", side, bound) for side in sides)
            return self.add(right, -edge), self.add(left, -edge)
        stacked = self.emit("concatenate", *sides, dimension=0)  # one comparison
        over = self.add(self.emit("max", stacked, bound), -edge)
        return self.rows(over, 0, rows), self.rows(over, rows[0], rows)

    def rows(self, x: int, start: int, shape: tuple[int, ...]) -> int:
        return self.emit(
            "slice",
            x,
            start_indices=(start, *[0] * (len(shape) - 1)),
            limit_indices=(start + shape[0], *shape[1:]),
            strides=None,
        )
