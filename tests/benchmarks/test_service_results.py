"""What the service was measured to do, as ``docs/results`` has it, reaches the goals.

The commands run in their short form in ``test_chaos.py``.
"""

import json

import pytest

from ditto.files import Json
from tests.conftest import HERE

RESULTS = HERE.parent / "docs" / "results"


def result(name: str) -> Json:
    read: Json = json.loads((RESULTS / f"{name}.json").read_text())
    return read


def test_a_thousand_requests_leave_nothing_behind() -> None:
    soak = result("soak")
    assert (soak["completed"], soak["clients"]) == (1000, 8)
    assert (soak["failed"], soak["wrong"]) == (0, 0)
    assert soak["rss_growth"] < 0.05
    assert soak["fd_growth"] < 0.05


def test_parties_that_break_are_back_in_time() -> None:
    chaos = result("chaos")
    assert (chaos["faults"], chaos["stopped_seconds"]) == (30, 30.0)
    assert (chaos["wrong"], chaos["hangs"]) == (0, 0)
    assert chaos["worst_recovery_seconds"] < 10
    assert {*chaos["worst_by_kind"]} == {"kill", "stop", "cut"}
    guide = (RESULTS.parent / "how-to" / "measure.md").read_text()
    assert f"back after {chaos['worst_recovery_seconds']:.1f} s" in guide


def test_a_private_search_finds_the_same() -> None:
    search = result("search")
    assert (search["texts"], search["queries"]) == (200, 50)
    assert search["same_top_hit"] >= 49
    assert search["in_range"]


def test_the_service_adds_little() -> None:
    service = result("service")
    assert service["ratio"] <= 1.1
    assert service["repeat"] >= 20


def test_lanes_and_batches_answer_more_on_a_wan() -> None:
    found = result("throughput")
    assert found["measured"]["rtt"] > 0.039
    a_second = {
        (row["lanes"], row["batch"], row["at_once"]): row["requests_per_second"]
        for row in found["rows"]
    }
    alone, lanes, batches = (a_second[key] for key in ((1, 1, 1), (4, 1, 8), (1, 8, 8)))
    assert lanes > 1.5 * a_second[1, 1, 8]
    page = (RESULTS.parent / "explanation" / "serving.md").read_text()
    assert f"four lanes answer **{lanes / alone:.1f} times**" in page
    assert f"batches of 8 answer **{batches / alone:.1f} times**" in page


@pytest.mark.parametrize("name", ["soak", "chaos", "search", "service", "throughput"])
def test_every_result_is_listed(name: str) -> None:
    assert f"({name}.json)" in (RESULTS / "README.md").read_text()
