"""``ditto demo`` is what a newcomer types first."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.documents import check_document

MOST_SECONDS = 60


def demo(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from ditto.cli import main; main()",
            "demo",
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "kept")},
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_first_private_answer_within_a_minute(tmp_path: Path) -> None:
    found = json.loads(demo(tmp_path, "--json", "-").stdout)
    check_document("demo", found)
    assert [each["label"] for each in found["answers"]] == [
        "positive", "negative", "negative",
    ]  # fmt: skip
    for each in found["answers"]:
        assert max(each["float"], key=each["float"].get) == each["label"]
    assert found["bytes"] > 0
    assert found["all_seconds"] < MOST_SECONDS
    printed = demo(tmp_path, "--text", "A wonderful film.").stdout  # plans are kept
    assert "positive" in printed
    assert "party alice" in printed
    # the text is no uniform string, what a party got of it is
    bars = {
        line.split()[1 if "party" in line else 2]: line.split()[-2]
        for line in printed.splitlines()
        if "▁" in line or "▇" in line or "█" in line
    }
    assert bars["itself"].count("▁") > 10
    assert all("▁" not in bars[name] for name in ("alice", "bob", "carol"))
