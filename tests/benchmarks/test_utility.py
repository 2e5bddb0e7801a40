"""The utility table, with a network of one layer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIELDS = {
    "model", "task", "metric", "row", "score", "mode", "examples", "seed", "agreement",
}  # fmt: skip


def command(place: Path, rows: str) -> list[str]:
    file = Path(__file__).parents[2] / "benchmarks" / "utility.py"
    told = ["--tiny", "--mpc", "3", "--rows", rows, "--work", str(place / "work")]
    return [sys.executable, str(file), *told, "--json", str(place / "utility.json")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("utility")
    subprocess.run(command(folder, "ditto,ditto_quad_square"), check=True, timeout=400)
    return folder


def rows(place: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((place / "utility.json").read_text())[
        "rows"
    ]
    return found


def test_every_cell_says_who_computed_it(place: Path) -> None:
    cells = [(row["row"], row["mode"], row["examples"]) for row in rows(place)]
    assert cells == [
        ("float", "float", 24),
        ("ditto", "simulate", 24),
        ("ditto", "mpc", 3),
        ("ditto_quad_square", "simulate", 24),
        ("ditto_quad_square", "mpc", 3),
    ]
    for row in rows(place):
        assert {*row} >= FIELDS
        assert ("drop_points" in row) == (row["mode"] != "mpc")


def test_parties_answer_as_the_simulator_and_send_what_the_plan_declares(
    place: Path,
) -> None:
    by_mode = {(row["row"], row["mode"]): row for row in rows(place)}
    for name in ("ditto", "ditto_quad_square"):
        parties, simulator = by_mode[name, "mpc"], by_mode[name, "simulate"]
        assert parties["as_simulator"] == 3
        for field in ("bytes", "rounds"):
            assert parties[field] == simulator[field]


def test_the_teacher_has_learnt_and_loses_nothing(place: Path) -> None:
    by_mode = {(row["row"], row["mode"]): row for row in rows(place)}
    assert by_mode["float", "float"]["score"] == 1.0
    assert by_mode["ditto", "simulate"]["drop_points"] == 0.0


def test_what_is_there_is_kept(place: Path) -> None:
    before = rows(place)
    subprocess.run(command(place, "ditto"), check=True, timeout=100)
    assert rows(place) == before
