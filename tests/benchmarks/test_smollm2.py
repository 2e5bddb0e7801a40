"""The language model's benchmark, with a random model of two layers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import ROOT


def measure(file: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.smollm2", "--tiny", *arguments]
    subprocess.run([*command, "--json", str(file)], cwd=ROOT, check=True, timeout=400)
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """In two calls: the second does what the first left."""
    file = tmp_path_factory.mktemp("smollm2") / "results.json"
    first = measure(file, "--windows", "1", "--prompts", "0")
    assert first["perplexity_tokens"] == 16
    assert "prompts" not in first
    both = measure(file)
    assert both["windows"][:1] == first["windows"]  # type: ignore[index]
    return both


def test_the_simulator_is_as_good_as_float(results: dict[str, object]) -> None:
    assert results["perplexity_tokens"] == 32
    assert results["windows_out_of_range"] == 0
    assert abs(float(str(results["perplexity_more"]))) < 0.02


def test_parties_take_the_tokens_of_float(results: dict[str, object]) -> None:
    """Or one that float has as good as the same."""
    gaps = results["gaps"]
    assert isinstance(gaps, list)
    assert results["prompts"] == int(str(results["greedy_same"])) + len(gaps) == 2
    assert all(gap < 0.05 for gap in gaps)
    for name in ("prefill", "token"):
        for unit in ("bytes", "rounds", "seconds"):
            assert float(str(results[f"{name}_{unit}"])) > 0
    assert float(str(results["memory_bytes"])) > 1e8
