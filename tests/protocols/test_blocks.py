"""Blocks side by side, and the table of protocols that no computation loads."""

import subprocess
import sys

import numpy as np
import pytest

from ditto.fixedpoint import Words
from ditto.protocols.blocks import P1, P2, together
from ditto.protocols.party import Exchange, Expected, Field, Steps


def numbers(*values: int) -> Words:
    return np.array(values, np.uint8)


def asks(name: str, rounds: int) -> Steps[str]:
    """Sends its letter and receives a number of P1, for some rounds."""
    received = []
    for _ in range(rounds):
        inbox = yield Exchange(
            send={P2: [Field(numbers(ord(name)), 8)]}, receive={P1: [Expected(1, 8)]}
        )
        received.append(str(inbox[P1][0][0]))
    return name + "".join(received)


def waits() -> Steps[str]:
    inbox = yield Exchange()
    assert inbox == {}
    return "waited"


def test_blocks_share_messages_until_each_has_ended() -> None:
    steps = together(asks("a", 1), waits(), asks("b", 2))
    exchange = next(steps)
    assert [field.values[0] for field in exchange.send[P2]] == [ord("a"), ord("b")]
    assert exchange.receive == {P1: [Expected(1, 8)] * 2}
    exchange = steps.send({P1: [numbers(1), numbers(2)]})
    assert [field.values[0] for field in exchange.send[P2]] == [ord("b")]
    with pytest.raises(StopIteration) as ended:
        steps.send({P1: [numbers(3)]})
    assert ended.value.value == ["a1", "waited", "b23"]


def test_the_table_of_protocols_is_not_in_the_products_path() -> None:
    check = (
        "import sys, ditto.compiler, ditto.protocols; "
        "sys.exit('ditto.protocols.registry' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
