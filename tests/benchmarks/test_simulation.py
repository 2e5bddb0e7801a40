"""The benchmark of the simulator, on a model of a few weights."""

import json
from pathlib import Path

from benchmarks.simulation import main


def test_it_measures_both_ratios_and_the_exact_simulator(tmp_path: Path) -> None:
    path = tmp_path / "simulation.json"
    main(tiny=True, json_file=path)
    (result,) = json.loads(path.read_text())
    for name in ("forward", "training_step"):
        assert result[name]["ratio"] > 0
        assert len(result[name]["ratios"]) == 2
    assert result["forward"]["largest_difference_to_exact"] < 1e-6
    assert result["exact"]["together"] == result["texts"] == 4
    assert result["exact"]["seconds_together"] > 0
