"""Rows of the recasts: ours, and the paper's casts beside them."""

from collections.abc import Callable
from math import prod

from ditto.fixedpoint import FxpType
from ditto.protocols.blocks import Rounds
from ditto.protocols.cost import Cost
from ditto.protocols.paper import (
    downcast_paper,
    downcast_paper_cost,
    upcast_paper,
    upcast_paper_cost,
)
from ditto.protocols.party import Party
from ditto.protocols.recast import Conversion, recast, recast_cost
from ditto.protocols.recast_in_place import recast_in_place, recast_in_place_cost
from ditto.protocols.registry.row import (
    ALL,
    BOTH,
    EXACT,
    Error,
    Protocol,
    carry_formula,
    check_of,
    fxp,
    in_place_error,
    one_matrix,
    recast_error,
    variant,
)
from ditto.sharing import Shared


def recast_rows() -> list[Protocol]:
    """Truncate, upcast, downcast and both at once."""
    types = [
        ("truncate", fxp(32, 20), fxp(32, 12)),
        ("truncate", fxp(32, 24), fxp(32, 12)),
        ("truncate", fxp(64, 36), fxp(64, 18)),
        ("truncate", fxp(14, 9), fxp(14, 4)),
        ("upcast", fxp(32, 8), fxp(64, 18)),
        ("truncate + upcast", fxp(32, 20), fxp(64, 18)),
        ("truncate + downcast", fxp(64, 50), fxp(32, 12)),
    ]
    checked = [types[0], types[5]]
    return [
        *(_recast_row(*row, rounds) for row in types for rounds in BOTH),
        _recast_row(*types[3], 3),
        *(_recast_row(*row, r, checked=True) for row in checked for r in ALL),
        _recast_row("downcast", fxp(64, 18), fxp(32, 8), 2),
        *(_in_place_row(*row) for row in types),
        *(_in_place_row(*row, checked=True) for row in checked),
    ]


def _recast_row(
    name: str, source: FxpType, to: FxpType, rounds: Rounds, *, checked: bool = False
) -> Protocol:
    carries = carry_formula(rounds)
    local = Conversion(source, to).is_local
    return Protocol(
        name=name,
        variant=variant(rounds),
        parameters={"from": str(source), "to": str(to), **check_of(checked)},
        formula="0" if local else f"l' + {carries}{' + 3' if checked else ''}",
        operands=(source,),
        result=to,
        holds=source,
        shapes=one_matrix,
        run=lambda party, x: recast(party, x, to, rounds=rounds, checked=checked),
        plain=lambda x: x,
        cost=lambda shape: recast_cost(
            prod(shape), source, to, rounds, checked=checked
        ),
        error=recast_error(source, to),
    )


def _in_place_row(
    name: str, source: FxpType, to: FxpType, *, checked: bool = False
) -> Protocol:
    return Protocol(
        name=name,
        variant="provable",
        parameters={"from": str(source), "to": str(to), **check_of(checked)},
        formula=f"5k{' + 8' if checked else ''}",
        operands=(source,),
        result=to,
        holds=source,
        shapes=one_matrix,
        run=lambda party, x: recast_in_place(party, x, to, checked=checked),
        plain=lambda x: x,
        cost=lambda shape: recast_in_place_cost(
            prod(shape), source, to, checked=checked
        ),
        error=in_place_error(source, to),
    )


def paper_rows() -> list[Protocol]:
    """UpCast and DownCast."""
    low, high = fxp(32, 8), fxp(64, 18)
    biased = Error(-3, 0, -1.5 + 1.5 * 2.0**-10)
    return [
        _paper_row("upcast", low, high, "4l' + 2l", upcast_paper, upcast_paper_cost),
        _paper_row(
            "downcast", high, low, "0", downcast_paper, downcast_paper_cost, biased
        ),
    ]


def _paper_row(
    name: str,
    source: FxpType,
    to: FxpType,
    formula: str,
    run: Callable[[Party, Shared, FxpType], Shared],
    cost: Callable[[int, FxpType, FxpType], Cost],
    error: Error = EXACT,
) -> Protocol:
    return Protocol(
        name=name,
        variant="paper",
        parameters={"from": str(source), "to": str(to)},
        formula=formula,
        operands=(source,),
        result=to,
        holds=source,
        shapes=one_matrix,
        run=lambda party, x: run(party, x, to),
        plain=lambda x: x,
        cost=lambda shape: cost(prod(shape), source, to),
        error=error,
    )
