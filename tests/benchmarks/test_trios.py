"""The figures of two trios are those of the results file; they reach the goal.

What the command does is run in ``tests/e2e/test_rolling_upgrade.py``.
"""

import json

from tests.conftest import HERE

RESULT = json.loads((HERE.parent / "docs" / "results" / "trios.json").read_text())


def test_two_trios_answer_more_than_one_where_the_network_is_the_limit() -> None:
    guide = (HERE.parent / "docs" / "how-to" / "operate.md").read_text()
    assert f"two trios answer {RESULT['ratio']:.1f} times as many" in guide
    assert RESULT["ratio"] >= 1.7
    assert RESULT["measured"]["rtt"] > 0.035
    assert max(part["cores"] for part in RESULT["parts"]) < 0.5


def test_a_trio_that_was_killed_failed_no_request() -> None:
    killed = RESULT["one_trio_killed"]
    assert (RESULT["failed"], RESULT["wrong"]) == (0, 0)
    assert (killed["failed"], killed["wrong"]) == (0, 0)
    assert killed["completed"] >= 3 * RESULT["threads"]
