"""The protocols with another form at one end: share, reveal, the client, bits."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.fixedpoint import FxpType, Ring
from ditto.protocols import (
    and_bits_cost,
    reveal_cost,
    reveal_to_client_cost,
    share_cost,
)
from ditto.runtime import Trio, as_arrays
from ditto.sharing import (
    Rank,
    Revealed,
    Shared,
    SharedBits,
    add_summands,
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
    revealed = [Revealed.from_arrays(out, "x") for _, out in replies]
    summands = [part.summand for part in revealed]
    assert np.array_equal(add_summands(revealed, kind), secret)
    assert measured(replies) == (0, 0)  # nothing between the parties
    on_the_wire = sum(
        pack(part.summand, bits).size + part.hash_of_next.size for part in revealed
    )
    assert 8 * on_the_wire == reveal_to_client_cost(secret.size, kind).bits
    if secret.size > 4 and bits == 64:  # the client must not see the shares themselves
        assert not any(
            np.array_equal(a, d.first) for a, d in zip(summands, dealt, strict=True)
        )


def test_shares_themselves_would_tell_the_client_more_than_answers() -> None:
    """Why they are masked: x is recast three times, each time with other roles.

    Given the three answers, the shares x_j >> t that make them up have another
    distribution for one x than for another.
    """
    bits, cut, answers = 5, 2, (2, 2, 2)
    size, bias = 1 << bits, 1 << (bits - 2)

    def recast(a: int, s: int) -> int:
        carry = (1 - (s >> (bits - 1))) * (1 - (a >> (bits - 1))) - 1
        shifted = (a >> cut) + (s >> cut) + (carry << (bits - cut))
        return (shifted - (bias >> cut) + 1) % size

    def seen(x: int) -> dict[tuple[int, ...], float]:
        views: Counter[tuple[int, ...]] = Counter()
        for x0, x1 in product(range(size), repeat=2):
            shares = (x0, x1, (x - x0 - x1) % size)
            a = [(share + bias) % size for share in shares]
            got = [recast(a[j], (x - shares[j]) % size) for j in range(3)]
            if tuple(got) == answers:
                views[tuple(each >> cut for each in a)] += 1
        return {view: n / views.total() for view, n in views.items()}

    one, other = seen(6), seen(7)
    distance = sum(
        abs(one.get(view, 0.0) - other.get(view, 0.0)) for view in {*one, *other}
    )
    assert distance / 2 > 0.2


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
