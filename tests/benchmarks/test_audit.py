"""Who is caught by proofs, and what they cost, with a tiny model."""

import json
from pathlib import Path

from tests.benchmarks.test_commands import benchmark


def test_deviations_are_caught_and_proofs_are_counted_apart(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    tiny = ("--preset", "bert-tiny", "--tokens", "8", "--repeat", "1")
    counts = ("--trials", "10", "--honest", "12")
    options = (*counts, *tiny, "--runs", "1x1,1x2", "--json", str(file))
    done = benchmark("audit", *options)
    assert done.returncode == 0, done.stderr
    trials, one, two = json.loads(file.read_text())
    assert trials["honest_runs"] == 12
    assert sum(trials["deviations"].values()) == 10
    assert trials["deviations"] == trials["stopped_by_both"]
    assert trials["false_alarms"] == 0
    assert (one["batch"], two["batch"]) == (1, 2)
    off, products, recasts = one["audits"].values()
    assert off["proof_bytes"] == 0
    # and the bits of products that a recast cuts off (tests/audit/test_runs.py)
    assert products["bytes"] > off["bytes"] + products["proof_bytes"]
    assert recasts["proof_bytes"] >= products["proof_bytes"] > 0
    assert "coarse_max" in recasts["covers"]
    assert two["audits"]["off"]["bytes"] > off["bytes"]
    assert min(each["memory_bytes"] for each in two["audits"].values()) > 1e8
    assert benchmark("audit", "--runs", "1").returncode == 4
    again = benchmark("audit", "--trials", "0", "--runs", "", "--json", str(file))
    assert again.returncode == 0, again.stderr
    assert json.loads(file.read_text()) == [trials]
