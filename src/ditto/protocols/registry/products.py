"""Rows of the products, with and without a recast, and of lookup, which ends as one."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Array, FxpType
from ditto.protocols.blocks import Rounds
from ditto.protocols.cost import Cost
from ditto.protocols.lookup import lookup
from ditto.protocols.multiply import (
    einsum,
    matmul,
    multiply,
    product_cost,
    product_type,
    square,
    sum_of_squares,
)
from ditto.protocols.party import Party
from ditto.protocols.recast import Conversion
from ditto.protocols.registry.forms import DEPTH, Form
from ditto.protocols.registry.row import (
    ALL,
    BOTH,
    EXACT,
    Protocol,
    Reals,
    Shape,
    carry_formula,
    check_of,
    fxp,
    in_place_error,
    one_matrix,
    recast_error,
    two_matrices,
    variant,
)
from ditto.sharing import Shared, SharedIndices


@dataclass(frozen=True)
class _Product:
    """A bilinear operation: how it runs, what it is on reals, what its shapes are."""

    name: str
    run: Callable[..., Shared]
    plain: Callable[..., Reals]
    shapes: Callable[[int], tuple[Shape, ...]]
    terms: int = 1


_PRODUCTS = (
    _Product("multiply", multiply, np.multiply, two_matrices),
    _Product("square", square, np.square, one_matrix),
    _Product("matmul", matmul, np.matmul, lambda m: ((m, 4), (4, 3)), terms=4),
    _Product(
        "batched dot",
        lambda party, x, y, *rest, **given: einsum(
            party, "bij,bjk->bik", x, y, *rest, **given
        ),
        np.matmul,
        lambda m: ((2, m, 4), (2, 4, 3)),
        terms=4,
    ),
    _Product(
        "sum of squares",
        sum_of_squares,
        lambda x: np.square(x).sum(-1, keepdims=True),
        one_matrix,
        terms=5,
    ),
)


def product_rows() -> list[Protocol]:
    """Every product by itself, then with a recast fused in."""
    low, high = fxp(32, 12), fxp(64, 18)
    fused = [
        (product, operand, to)
        for product in _PRODUCTS
        for operand, to in ((low, low), (high, high), (low, high))
    ]
    narrow = (_PRODUCTS[0], low, fxp(10, 2))  # cuts so much that the carry vanishes
    short = (_PRODUCTS[0], low, fxp(32, 23))  # cuts so little that all bits are sent
    return [
        *(
            _product_row(product, operand, None, 2)
            for product in _PRODUCTS
            for operand in (low, high)
        ),
        *(
            _product_row(*row, rounds)
            for row in (*fused, narrow, short)
            for rounds in BOTH
        ),
        *(_product_row(*fused[0], rounds, checked=True) for rounds in ALL),
        *(_product_row(*row, 2, provable=True) for row in (*fused, narrow)),
        _product_row(*fused[0], 2, checked=True, provable=True),
    ]


def lookup_rows() -> list[Protocol]:
    """With and without a recast."""
    fused = (_lookup_row(fxp(32, 6), rounds) for rounds in BOTH)
    return [_lookup_row(None, 2), *fused]


def _product_row(
    product: _Product,
    operand: FxpType,
    to: FxpType | None,
    rounds: Rounds,
    *,
    checked: bool = False,
    provable: bool = False,
) -> Protocol:
    source = product_type(operand, operand)
    extra = () if to is None else (to, rounds)
    given = {"checked": True} if checked else {}
    given |= {"provable": True} if provable else {}
    target = {"to": str(to)} if to else {}
    parameters = {"operands": str(operand)} | target | check_of(checked)

    def cost(*shapes: Shape) -> Cost:
        result = product.plain(*(np.empty(shape, np.bool_) for shape in shapes))
        return product_cost(
            result.size, source, to, rounds, checked=checked, provable=provable
        )

    formula, error = _formula(source, to, rounds) + (" + 3" if checked else ""), EXACT
    if provable:
        formula = "3l + 5k" + (" + 8" if checked else "")
    if to is not None:
        of_recast = in_place_error if provable else partial(recast_error, fused=True)
        error = of_recast(source, to)
    return Protocol(
        name=product.name + (" + recast" if to else ""),
        variant="provable" if provable else variant(rounds),
        parameters=parameters,
        formula=formula,
        operands=(operand,) * len(product.shapes(1)),
        result=to or source,
        holds=source,
        shapes=product.shapes,
        run=lambda party, *operands: product.run(party, *operands, *extra, **given),
        plain=product.plain,
        cost=cost,
        error=error,
        terms=product.terms,
        degree=2,
    )


def _lookup_row(to: FxpType | None, rounds: Rounds) -> Protocol:
    kind, index = fxp(32, 12), fxp(32, 0)
    table = np.arange(DEPTH, dtype=np.int64) ** 4 - 100_000

    def run(party: Party, indices: SharedIndices) -> Shared:
        shares = _deal_fixed(table, kind)[party.rank]
        return lookup(party, indices, shares, to, rounds)

    def plain(x: Reals) -> Reals:
        rows: Array = table[np.asarray(x).astype(np.int64)]
        exact: Reals = rows * Fraction(1, 1 << kind.frac)
        return exact

    return Protocol(
        name="lookup" + (" + recast" if to else ""),
        variant=variant(rounds),
        parameters={"table": str(kind)} | ({"to": str(to)} if to else {}),
        formula=_formula(kind, to, rounds),
        operands=(index,),
        result=to or kind,
        holds=kind,
        shapes=one_matrix,
        run=run,
        plain=plain,
        cost=lambda shape: product_cost(prod(shape), kind, to, rounds),
        error=recast_error(kind, to, fused=True) if to else EXACT,
        takes=Form.INDICES,
    )


def _deal_fixed(integers: npt.NDArray[np.int64], kind: FxpType) -> list[Shared]:
    """Shares of numbers that all know, the same at every call."""
    ring = kind.ring
    x0 = ring.reduce(integers * 7919)
    x1 = ring.reduce(integers * 104_729)
    x2 = ring.reduce(integers - x0.astype(np.int64) - x1.astype(np.int64))
    return [Shared(x0, x1, kind), Shared(x1, x2, kind), Shared(x2, x0, kind)]


def _formula(source: FxpType, to: FxpType | None, rounds: Rounds) -> str:
    if to is None:
        return "3l"
    if Conversion(source, to).is_local:
        return "3l'"
    return f"2(l - d) + l' + {carry_formula(rounds)}"
