"""How a report writes numbers."""

import pytest

from benchmarks.report.text import significant, size


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (0.012345, "0.0123"), (1.7, "1.70"), (9.996, "10.0"), (1234, "1230")],
)
def test_three_digits(value: float, said: str) -> None:
    assert significant(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0.0 MB"), (893.3e6, "893.3 MB"), (999.96e6, "1.00 GB"), (27.8e9, "27.80 GB")],
)
def test_sizes(value: float, said: str) -> None:
    assert size(value) == said
