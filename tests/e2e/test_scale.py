"""The floor at its final size: large tensors, many steps, three real processes."""

import math
from collections.abc import Iterator

import pytest

from ditto.protocols import product_type
from ditto.protocols.recast import Conversion
from ditto.runtime import ProcessTrio

from .parties import LOW, many_steps, square_many


@pytest.fixture(scope="module")
def trio() -> Iterator[ProcessTrio]:
    with ProcessTrio() as parties:
        yield parties


def test_ten_million_elements(trio: ProcessTrio) -> None:
    replies = trio.call(square_many, {"count": 10**7})
    source = product_type(LOW, LOW)
    assert replies[0][0]["ulp"] <= 1 + Conversion(source, LOW).blur


def test_two_thousand_steps(trio: ProcessTrio) -> None:
    steps = 2000
    replies = trio.call(many_steps, {"steps": steps})
    drifts = {reply["drift"] for reply, _ in replies}
    assert len(drifts) == 1
    # the bits left out are triangular up to a quarter of a ulp: a product without a
    # fraction errs in one of 12 steps, up as often as down; 32 elements, six sigma
    assert drifts.pop() <= 6 * math.sqrt(steps / 12)
