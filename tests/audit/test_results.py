"""What the texts say of audits is what was measured."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_says_what_was_measured() -> None:
    measured = (ROOT / "docs" / "results" / "audit.json").read_text("utf-8")
    trials, *models = json.loads(measured)
    page = (ROOT / "docs" / "explanation" / "audit.md").read_text("utf-8")
    tried, stopped = trials["deviations"], trials["stopped_by_both"]
    assert trials["false_alarms"] == 0
    assert stopped == tried
    assert f"In {trials['honest_runs']} honest runs" in page
    assert f"all of {sum(tried.values())} deviations" in page
    for model in models:
        for audit, cost in model["audits"].items():
            sent, proofs = cost["bytes"] / 1e6, cost["proof_bytes"] / 1e6
            cells = f"{sent:.3f} | {proofs:.3f} | {cost['rounds']} | "
            cells += f"{cost['cpu_seconds']:.2f} | {cost['memory_bytes'] / 1e9:.1f} |"
            place = f"| {model['layers']} | {model['batch']} | `{audit}` |"
            assert f"{place} {cells}" in page
    (whole,) = (m for m in models if m["layers"] == 12)
    off, products, recasts = whole["audits"].values()
    bytes_, seconds = (
        [each[name] / off[name] for each in (recasts, products)]
        for name in ("bytes", "cpu_seconds")
    )
    assert f"send {bytes_[0]:.2f} times the bytes" in page
    assert f"with `products` {bytes_[1]:.2f} times" in page
    assert f"need {seconds[0]:.1f} and {seconds[1]:.1f} times as much" in page
    assert recasts["proof_bytes"] < recasts["bytes"] / 1000
