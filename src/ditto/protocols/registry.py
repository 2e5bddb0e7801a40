"""The one table of all protocols: what they compute, what they cost, how they err.

Each row can be run, priced and checked without knowing the protocol: the conformance
suite holds every row to it, the bench prints it, and a plaintext simulator has in
``plain`` the exact result and in ``error`` how far the shares may be from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isqrt, prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import FxpType
from ditto.protocols.boolean import and_bits, and_bits_cost
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.curve import Curve, Function, curve, curve_cost
from ditto.protocols.forms import DEPTH, OWNER, Form
from ditto.protocols.linear import (
    add,
    add_public,
    invert_bits,
    negate,
    subtract,
    sum_over,
)
from ditto.protocols.lookup import lookup
from ditto.protocols.maximum import Grid, coarse_max, coarse_max_cost
from ditto.protocols.multiply import (
    einsum,
    matmul,
    multiply,
    product_cost,
    product_type,
    square,
    sum_of_squares,
)
from ditto.protocols.paper import (
    downcast_paper,
    downcast_paper_cost,
    upcast_paper,
    upcast_paper_cost,
)
from ditto.protocols.party import Party
from ditto.protocols.recast import Conversion, Rounds, recast, recast_cost
from ditto.protocols.reveal import (
    reveal,
    reveal_cost,
    reveal_to_client,
    reveal_to_client_cost,
)
from ditto.protocols.share import share, share_cost
from ditto.sharing import Rank, Shared, SharedBits, SharedIndices

Variant = Literal["ours", "ours-one-round", "paper"]
Reals = npt.NDArray[np.float64]
Shape = tuple[int, ...]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Error:
    """Result minus exact value, in ulp of the result: low <= error <= high."""

    low: float
    high: float
    mean: float


EXACT = Error(0, 0, 0)


@dataclass(frozen=True)
class Protocol:
    """One row: a protocol with its parameters fixed, on shares of given types."""

    name: str
    variant: Variant
    parameters: dict[str, Any]
    formula: str
    operands: tuple[FxpType, ...]
    result: FxpType
    holds: FxpType
    """The type in which the result must fit before it is recast."""
    shapes: Callable[[int], tuple[Shape, ...]]
    """Shapes of operands that go together, growing with their leading dimension."""
    run: Callable[..., Any]
    """run(party, *operands), in the forms below."""
    plain: Callable[..., Reals]
    """The exact result on reals; a recast's is not rounded."""
    cost: Callable[..., Cost]
    """cost(*shapes) of operands of these shapes."""
    error: Error = EXACT
    terms: int = 1
    """Summands of one result element, for operands of these shapes."""
    degree: int = 1
    """2 for a product of operands, 1 for a linear map."""
    takes: Form = Form.SHARES
    gives: Form = Form.SHARES
    between: tuple[int, int] | None = None
    """The smallest and the largest operand, where the ring does not say it all."""
    work: int = 1
    """How many times the work of a product an element is, as benchmarks count it."""

    @property
    def key(self) -> str:
        """A readable identity."""
        given = " ".join(f"{k}={v}" for k, v in self.parameters.items())
        return " ".join(part for part in (self.name, self.variant, given) if part)

    @property
    def domain(self) -> tuple[int, int]:
        """Smallest and largest integers for which operands and results fit."""
        if self.between:
            return self.between
        if self.takes == Form.BITS:
            return 0, 1
        if self.takes == Form.INDICES:
            return 0, DEPTH - 1
        return 1 - self._operand_limit, self._operand_limit - 1

    @property
    def _operand_limit(self) -> int:
        spare = self.holds.frac - self.result.frac
        room = self.result.limit << spare if spare >= 0 else self.result.limit >> -spare
        each = min(self.holds.limit, room) // self.terms
        reach = isqrt(each) if self.degree == 2 else each
        return min(reach, *(operand.limit for operand in self.operands))


def fxp(bits: int, frac: int) -> FxpType:
    """Short for the table below."""
    return FxpType(bits=bits, frac=frac)


def _recast_error(source: FxpType, to: FxpType, *, fused: bool = False) -> Error:
    conversion = Conversion(source, to)
    if conversion.cut == 0:
        return EXACT
    if conversion.is_local and not fused:
        return Error(-1.5, 1.5, 1.5 * 2.0**-conversion.cut)
    return Error(-1, 1, 2.0**-conversion.cut)


def _recast_row(name: str, source: FxpType, to: FxpType, rounds: Rounds) -> Protocol:
    carries = 3 if rounds == 2 else 4
    local = Conversion(source, to).is_local
    return Protocol(
        name=name,
        variant="ours" if rounds == 2 else "ours-one-round",
        parameters={"from": str(source), "to": str(to)},
        formula="0" if local else f"l' + {carries}k",
        operands=(source,),
        result=to,
        holds=source,
        shapes=_one_matrix,
        run=partial(_run_recast, to=to, rounds=rounds),
        plain=lambda x: x,
        cost=lambda shape: recast_cost(prod(shape), source, to, rounds),
        error=_recast_error(source, to),
    )


def _plain_xor(x: Reals, y: Reals) -> Reals:
    return x + y - 2 * x * y


def _one_matrix(rows: int) -> tuple[Shape, ...]:
    return ((rows, 5),)


def _two_matrices(rows: int) -> tuple[Shape, ...]:
    return ((rows, 5), (rows, 5))


def _run_recast(party: Party, x: Shared, *, to: FxpType, rounds: Rounds) -> Shared:
    return recast(party, x, to, rounds=rounds)


@dataclass(frozen=True)
class _Product:
    """A bilinear operation: how it runs, what it is on reals, what its shapes are."""

    name: str
    run: Callable[..., Shared]
    plain: Callable[..., Reals]
    shapes: Callable[[int], tuple[Shape, ...]]
    terms: int = 1


_PRODUCTS = (
    _Product("multiply", multiply, np.multiply, _two_matrices),
    _Product("square", square, np.square, _one_matrix),
    _Product("matmul", matmul, np.matmul, lambda m: ((m, 4), (4, 3)), terms=4),
    _Product(
        "batched dot",
        lambda party, x, y, *rest: einsum(party, "bij,bjk->bik", x, y, *rest),
        np.matmul,
        lambda m: ((2, m, 4), (2, 4, 3)),
        terms=4,
    ),
    _Product(
        "sum of squares",
        sum_of_squares,
        lambda x: np.square(x).sum(-1, keepdims=True),
        _one_matrix,
        terms=5,
    ),
)


def _product_row(
    product: _Product, operand: FxpType, to: FxpType | None, rounds: Rounds
) -> Protocol:
    source = product_type(operand, operand)
    extra = () if to is None else (to, rounds)
    carries = 3 if rounds == 2 else 4
    parameters = {"operands": str(operand)} | ({"to": str(to)} if to else {})

    def cost(*shapes: Shape) -> Cost:
        result = product.plain(*(np.empty(shape, np.bool_) for shape in shapes))
        return product_cost(result.size, source, to, rounds)

    return Protocol(
        name=product.name + (" + recast" if to else ""),
        variant="ours" if rounds == 2 else "ours-one-round",
        parameters=parameters,
        formula=f"2l + l' + {carries}k" if to else "3l",
        operands=(operand,) * len(product.shapes(1)),
        result=to or source,
        holds=source,
        shapes=product.shapes,
        run=lambda party, *operands: product.run(party, *operands, *extra),
        plain=product.plain,
        cost=cost,
        error=_recast_error(source, to, fused=True) if to else EXACT,
        terms=product.terms,
        degree=2,
    )


def _linear_row(
    name: str, run: Callable[..., Shared], plain: Callable[..., Reals], operands: int
) -> Protocol:
    operand = fxp(32, 12)
    return Protocol(
        name=name,
        variant="ours",
        parameters={},
        formula="0",
        operands=(operand,) * operands,
        result=operand,
        holds=operand,
        shapes=_two_matrices if operands == 2 else _one_matrix,
        run=run,
        plain=plain,
        cost=lambda *_: FREE,
        terms=5,
    )


def _paper_rows() -> list[Protocol]:
    up, down = (fxp(32, 8), fxp(64, 18)), (fxp(64, 18), fxp(32, 8))
    return [
        Protocol(
            name="upcast",
            variant="paper",
            parameters={"from": str(up[0]), "to": str(up[1])},
            formula="4l' + 2l",
            operands=up[:1],
            result=up[1],
            holds=up[0],
            shapes=_one_matrix,
            run=partial(upcast_paper, to=up[1]),
            plain=lambda x: x,
            cost=lambda shape: upcast_paper_cost(prod(shape), *up),
        ),
        Protocol(
            name="downcast",
            variant="paper",
            parameters={"from": str(down[0]), "to": str(down[1])},
            formula="0",
            operands=down[:1],
            result=down[1],
            holds=down[0],
            shapes=_one_matrix,
            run=partial(downcast_paper, to=down[1]),
            plain=lambda x: x,
            cost=lambda shape: downcast_paper_cost(prod(shape), *down),
            error=Error(-3, 0, -1.5 + 1.5 * 2.0**-10),
        ),
    ]


def _end_row(
    name: str,
    formula: str,
    run: Callable[..., Any],
    cost: Callable[[int, FxpType], Cost],
    *,
    takes: Form = Form.SHARES,
    gives: Form = Form.SHARES,
    **parameters: Any,
) -> Protocol:
    """A row whose tensor is not in shares at one end."""
    kind = fxp(32, 12)
    return Protocol(
        name=name,
        variant="ours",
        parameters=parameters,
        formula=formula,
        operands=(kind,),
        result=kind,
        holds=kind,
        shapes=_one_matrix,
        run=run,
        plain=lambda x: x,
        cost=lambda shape: cost(prod(shape), kind),
        takes=takes,
        gives=gives,
    )


def _ends() -> list[Protocol]:
    return [
        _end_row(
            "share",
            "2l",
            lambda party, x: share(
                party, x.integers, x.type, owner=OWNER, shape=x.shape
            ),
            share_cost,
            takes=Form.OWNED,
        ),
        _end_row(
            "reveal",
            "l",
            lambda party, x: reveal(party, x, to=Rank.P1),
            partial(reveal_cost, to=Rank.P1),
            gives=Form.OPENED,
            to="one party",
        ),
        _end_row("reveal", "3l", reveal, reveal_cost, gives=Form.OPENED, to="all"),
        _end_row(
            "reveal",
            "3l",
            reveal_to_client,
            reveal_to_client_cost,
            gives=Form.SUMMANDS,
            to="client",
        ),
    ]


def _lookup_row(to: FxpType | None, rounds: Rounds) -> Protocol:
    kind, index = fxp(32, 12), fxp(32, 0)
    table = np.arange(DEPTH, dtype=np.int64) ** 4 - 100_000

    def run(party: Party, indices: SharedIndices) -> Shared:
        held = deal_fixed(table, kind)[party.rank]
        return lookup(party, indices, held, to, rounds)

    def plain(x: Any) -> Any:
        found: Any = table[np.asarray(x).astype(np.int64)]
        return found * Fraction(1, 1 << kind.frac)

    return Protocol(
        name="lookup" + (" + recast" if to else ""),
        variant="ours" if rounds == 2 else "ours-one-round",
        parameters={"table": str(kind)} | ({"to": str(to)} if to else {}),
        formula=f"2l + l' + {3 if rounds == 2 else 4}k" if to else "3l",
        operands=(index,),
        result=to or kind,
        holds=kind,
        shapes=_one_matrix,
        run=run,
        plain=plain,
        cost=lambda shape: product_cost(prod(shape), kind, to, rounds),
        error=_recast_error(kind, to, fused=True) if to else EXACT,
        takes=Form.INDICES,
    )


def deal_fixed(integers: npt.NDArray[np.int64], kind: FxpType) -> list[Shared]:
    """Shares of numbers that all know, the same at every call."""
    ring = kind.ring
    x0 = ring.reduce(integers * 7919)
    x1 = ring.reduce(integers * 104_729)
    x2 = ring.reduce(integers - x0.astype(np.int64) - x1.astype(np.int64))
    return [Shared(x0, x1, kind), Shared(x1, x2, kind), Shared(x2, x0, kind)]


def _maximum_row(low: float, high: float, cut: int, rounds: Rounds) -> Protocol:
    kind, length = fxp(32, 12), 5
    ends = int(low * 2**kind.frac), int(high * 2**kind.frac)
    grid = Grid(kind, *ends, cut)
    return Protocol(
        name="coarse max",
        variant="ours" if rounds == 2 else "ours-one-round",
        parameters={"of": str(kind), "levels": str(grid.levels)},
        formula="nV + (5k - 3)V + w(V + 2)"
        if rounds == 2
        else "nV + (5k - 3)V + w(2V + 1)",
        operands=(kind,),
        result=kind,
        holds=kind,
        shapes=lambda rows: ((rows, length),),
        run=lambda party, x: coarse_max(party, x, grid, rounds),
        plain=lambda x: x.max(-1, keepdims=True),
        cost=lambda shape: coarse_max_cost(shape[0], length, grid, rounds),
        error=Error(-(2**cut), 2**cut, 0),
        between=(ends[0], ends[1] - 1),
        work=16,
    )


def _curve_row(
    function: Function,
    source: FxpType,
    to: FxpType,
    ends: Ends,
    rounds: Rounds,
    widths: Literal[1, 2] = 1,
) -> Protocol:
    low, high = (int(x * 2**source.frac) for x in ends)
    shape = Curve(function, source, to, low, high, widths=widths)
    cells = sum(scale.cells for scale in shape.scales)

    def plain(x: Any) -> Any:
        if function == "reciprocal":
            return 1 / x
        if x.dtype != object:
            return x**-0.5
        return np.vectorize(lambda v: Fraction(float(v) ** -0.5), otypes="O")(x)

    return Protocol(
        name=function,
        variant="ours" if rounds == 2 else "ours-one-round",
        parameters={"of": str(source), "to": str(to), "cells": str(cells)},
        formula="2(129h + 128) + 9l, and two products",
        operands=(source,),
        result=to,
        holds=to,
        shapes=_one_matrix,
        run=lambda party, x: curve(party, x, shape, rounds),
        plain=plain,
        cost=lambda size: curve_cost(prod(size), shape, rounds),
        error=Error(-shape.error, shape.error, 0),
        between=(shape.low, shape.high - 1),
        work=cells,
    )


def _bit_row(
    name: str,
    formula: str,
    run: Callable[..., SharedBits],
    plain: Callable[..., Reals],
    cost: Callable[[int], Cost],
    operands: int = 2,
) -> Protocol:
    bit = fxp(2, 0)  # a bit, as a plain integer
    return Protocol(
        name=name,
        variant="ours",
        parameters={},
        formula=formula,
        operands=(bit,) * operands,
        result=bit,
        holds=bit,
        shapes=_two_matrices if operands == 2 else _one_matrix,
        run=run,
        plain=plain,
        cost=lambda shape, *_: cost(prod(shape)),
        takes=Form.BITS,
        gives=Form.BITS,
    )


def _rows() -> list[Protocol]:
    both: tuple[Rounds, Rounds] = (2, 1)
    recasts = [
        ("truncate", fxp(32, 20), fxp(32, 12)),
        ("truncate", fxp(32, 24), fxp(32, 12)),
        ("truncate", fxp(64, 36), fxp(64, 18)),
        ("truncate", fxp(14, 9), fxp(14, 4)),
        ("upcast", fxp(32, 8), fxp(64, 18)),
        ("truncate + upcast", fxp(32, 20), fxp(64, 18)),
        ("truncate + downcast", fxp(64, 50), fxp(32, 12)),
    ]
    low, high = fxp(32, 12), fxp(64, 18)
    fused = [
        (product, operand, to)
        for product in _PRODUCTS
        for operand, to in ((low, low), (high, high), (low, high))
    ]
    narrow = (_PRODUCTS[0], low, fxp(10, 2))  # cuts so much that the carry vanishes
    return [
        *_ends(),
        _bit_row("and", "3", and_bits, np.multiply, and_bits_cost),
        _bit_row("xor", "0", lambda _, x, y: x ^ y, _plain_xor, lambda _: FREE),
        _bit_row(
            "not",
            "0",
            lambda party, x: invert_bits(party.rank, x),
            lambda x: 1 - x,
            lambda _: FREE,
            operands=1,
        ),
        _linear_row("add", lambda _, x, y: add(x, y), np.add, 2),
        _linear_row("subtract", lambda _, x, y: subtract(x, y), np.subtract, 2),
        _linear_row("negate", lambda _, x: negate(x), np.negative, 1),
        _linear_row(
            "add public",
            lambda party, x: add_public(party.rank, x, 0.375),
            lambda x: x + 0.375,
            1,
        ),
        _linear_row(
            "sum",
            lambda _, x: sum_over(x, -1),
            lambda x: x.sum(-1, keepdims=True),
            1,
        ),
        *(_recast_row(*row, rounds) for row in recasts for rounds in both),
        _recast_row("downcast", fxp(64, 18), fxp(32, 8), 2),
        *_paper_rows(),
        *(_maximum_row(-5.0, 9.0, 11, rounds) for rounds in both),
        *(_maximum_row(*row, 2) for row in ((-0.25, 0.5, 9), (-90.0, 40.0, 12))),
        *(
            _curve_row("reciprocal", fxp(32, 16), fxp(32, 20), (0.5, 60.0), rounds)
            for rounds in both
        ),
        *(
            _curve_row(
                "reciprocal", fxp(32, 14), fxp(32, 20), (0.3, 900.0), rounds, widths=2
            )
            for rounds in both
        ),
        *(
            _curve_row("rsqrt", fxp(32, 18), fxp(32, 24), (50.0, 900.0), rounds)
            for rounds in both
        ),
        _lookup_row(None, 2),
        *(_lookup_row(fxp(32, 6), rounds) for rounds in both),
        *(
            _product_row(p, operand, None, 2)
            for p in _PRODUCTS
            for operand in (low, high)
        ),
        *(_product_row(*row, rounds) for row in (*fused, narrow) for rounds in both),
    ]


PROTOCOLS: tuple[Protocol, ...] = tuple(_rows())
"""All protocols."""
