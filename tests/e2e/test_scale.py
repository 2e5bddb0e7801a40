"""The floor at its final size: large tensors, many steps, three real processes."""

from collections.abc import Iterator

import pytest

from ditto.runtime import ProcessTrio

from .parties import many_steps, square_many


@pytest.fixture(scope="module")
def trio() -> Iterator[ProcessTrio]:
    with ProcessTrio() as parties:
        yield parties


def test_ten_million_elements(trio: ProcessTrio) -> None:
    replies = trio.call(square_many, {"count": 10**7})
    assert replies[0][0]["ulp"] <= 1


def test_two_thousand_steps(trio: ProcessTrio) -> None:
    steps = 2000
    replies = trio.call(many_steps, {"steps": steps})
    drifts = {reply["drift"] for reply, _ in replies}
    assert len(drifts) == 1
    # a product without a fraction errs by 1 ulp in one of 2^12 steps: Poisson, mean 0.5
    assert drifts.pop() <= 12
