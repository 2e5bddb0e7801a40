"""Every row of the registry over every channel: right, consistent, as declared."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.engine import Trio, as_arrays
from ditto.protocols import PROTOCOLS, Protocol
from ditto.protocols.party import SPLIT_FROM
from ditto.sharing import Shared, combine, deal

from .parties import run_row

ROWS = [pytest.param(row, id=row.key) for row in PROTOCOLS]
SETTINGS = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def execute(trio: Trio, row: Protocol, integers: list[np.ndarray]):
    """Run a row on plaintext integers: (exact result in ulp, shares, meters)."""
    dealt = [
        deal(t.ring.reduce(x), t) for x, t in zip(integers, row.operands, strict=True)
    ]
    arrays = [as_arrays([shares[rank] for shares in dealt]) for rank in range(3)]
    replies = trio.call(run_row, {"key": row.key}, arrays)
    shares = [Shared(out["first"], out["second"], row.result) for _, out in replies]
    reals = [
        as_fractions(x, Fraction(2) ** -t.frac)
        for x, t in zip(integers, row.operands, strict=True)
    ]
    exact = row.plain(*reals) * Fraction(2) ** row.result.frac
    return exact, shares, [meter for meter, _ in replies]


def as_fractions(integers: np.ndarray, ulp: Fraction) -> np.ndarray:
    exact = np.empty(integers.shape, object)
    exact.flat = [int(v) * ulp for v in integers.flat]
    return exact


def errors_of(row: Protocol, exact: np.ndarray, shares: list[Shared]) -> np.ndarray:
    got = row.result.ring.signed(combine(shares))  # combine checks consistency
    assert got.shape == exact.shape
    return np.array([int(g) - e for g, e in zip(got.flat, exact.flat, strict=True)])


def assert_within(row: Protocol, errors: np.ndarray) -> None:
    assert errors.min() >= Fraction(row.error.low)
    assert errors.max() <= Fraction(row.error.high)


def assert_costs_declared(row: Protocol, rows: int, meters: list[dict]) -> None:
    declared = row.cost(*row.shapes(rows))
    assert 8 * sum(meter["bytes"] for meter in meters) == declared.bits
    assert max(meter["rounds"] for meter in meters) == declared.rounds


@pytest.mark.parametrize("row", ROWS)
@SETTINGS
@given(data=st.data())
def test_small_tensors(trio: Trio, row: Protocol, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 20), label="rows")
    limit = row.operand_limit - 1
    integers = [
        data.draw(hnp.arrays(np.int64, shape, elements=st.integers(-limit, limit)))
        for shape in row.shapes(rows)
    ]
    exact, shares, meters = execute(trio, row, integers)
    assert_within(row, errors_of(row, exact, shares))
    assert_costs_declared(row, rows, meters)


@pytest.mark.parametrize("row", ROWS)
def test_range_limits(trio: Trio, row: Protocol) -> None:
    limit = row.operand_limit - 1
    extremes = np.array([limit, -limit, limit - 1, 1 - limit, 1, -1, 0])
    integers = [np.resize(extremes, shape) for shape in row.shapes(14)]
    exact, shares, meters = execute(trio, row, integers)
    assert_within(row, errors_of(row, exact, shares))
    assert_costs_declared(row, 14, meters)


@pytest.mark.parametrize("row", ROWS)
def test_large_tensors_in_rotated_parts(trio: Trio, row: Protocol) -> None:
    results_per_row = row.plain(*(np.ones(s) for s in row.shapes(1))).size
    rows = SPLIT_FROM // results_per_row + 5
    rng = np.random.default_rng(7)
    limit = row.operand_limit
    integers = [rng.integers(1 - limit, limit, shape) for shape in row.shapes(rows)]
    exact, shares, meters = execute(trio, row, integers)
    assert_within(row, errors_of(row, exact, shares))
    assert_costs_declared(row, rows, meters)
    sent = np.array([meter["sent"] for meter in meters])
    links = [sent[i, j] + sent[j, i] for i, j in ((0, 1), (1, 2), (2, 0))]
    assert max(links) - min(links) <= 0.01 * max(links)
