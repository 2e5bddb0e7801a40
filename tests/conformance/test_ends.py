"""The protocols with another form at one end: share, reveal, the client, bits."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.engine import Trio, as_arrays
from ditto.fixedpoint import FxpType, Ring
from ditto.protocols import (
    and_bits_cost,
    open_at_client,
    reveal_cost,
    reveal_to_client_cost,
    share_cost,
)
from ditto.sharing import (
    Rank,
    Shared,
    SharedBits,
    combine,
    combine_bits,
    deal,
    deal_bits,
    pack,
)

from .parties import run_and, run_reveal, run_reveal_to_client, run_share

SETTINGS = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
WIDTHS = [12, 32, 64]


def tensors(bits: int) -> st.SearchStrategy[np.ndarray]:
    ring = Ring(bits)
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)
    return shapes.flatmap(
        lambda shape: hnp.arrays(
            ring.dtype, shape, elements=st.integers(0, (1 << bits) - 1)
        )
    )


def measured(replies: list) -> tuple[int, int]:
    bits = 8 * sum(meter["bytes"] for meter, _ in replies)
    return bits, max(meter["rounds"] for meter, _ in replies)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("owner", list(Rank))
@SETTINGS
@given(data=st.data())
def test_share(trio: Trio, owner: Rank, bits: int, data: st.DataObject) -> None:
    secret = data.draw(tensors(bits))
    parameters = {"owner": int(owner), "bits": bits, "shape": list(secret.shape)}
    replies = trio.call(run_share, parameters, [{"integers": secret}] * 3)
    kind = FxpType(bits, 0)
    shares = [Shared(out["first"], out["second"], kind) for _, out in replies]
    assert np.array_equal(combine(shares), secret)
    cost = share_cost(secret.size, kind)
    assert measured(replies) == (cost.bits, cost.rounds)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("to", [0, 1, 2, "all"])
@SETTINGS
@given(data=st.data())
def test_reveal(trio: Trio, to: int | str, bits: int, data: st.DataObject) -> None:
    secret = data.draw(tensors(bits))
    kind = FxpType(bits, 0)
    arrays = [as_arrays([share]) for share in deal(secret, kind)]
    replies = trio.call(run_reveal, {"bits": bits, "to": to}, arrays)
    for rank, (_, out) in enumerate(replies):
        if to in ("all", rank):
            assert np.array_equal(out["opened"], secret)
        else:
            assert out == {}
    cost = reveal_cost(secret.size, kind, to="all" if to == "all" else Rank(to))
    assert measured(replies) == (cost.bits, cost.rounds)


@pytest.mark.parametrize("bits", WIDTHS)
@SETTINGS
@given(data=st.data())
def test_reveal_to_client(trio: Trio, bits: int, data: st.DataObject) -> None:
    secret = data.draw(tensors(bits))
    kind = FxpType(bits, 0)
    dealt = deal(secret, kind)
    replies = trio.call(
        run_reveal_to_client, {"bits": bits}, [as_arrays([s]) for s in dealt]
    )
    summands = [out["summand"] for _, out in replies]
    assert np.array_equal(open_at_client(summands, kind), secret)
    assert measured(replies) == (0, 0)  # nothing between the parties
    on_the_wire = 8 * sum(pack(summand, bits).size for summand in summands)
    assert on_the_wire == reveal_to_client_cost(secret.size, kind).bits
    if secret.size > 4 and bits == 64:  # the client must not see the shares themselves
        assert not any(
            np.array_equal(a, d.first) for a, d in zip(summands, dealt, strict=True)
        )


@SETTINGS
@given(data=st.data())
def test_and(trio: Trio, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
    x, y = (data.draw(hnp.arrays(np.bool_, shape)) for _ in range(2))
    arrays = [
        {"x1": a.first, "x2": a.second, "y1": b.first, "y2": b.second}
        for a, b in zip(deal_bits(x), deal_bits(y), strict=True)
    ]
    replies = trio.call(run_and, {"shape": list(shape)}, arrays)
    shares = [SharedBits(out["first"], out["second"], shape) for _, out in replies]
    assert np.array_equal(combine_bits(shares), x & y)
    cost = and_bits_cost(x.size)
    assert measured(replies) == (cost.bits, cost.rounds)
