"""What two files of plans are compared for."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.plans import PlanRow, StepRow, app

STEPS = [StepRow("local", "a", 0, 0), StepRow("recast", "a/b", 84.0, 2)]
ROW = PlanRow("layer", "ditto", "quad", 84.0, 2, "ab", [1.0, 2.0], 0.01, STEPS)


def compare(folder: Path, *after: PlanRow) -> tuple[int, str, str]:
    for name, rows in (("before.json", [ROW]), ("after.json", after)):
        whole = {"plans": [asdict(row) for row in rows]}
        (folder / name).write_text(json.dumps(whole))
    files = [str(folder / name) for name in ("before.json", "after.json")]
    done = CliRunner().invoke(app, ["compare", *files])
    return done.exit_code, done.stdout, done.stderr


def test_the_same(tmp_path: Path) -> None:
    code, table, notes = compare(tmp_path, ROW)
    assert (code, notes) == (0, "")
    assert "| layer | ditto | quad | 2 | 84 | 84 | 2 | 2 | yes | yes |" in table


def test_another_name_of_a_step_is_no_difference(tmp_path: Path) -> None:
    renamed = [replace(STEPS[0], kind="linear_map"), STEPS[1]]
    code, _, notes = compare(tmp_path, replace(ROW, steps=renamed))
    assert (code, notes) == (0, "renamed: local to linear_map\n")


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (replace(ROW, steps=STEPS[:1]), "2 steps became 1"),
        (replace(ROW, steps=STEPS[::-1]), "step 0 (local, now recast, in a/b): 0.0"),
        (replace(ROW, answer_sha256="cd", answer=[1.0, 2.5]), "differ by up to 0.5"),
        (replace(ROW, profile="spu"), "only in"),
    ],
)
def test_a_difference(tmp_path: Path, after: PlanRow, reason: str) -> None:
    code, _, notes = compare(tmp_path, after)
    assert code == 1
    assert reason in notes
