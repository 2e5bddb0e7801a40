"""Every row of the registry over every channel: right, consistent, as declared."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto.protocols.party import SPLIT_FROM
from ditto.protocols.registry import PROTOCOLS, Form, Protocol, gather
from ditto.runtime import Trio

from .parties import replay_a_step, run_row

ROWS = [pytest.param(row, id=row.key) for row in PROTOCOLS]
SETTINGS = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def execute(trio: Trio, row: Protocol, integers: list[np.ndarray]):
    """Run a row on plain integers: (errors in ulp, what each party counted)."""
    arrays = row.deal(integers)
    replies = trio.call(run_row, {"key": row.key}, arrays)
    got = gather(row.gives, [out for _, out in replies], row.result)
    reals = [
        as_fractions(x, Fraction(2) ** -t.frac)
        for x, t in zip(integers, row.operands, strict=True)
    ]
    exact = row.plain(*reals) * Fraction(2) ** row.result.frac
    assert got.shape == exact.shape
    errors = [int(g) - e for g, e in zip(got.flat, exact.flat, strict=True)]
    return errors, [meter for meter, _ in replies]


def as_fractions(integers: np.ndarray, ulp: Fraction) -> np.ndarray:
    exact = np.empty(integers.shape, object)
    exact.flat = [int(v) * ulp for v in integers.flat]
    return exact


def assert_within(row: Protocol, errors: list[Fraction]) -> None:
    assert min(errors) >= Fraction(row.error.low)
    assert max(errors) <= Fraction(row.error.high)


def assert_costs_declared(row: Protocol, rows: int, meters: list[dict]) -> None:
    declared = row.cost(*row.shapes(rows))
    assert 8 * sum(meter["bytes"] for meter in meters) == declared.bits
    assert max(meter["rounds"] for meter in meters) == declared.rounds


@pytest.mark.parametrize("row", ROWS)
@SETTINGS
@given(data=st.data())
def test_small_tensors(trio: Trio, row: Protocol, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 20), label="rows")
    elements = st.integers(*row.domain)
    integers = [
        data.draw(hnp.arrays(np.int64, shape, elements=elements))
        for shape in row.shapes(rows)
    ]
    errors, meters = execute(trio, row, integers)
    assert_within(row, errors)
    assert_costs_declared(row, rows, meters)


@pytest.mark.parametrize("row", ROWS)
def test_range_limits(trio: Trio, row: Protocol) -> None:
    low, high = row.domain
    corners = [low, low + 1, -1, 0, 1, high - 1, high]
    extremes = np.unique(np.clip(corners, low, high))
    integers = [np.resize(extremes, shape) for shape in row.shapes(14)]
    errors, meters = execute(trio, row, integers)
    assert_within(row, errors)
    assert_costs_declared(row, 14, meters)


@pytest.mark.parametrize("row", ROWS)
def test_large_tensors_in_rotated_parts(trio: Trio, row: Protocol) -> None:
    results_per_row = row.plain(*(np.ones(s) for s in row.shapes(1))).size
    few = row.work > 16  # then the parts are of few values, and their products whole
    rows = 48 if few else SPLIT_FROM // results_per_row + 5
    rng = np.random.default_rng(7)
    integers = [
        rng.integers(*row.domain, shape, endpoint=True) for shape in row.shapes(rows)
    ]
    errors, meters = execute(trio, row, integers)
    assert_within(row, errors)
    assert_costs_declared(row, rows, meters)
    sent = np.array([meter["sent"] for meter in meters])
    links = [sent[i, j] + sent[j, i] for i, j in ((0, 1), (1, 2), (2, 0))]
    if (
        row.takes in (Form.SHARES, Form.BITS)
        and not few
        and row.parameters.get("to") != "one party"
    ):
        assert max(links) - min(links) <= 0.01 * max(links)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "reveal" in row.id or "+" in row.id]
)
def test_masks_are_never_given_out_twice(trio: Trio, row: Protocol) -> None:
    arrays = row.deal([np.zeros(shape, np.int64) for shape in row.shapes(4)])
    for said, _ in trio.call(replay_a_step, {"key": row.key}, arrays):
        assert "masks may have been used" in said["refused"]
