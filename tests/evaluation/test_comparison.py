"""A classifier by several profiles and modes, side by side."""

from pathlib import Path

from ditto.compiler import PROFILES
from ditto.evaluation import Setting, compare_modes, evenly_spaced
from tests.folders import TEXTS, bert_folder


def test_the_examples_of_the_parties_are_evenly_spaced() -> None:
    assert evenly_spaced(10, 20) == list(range(10))
    assert evenly_spaced(100, 4) == [0, 25, 50, 75]


def test_a_row_for_each_profile_and_mode(data: Path, tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert")
    setting = Setting(PROFILES["ditto"], TEXTS, length=16)
    modes = ("float", "simulate", "mpc")
    profiles = [PROFILES["ditto"]]
    found = compare_modes(
        folder, "sst2", data, modes, profiles, setting, limit=4, mpc_examples=2
    )
    assert [(row.profile, row.mode, row.count) for row in found.rows] == [
        ("", "float", 4), ("ditto", "simulate", 4), ("ditto", "mpc", 2),
    ]  # fmt: skip
    plain, simulated, private = found.rows
    assert plain.as_in_float is None
    assert simulated.as_in_float == private.as_in_simulator == 1.0
    assert simulated.headroom_bits is not None
    assert simulated.headroom_bits > 0
    assert private.largest_difference is not None
    assert 0 < private.largest_difference < 0.05
    assert private.bytes is not None
    assert private.bytes > 0 < (private.rounds or 0)
    assert list(private.labels) == [1, 3]
    low, high = simulated.intervals["accuracy"]
    assert low <= simulated.scores["accuracy"] <= high
    assert not found.overflows
    assert not found.doubts
