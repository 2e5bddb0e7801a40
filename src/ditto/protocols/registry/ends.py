"""Rows of what is linear, of bits, and of the ways in and out of shares."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ditto.fixedpoint import FxpType
from ditto.protocols.boolean import and_bits, and_bits_cost
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.linear import (
    add,
    add_public,
    invert_bits,
    negate,
    subtract,
    sum_over,
)
from ditto.protocols.registry.forms import OWNER, Form, Result
from ditto.protocols.registry.row import (
    Protocol,
    Reals,
    fxp,
    one_matrix,
    two_matrices,
)
from ditto.protocols.reveal import (
    reveal,
    reveal_cost,
    reveal_to_client,
    reveal_to_client_cost,
)
from ditto.protocols.share import share, share_cost
from ditto.sharing import Rank, Shared, SharedBits


def end_rows() -> list[Protocol]:
    """Share and reveal."""
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
            "3l + 768 in all",
            reveal_to_client,
            reveal_to_client_cost,
            gives=Form.SUMMANDS,
            to="client",
        ),
    ]


def bit_rows() -> list[Protocol]:
    """AND, XOR, NOT."""
    return [
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
    ]


def linear_rows() -> list[Protocol]:
    """Sums, differences and public summands."""
    return [
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
    ]


def _end_row(
    name: str,
    formula: str,
    run: Callable[..., Result],
    cost: Callable[[int, FxpType], Cost],
    *,
    takes: Form = Form.SHARES,
    gives: Form = Form.SHARES,
    **parameters: str,
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
        shapes=one_matrix,
        run=run,
        plain=lambda x: x,
        cost=lambda shape: cost(prod(shape), kind),
        takes=takes,
        gives=gives,
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
        shapes=two_matrices if operands == 2 else one_matrix,
        run=run,
        plain=plain,
        cost=lambda shape, *_: cost(prod(shape)),
        takes=Form.BITS,
        gives=Form.BITS,
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
        shapes=two_matrices if operands == 2 else one_matrix,
        run=run,
        plain=plain,
        cost=lambda *_: FREE,
        terms=5,
    )


def _plain_xor(x: Reals, y: Reals) -> Reals:
    return x + y - 2 * x * y
